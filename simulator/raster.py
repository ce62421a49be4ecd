"""Raster orders: linear ids to tile coordinates over panels, and back.

One grid axis is cut into panels; inside a panel the id runs across the panel first, then along the other
axis. The last panel of a width that does not divide the axis is narrower (TileLang `tile_schedule.py` at a35008a42,
the arithmetic of #2441 is the same) or padded to the width of the others (the loops before it): docs/schedulers.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import InputError

__all__ = ["IntArray", "RasterOrder", "padded_decode", "panel_decode", "panel_encode"]

IntArray: TypeAlias = npt.NDArray[np.signedinteger[Any]]


class RasterOrder(StrEnum):
    """Which axis is cut into panels. CUTLASS and quack call opposite walks `AlongM`, hence these names."""

    PANEL_N = "panel-n"  # panels of `panel_width` tile columns, walked along M; TileLang column_major=True
    PANEL_M = "panel-m"  # panels of `panel_width` tile rows, walked along N; TileLang column_major=False

    @classmethod
    def parse(cls, text: str) -> RasterOrder:
        """Accept the names above and TileLang's `column`/`row`; InputError otherwise."""
        try:
            return _RASTER_NAMES[text.lower()]
        except KeyError:
            raise InputError(f"raster={text!r} is unknown; known: {', '.join(_RASTER_NAMES)}") from None


_RASTER_NAMES = {
    "panel-n": RasterOrder.PANEL_N,
    "panel-m": RasterOrder.PANEL_M,
    "column": RasterOrder.PANEL_N,
    "row": RasterOrder.PANEL_M,
}


def panel_decode(
    linear: IntArray, rows: int, columns: int, panel_width: int, order: RasterOrder
) -> tuple[IntArray, IntArray]:
    """Coordinates (m, n) of `linear` ids on a rows × columns grid; ids past the grid fall outside it.

    Ids are >= 0 and int32 or int64; the result has their type. Needs rows, columns, panel_width >= 1.
    """
    along, across = (rows, columns) if order is RasterOrder.PANEL_N else (columns, rows)
    panel_width = min(panel_width, across)  # the same tiles, and the products below stay in 32 bits
    panel_ids = along * panel_width
    full_panels = across // panel_width
    panel = linear // panel_ids
    in_tail = panel >= full_panels
    width: int | IntArray = panel_width
    if in_tail.any():  # otherwise division by a scalar, which NumPy turns into a multiplication
        panel = np.minimum(panel, full_panels)  # ids past the grid run off the tail
        width = np.where(in_tail, max(across - full_panels * panel_width, 1), panel_width).astype(linear.dtype)
    offset = linear - panel * panel_ids
    fast = offset // width
    slow = offset - fast * width + panel * panel_width
    return (fast, slow) if order is RasterOrder.PANEL_N else (slow, fast)


def padded_decode(
    linear: IntArray, along: int, panel_width: int, order: RasterOrder, num_ids: int
) -> tuple[IntArray, IntArray]:
    """Coordinates (m, n) of `linear` ids below `num_ids` where all panels are whole: they run on without end.

    Ids are >= 0 and int32 or int64; the result has their type. Needs along, panel_width >= 1.
    """
    panel_width = min(panel_width, max(1, num_ids))  # no id reaches a second panel then: the same, and in 32 bits
    step = linear // panel_width
    panel = step // along
    fast = step - panel * along
    slow = (linear - step * panel_width) + panel * panel_width
    return (fast, slow) if order is RasterOrder.PANEL_N else (slow, fast)


def panel_encode(m: IntArray, n: IntArray, rows: int, columns: int, panel_width: int, order: RasterOrder) -> IntArray:
    """Inverse of `panel_decode` on tiles inside the rows × columns grid."""
    along, across = (rows, columns) if order is RasterOrder.PANEL_N else (columns, rows)
    fast, slow = (m, n) if order is RasterOrder.PANEL_N else (n, m)
    panel_width = min(panel_width, across)
    base = slow // panel_width * panel_width
    width = np.minimum(panel_width, across - base)
    return base * along + fast * width + (slow - base)
