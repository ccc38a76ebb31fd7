"""Profiles: what is asked of a kind of set, as named thresholds, and what measures each of them."""

from collections.abc import Callable, Mapping
from functools import partial

from strataprobe.datasets import claims, cues
from strataprobe.datasets.claims import Faults, Measure

# What a profile asks, and the threshold that still passes: the name says which way it counts. The
# thresholds of `moral`, `sentiment`, `syntax`, `compositional`, `paraphrase` and `adversarial` are what
# the shipped sets claim; those of `generic` are what a file of anyone's can be asked.
PROFILES: Mapping[str, Mapping[str, float]] = {
    "moral": {
        "length_ratio_at_most": 1.5,  # characters of the longer half over those of the shorter
        "words_at_least": 6,  # in either half
        "words_at_most": 16,
        "content_overlap_at_least": 0.6,  # shared content words over those of the half that has more
        "pairs_not_differing_in_one_word_at_most": 0,
        "contrast_not_the_words_that_differ_at_most": 0,
        "moral_keywords_on_the_neutral_side_at_most": 0,
        "repeated_sentences_at_most": 0,
        "contrast_words_on_both_sides_at_most": 0,
        "group_balance_at_least": 1,  # pairs in the smallest group over pairs in the largest
        "distinct_contrast_words_at_least": 25,  # in each group, on each side
        "opening_uses_at_most": 2,  # pairs that begin with the same four words
    },
    "sentiment": {
        "length_ratio_at_most": 1.5,
        "words_at_least": 6,
        "words_at_most": 16,
        "pairs_not_differing_in_one_word_at_most": 0,
        "contrast_not_the_words_that_differ_at_most": 0,
        "repeated_sentences_at_most": 0,
        "contrast_words_on_both_sides_at_most": 0,
        "group_balance_at_least": 1,
        "distinct_contrast_words_at_least": 15,
        "distinct_contrast_words_of_a_side_at_least": 60,  # in the whole set, on each side
        "opening_uses_at_most": 2,
    },
    "syntax": {
        "length_ratio_at_most": 1.5,
        "words_at_least": 6,
        "words_at_most": 16,
        "word_difference_at_most": 0,  # between the two halves
        "repeated_sentences_at_most": 0,
        "group_balance_at_least": 1,
        "opening_uses_at_most": 2,
    },
    "compositional": {
        "alphabetic_difference_at_most": 2,  # alphabetic tokens between the two halves
        "words_at_least": 8,
        "words_at_most": 20,
        "content_overlap_at_least": 0.6,
        "blocklist_words_at_most": 0,
        "repeated_sentences_at_most": 0,
        "pairs_without_contrast_words_at_most": 0,
        "contrast_word_uses_at_most": 4,  # pairs that use the same contrast word
        "contrast_words_shared_between_groups_at_most": 0.05,  # as a share of all contrast words
        "contrast_length_gap_at_most": 1,  # letters between the sides' mean contrast words, in a group
        "group_balance_at_least": 1,
        "opening_uses_at_most": 2,
    },
    "paraphrase": {
        "pairs_not_differing_in_one_word_at_most": 0,
        "contrast_not_the_words_that_differ_at_most": 0,
        "moral_keywords_on_the_neutral_side_at_most": 0,
        "repeated_sentences_at_most": 0,
        "group_balance_at_least": 1,
    },
    "adversarial": {
        "words_at_least": 6,
        "words_at_most": 24,
        "repeated_sentences_at_most": 0,
        "contrast_not_in_its_half_at_most": 0,
        "contrast_words_on_both_sides_at_most": 0,
        "group_balance_at_least": 1,
        "opening_uses_at_most": 2,
        "words_cue_at_most": 0.1,  # |accuracy - 0.5| of the cue alone, in each group
        "characters_cue_at_most": 0.1,
        "position_cue_at_most": 0.1,
        "function_words_cue_at_most": 0.1,
    },
    "generic": {
        "length_ratio_at_most": 2,
        "content_overlap_at_least": 0.3,
        "repeated_sentences_at_most": 0,
        "group_balance_at_least": 0.5,
        "opening_uses_at_most": 5,
    },
}

# Gates that need a list of words: the list, what is asked where a profile does not say, the measure.
LISTS: Mapping[str, tuple[str, float, Callable[..., Faults]]] = {
    "moral_keywords_on_the_neutral_side_at_most": ("keywords", 0, claims.keywords_on_the_negative_side),
    "blocklist_words_at_most": ("blocklist", 0, claims.words_of_a_list),
    "animate_words_differ_at_most": ("animate", 0.05, claims.animate_differ),  # share of pairs
}

# What a gate measures, by its name without `_at_most` or `_at_least`.
MEASURES: Mapping[str, Measure] = {
    "length_ratio": claims.length_ratios,
    "words": claims.words,
    "word_difference": claims.word_differences,
    "alphabetic_difference": claims.alphabetic_differences,
    "content_overlap": claims.content_overlaps,
    "pairs_not_differing_in_one_word": claims.not_one_word,
    "contrast_not_the_words_that_differ": claims.wrong_contrast,
    "pairs_without_contrast_words": claims.without_contrast,
    "repeated_sentences": claims.repeated_sentences,
    "contrast_words_on_both_sides": claims.on_both_sides,
    "group_balance": claims.balance,
    "distinct_contrast_words": claims.distinct_by_group,
    "distinct_contrast_words_of_a_side": claims.distinct_by_side,
    "opening_uses": claims.opening_uses,
    "contrast_word_uses": claims.contrast_uses,
    "contrast_words_shared_between_groups": claims.contrast_shared,
    "contrast_length_gap": claims.contrast_length_gaps,
    "contrast_not_in_its_half": cues.contrast_not_in_its_half,
    **{f"{cue}_cue": partial(cues.cue_distances, cue=cue) for cue in cues.CUES},
}
