"""Rows of small sets that just pass one gate, and rows that just fail it."""

SENTENCES = [
    ("The porter {} the duchess near the old harbor gate.", "betrayed", "followed"),
    ("After lunch, Kofi {} a parcel from the warehouse.", "stole", "fetched"),
    ("Most sailors found the new captain rather {}.", "cruel", "quiet"),
    ("We {} our cousin in Lima last summer.", "nursed", "called"),
]


def swap(sentence, positive, negative, group="a", **fields):
    """A pair of one sentence with a word swapped."""
    halves = {"positive": sentence.format(positive), "negative": sentence.format(negative)}
    return {**halves, "group": group, "contrast": [positive, negative], **fields}


def two(positive, negative, group="a", contrast=()):
    return {"positive": positive, "negative": negative, "group": group, "contrast": list(contrast)}


def leaning(count, one, other):
    """20 pairs, of which the first `count` have `one` on the positive side, the rest on the negative.

    Each pair has words of its own, of equal length, and names the first of them.
    """
    rows = []
    for number in range(20):
        own = [f"{letter}{number + 10}" for letter in "xyz"]
        halves = [one.format(*own), other.format(*own)]
        rows.append(two(*(halves if number < count else halves[::-1]), contrast=[own[0], own[0]]))
    return rows


# gate, threshold, rows that just pass, rows that just fail, what the gate then names
CASES = [
    ("length_ratio_at_most", 1.5, [two("a" * 9, "b" * 6)], [two("a" * 10, "b" * 6)], "a0: 1.667"),
    ("words_at_least", 3, [two("one two - three", "a b c")], [two("one - two", "a b c")], "a0:positive: 2"),
    ("words_at_most", 3, [two("one two three", "a b c")], [two("a b c", "a b c d")], "a0:negative: 4"),
    ("word_difference_at_most", 0, [two("a b", "b a")], [two("a b", "b a c")], "a0: 1"),
    (
        "alphabetic_difference_at_most",
        2,
        [two("her", "her brother's 7", contrast=["her"])],
        [two("her", "her brother's dog", contrast=["her"])],
        "a0: 3",
    ),
    (
        "content_overlap_at_least",
        0.6,
        [two("Red green blue gray tan.", "Red green blue pink white.")],
        [two("Red green blue tan.", "The red green pink white.")],
        "a0: 0.5",
    ),
    (
        "pairs_not_differing_in_one_word_at_most",
        0,
        [two("A red, red dog.", "A red, wet dog.")],
        [two("A red, red dog.", "A red wet dog.")],
        "a0: 'A red, red dog.' and 'A red wet dog.'",
    ),
    (
        "contrast_not_the_words_that_differ_at_most",
        0,
        [two("A red dog.", "A wet dog.", contrast=["red", "wet"])],
        [two("A red dog.", "A wet dog.", contrast=["wet", "red"])],
        "a0: ['wet', 'red'] is said, ['red', 'wet'] differ",
    ),
    (
        "pairs_without_contrast_words_at_most",
        0,
        [two("Ann paid Bob.", "Bob paid Ann.", contrast=["Ann"]), two("A red dog.", "A wet dog.")],
        [two("Ann paid Bob.", "Bob paid Ann.")],
        "a0",
    ),
    (
        "moral_keywords_on_the_neutral_side_at_most",
        0,
        [two("The betrayer's evil dog.", "The bets of the devil.")],
        [two("A bet.", "The betrayer's Evil.")],
        "a0: 'betrayer's' (betray*)",
    ),
    (
        "blocklist_words_at_most",
        0,
        [two("The devil bets.", "Medieval bets.")],
        [two("It is evil.", "It is not.")],
        "a0:positive: 'evil' (evil)",
    ),
    (
        "animate_words_differ_at_most",
        0.5,
        [two("Porters came.", "Trucks came."), two("A porter met porters.", "The porter, a porter.")],
        [
            two("Porters came.", "Trucks came."),
            two("A porter.", "It."),
            two("I.", "Me."),
        ],
        "a0: 1 and 0",
    ),
    (
        "repeated_sentences_at_most",
        0,
        [two("He has 3 dogs.", "He has 4 dogs.")],
        [two("He has 3 dogs.", "He, has: 3 DOGS!")],
        "a0:negative is a0:positive: 'He, has: 3 DOGS!'",
    ),
    (
        "contrast_words_on_both_sides_at_most",
        0,
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "Red", "old")],
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "old", "Red")],
        "'red' is positive in a0 and negative in a1",
    ),
    (
        "group_balance_at_least",
        0.5,
        [*(swap(*SENTENCES[n]) for n in (0, 1)), swap(*SENTENCES[2], group="b")],
        [*(swap(*SENTENCES[n]) for n in (0, 1, 2)), swap(*SENTENCES[3], group="b")],
        "b (1 pairs): 0.333",
    ),
    (
        "distinct_contrast_words_at_least",
        2,
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "tan", "old")],
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "tan", "WET")],
        "a negative: 1",
    ),
    (
        "distinct_contrast_words_of_a_side_at_least",
        2,
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "tan", "old", group="b")],
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "RED", "old", group="b")],
        "positive: 1",
    ),
    (
        "opening_uses_at_most",
        1,
        [swap("The old man and {}", "she", "he"), swap("The old man or {}", "they", "we")],
        [swap("The old, Man and {}", "she", "he"), swap("The old man and his {}", "dog", "cat")],
        "'the old man and': 2",
    ),
    (
        "contrast_word_uses_at_most",
        1,
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "tan", "old")],
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "Wet", "old")],
        "'wet': 2",
    ),
    (
        "contrast_words_shared_between_groups_at_most",
        0.2,
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "red", "tan", "b"), swap("{}!", "no", "yes")],
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "red", "tan", "b"), swap("{}!", "no", "red")],
        "'red' in a, b",
    ),
    (
        "contrast_length_gap_at_most",
        1,
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "brown", "old")],
        [swap("A {} dog.", "red", "wet"), swap("Our {} cat.", "orange", "old")],
        "a: 1.5",
    ),
    (
        "contrast_not_in_its_half_at_most",
        0,
        [two("Ann paid Bob.", "Bob paid Ann.", contrast=["Ann", "Bob"])],
        [two("Ann paid Bob.", "Bob paid him.", contrast=["Ann", "Ann"])],
        "a0: ['Ann', 'Ann']",
    ),
    # A cue that 12 of 20 pairs follow labels 0.6 of the halves rightly; one that 13 follow, 0.65.
    (
        "words_cue_at_most",
        0.1,
        leaning(12, "{} {} {}.", "{} xyz{}."),
        leaning(13, "{} {} {}.", "{} xyz{}."),
        "a (accuracy 0.650): 0.15",
    ),
    (
        "characters_cue_at_most",
        0.1,
        leaning(12, "{} loooong {}.", "{} short {}."),
        leaning(13, "{} loooong {}.", "{} short {}."),
        "a (accuracy 0.650): 0.15",
    ),
    (
        "position_cue_at_most",
        0.1,
        leaning(12, "{} cat {}.", "cat, {} {}."),
        leaning(13, "{} cat {}.", "cat, {} {}."),
        "a (accuracy 0.650): 0.15",
    ),
    (
        "function_words_cue_at_most",
        0.1,
        leaning(12, "The {} cat {}.", "A {} cat {}."),
        leaning(13, "The {} cat {}.", "A {} cat {}."),
        "a (accuracy 0.650): 0.15",
    ),
]
