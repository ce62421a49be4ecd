"""Two schedulers of one's own for `tilesched-sim --scheduler-file examples/grouped.py:FUNCTION`.

Both group `panel_width` tile columns and walk down the rows. `grouped_floor` takes the number of groups rounded down,
as a real scheduler once did, and loses tiles when the width does not divide the columns; `grouped_tail` does not.
"""

from __future__ import annotations


def grouped_tail(linear: int, tiles_m: int, tiles_n: int, panel_width: int) -> tuple[int, int] | None:
    """Linear id to tile, with a narrower last group."""
    if linear >= tiles_m * tiles_n:
        return None
    group, rest = divmod(linear, tiles_m * panel_width)
    first = group * panel_width
    width = min(panel_width, tiles_n - first)
    return rest // width, first + rest % width


def grouped_floor(linear: int, tiles_m: int, tiles_n: int, panel_width: int) -> tuple[int, int] | None:
    """The same with every group as wide as the first: ids run past the last column."""
    if linear >= tiles_m * tiles_n:
        return None
    width = min(panel_width, tiles_n)
    column, rest = linear % width, linear // width
    return rest % tiles_m, rest // tiles_m * width + column
