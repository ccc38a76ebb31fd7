"""What tests look for in a figure: its lines, its words, and what is in the way of what."""

import pandas as pd


def line(axes, start: str):
    found = [each for each in axes.lines if str(each.get_label()).startswith(start)]
    assert len(found) == 1, f"{start}: {[each.get_label() for each in axes.lines]}"
    return found[0]


def labels(axes) -> list[str]:
    return [str(each.get_label()) for each in axes.get_children()]


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def values(frame: pd.DataFrame, column="value", **equal) -> list[float]:
    """A column of the rows with these values, by rising step."""
    for name, value in equal.items():
        frame = frame[frame[name].astype(str) == str(value)]
    return frame.sort_values("step", kind="stable")[column].astype(float).tolist()


def band(axes, number: int) -> dict[float, tuple[float, float]]:
    """x -> (low, high) of a filled band."""
    corners = axes.collections[number].get_paths()[0].vertices
    return {
        x: (corners[corners[:, 0] == x, 1].min(), corners[corners[:, 0] == x, 1].max()) for x in corners[:, 0]
    }


def axis_words(axis) -> list:
    """The label and the tick labels of an axis that lie in its range: others are not drawn."""
    low, high = sorted(axis.get_view_interval())
    # Inner panels have ticks without labels.
    ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
    return [axis.label, *[text for place, text in ticks if low <= place <= high]]


def overlapping(figure, texts) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes share some area."""
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text().strip()]
    return [
        (one, other)
        for place, (one, box) in enumerate(boxes)
        for other, beside in boxes[place + 1 :]
        if box.x0 < beside.x1 and beside.x0 < box.x1 and box.y0 < beside.y1 and beside.y0 < box.y1
    ]


def words(figure) -> list:
    """All texts of a figure that are seen."""
    figure.draw_without_rendering()
    texts = [figure._suptitle, figure._supxlabel]
    for axes in figure.axes:
        texts += [axes.title, axes._left_title, *axes.texts]
        if axes.axison:
            texts += [*axis_words(axes.xaxis), *axis_words(axes.yaxis)]
        if axes.get_legend():
            texts += axes.get_legend().get_texts()
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def beyond(figure, texts) -> list[str]:
    """The texts that leave the page."""
    figure.draw_without_rendering()
    page, boxes = figure.bbox, [(text.get_text(), text.get_window_extent()) for text in texts]
    return [
        said
        for said, box in boxes
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1
    ]


def legends_on_panels(figure) -> list[list[str]]:
    """What legends say that lie on a panel; there must be a legend."""
    figure.draw_without_rendering()
    panels = [axes.get_window_extent() for axes in figure.axes if axes.axison]
    found = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    assert found
    boxes = [(each, each.get_window_extent()) for each in found]
    return [
        [text.get_text() for text in each.get_texts()]
        for each, box in boxes
        if any(box.x0 < at.x1 and at.x0 < box.x1 and box.y0 < at.y1 and at.y0 < box.y1 for at in panels)
    ]


def looks_of(axes) -> list[tuple]:
    """Of each line in the legend, what is seen in grey print too."""
    named = [each for each in axes.lines if not str(each.get_label()).startswith("_")]
    return [(str(each._dash_pattern), each.get_marker(), each.get_linestyle() == "None") for each in named]
