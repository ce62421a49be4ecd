"""What a mapping makes of its ids, as a few boxes of tiles and a few runs of ids: enough to decide coverage.

A structure says what enumeration would find, in a size that does not grow with the number of tiles. `panel_structure`
makes it for panels of every kind; it is derived from the definition of the walk, and held against enumeration by tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .intmath import round_up
from .raster import RasterOrder

__all__ = ["Box", "PanelWalk", "Run", "Structure", "panel_structure"]


@dataclass(frozen=True, slots=True)
class Box:
    """All tiles (m, n) with m and n in these ranges; both have step 1."""

    m: range
    n: range

    @property
    def size(self) -> int:
        """Tiles."""
        return len(self.m) * len(self.n)

    def meet(self, other: Box) -> Box:
        """The tiles of both."""
        return Box(_meet(self.m, other.m), _meet(self.n, other.n))

    def minus(self, other: Box) -> list[Box]:
        """The tiles that are not in `other`, as disjoint boxes: above, below, left and right of what both have."""
        both = self.meet(other)
        if not both.size:
            return [self] if self.size else []
        m, n = self.m, self.n
        pieces = (
            Box(range(m.start, both.m.start), n),
            Box(range(both.m.stop, m.stop), n),
            Box(both.m, range(n.start, both.n.start)),
            Box(both.m, range(both.n.stop, n.stop)),
        )
        return [piece for piece in pieces if piece.size]


@dataclass(frozen=True, slots=True)
class Run:
    """The ids of `ids` in order, in periods of `width`: of each period the first `kept` are emitted."""

    ids: range
    width: int = 1
    kept: int = 1

    def emitted(self, stop: int) -> int:
        """Ids of this run below `stop` that are emitted."""
        periods, rest = divmod(max(0, min(stop, self.ids.stop) - self.ids.start), self.width)
        return periods * self.kept + min(rest, self.kept)


@dataclass(frozen=True, slots=True)
class PanelWalk:
    """Ids along panels of `width` of the axis `across`: across a panel first, then along it, then the next panel.

    `padded`: the last panel is as wide as the others and runs past the axis; otherwise it is narrower.
    `serpentine`: odd panels are walked backwards. Sizes are in cluster tiles.
    """

    along: int
    across: int
    width: int
    order: RasterOrder
    padded: bool = False
    serpentine: bool = False

    @property
    def num_ids(self) -> int:
        """Ids of the whole walk."""
        return self.along * (round_up(self.across, self.width) if self.padded else self.across)

    @property
    def grid(self) -> Box:
        """The tiles of the walk that do not lie past `across`."""
        return self._box(range(self.along), range(self.across))

    def locate(self, m: int, n: int) -> int:
        """The id of tile (m, n)."""
        fast, slow = (m, n) if self.order is RasterOrder.PANEL_N else (n, m)
        panel, offset = divmod(slow, self.width)
        fast = self.along - 1 - fast if self._backwards(panel) else fast
        return panel * self.width * self.along + fast * self._panel_width(panel) + offset

    def boxes(self, stop: int) -> Iterator[Box]:
        """The tiles of the ids [0, stop), for 0 <= stop <= num_ids: whole panels, whole steps, and the rest of one."""
        whole, rest = divmod(stop, self.width * self.along)
        yield self._box(range(self.along), range(whole * self.width))
        first = whole * self.width
        steps, tiles = divmod(rest, self._panel_width(whole))
        yield self._box(self._steps(whole, 0, steps), range(first, first + self._panel_width(whole)))
        yield self._box(self._steps(whole, steps, steps + 1), range(first, first + tiles))

    def _backwards(self, panel: int) -> bool:
        return self.serpentine and panel % 2 == 1

    def _panel_width(self, panel: int) -> int:
        return self.width if self.padded else max(1, min(self.width, self.across - panel * self.width))

    def _steps(self, panel: int, start: int, stop: int) -> range:
        return range(self.along - stop, self.along - start) if self._backwards(panel) else range(start, stop)

    def _box(self, fast: range, slow: range) -> Box:
        return Box(fast, slow) if self.order is RasterOrder.PANEL_N else Box(slow, fast)


@dataclass(frozen=True, slots=True)
class Structure:
    """The cluster tiles of the ids [0, num_ids) of a mapping: disjoint boxes, and which ids are emitted.

    `locate(m, n)` is the id of a tile in the boxes. Raises ValueError where boxes and runs disagree.
    """

    boxes: tuple[Box, ...]
    runs: tuple[Run, ...]
    locate: Callable[[int, int], int]

    def __post_init__(self) -> None:
        tiles = sum(box.size for box in self.boxes)
        ids = sum(run.emitted(run.ids.stop) for run in self.runs)
        if tiles != ids:
            raise ValueError(f"boxes hold {tiles} tiles, but {ids} ids are emitted")

    def emitted(self, start: int, stop: int) -> int:
        """Ids in [start, stop) that are emitted."""
        return sum(run.emitted(stop) - run.emitted(start) for run in self.runs)


def panel_structure(walk: PanelWalk, num_ids: int, *, guard: bool = False) -> Structure | None:
    """The structure of the ids [0, num_ids) of a walk.

    `guard`: ids are skipped whose tile lies past the axis `across`, and so are all ids past the walk. Without it
    num_ids may not be above walk.num_ids: None, as nothing is known of such ids.
    """
    if not guard:
        if num_ids > walk.num_ids:
            return None
        return Structure(tuple(box for box in walk.boxes(num_ids) if box.size), (Run(range(num_ids)),), walk.locate)
    stop = min(num_ids, walk.num_ids)
    grid = walk.grid
    boxes = tuple(both for box in walk.boxes(stop) if (both := box.meet(grid)).size)
    full = min(stop, walk.across // walk.width * walk.width * walk.along) if walk.padded else stop
    runs = [Run(range(full)), Run(range(full, stop), walk.width, walk.across % walk.width or walk.width)]
    runs.append(Run(range(stop, num_ids), 1, 0))
    return Structure(boxes, tuple(run for run in runs if run.ids), walk.locate)


def _meet(one: range, other: range) -> range:
    start = max(one.start, other.start)
    return range(start, max(start, min(one.stop, other.stop)))
