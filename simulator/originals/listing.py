"""What an original makes of its parameters: each worker's work tiles in order, written out in plain integers.

The schedulers of `simulator.schedulers` are closed forms over one GEMM's tiles. Those of many libraries hand out more:
batches, groups of a grouped GEMM, ranges of k-blocks, ids for which there is no work. Here each is written out as the
library does it, one id after another, so that it can be held against the library's own output, tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from ..errors import InputError

__all__ = [
    "MAX_WORK",
    "Coordinates",
    "Fixup",
    "Listing",
    "Original",
    "Pairs",
    "Piece",
    "Work",
    "require_work",
    "strided",
]

MAX_WORK = 2**18
"""Work tiles, and workers, of a listing: these are for comparisons, not for large problems."""

Coordinates: TypeAlias = tuple[int, ...]
"""A tile as the original counts it: `Original.entry` says what each number is."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a tile's k-blocks, [k_begin, k_begin + k_count)."""

    tile: Coordinates
    k_begin: int
    k_count: int


Work: TypeAlias = Coordinates | Piece | None
"""A whole tile, a part of one, or an id that is handed out without work (a phantom)."""


class Fixup(Enum):
    """Which pieces of a tile wait until all those of lower k-blocks are done, on the way to the tile's sum."""

    TURNSTILE = "turnstile"  # every piece but the first
    LAST = "last"  # the one that ends the tile


@dataclass(frozen=True, slots=True)
class Pairs:
    """Workers 2j and 2j + 1 are CTAs of one cluster, and load one operand together for their i-th work tiles.

    `shared`: the coordinate (-2: m, -1: n) that the two tiles have in common. `alone`: tiles for which the CTAs load on
    their own. `neighbours`: the other coordinate is 2j and 2j + 1, as one MMA over both CTAs needs it. `lone`: a CTA
    whose peer has nothing left goes on by itself.
    """

    shared: int
    alone: frozenset[Coordinates] = frozenset()
    neighbours: bool = False
    lone: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """The work of each worker in order. `real`: every tile that the problem has. `facts`: what else the original
    decides from its parameters, such as its grid, under the names of golden vectors.

    `k_blocks`, of all tiles or of each, is given where work is in pieces or tiles differ in depth, and `fixup` where
    pieces wait for others.
    `grid`: CTAs in x, y, z, where the original decides on them, in clusters of `cluster`.
    `pads`: tiles outside the problem are handed out on purpose. Raises InputError above MAX_WORK workers or work tiles.
    """

    workers: Sequence[Sequence[Work]]
    real: frozenset[Coordinates]
    facts: Mapping[str, object] = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    cluster: tuple[int, int] = (1, 1)
    k_blocks: int | Mapping[Coordinates, int] = 0
    pads: bool = False
    fixup: Fixup | None = None
    pairs: Pairs | None = None

    def length(self, tile: Coordinates) -> int:
        """k-blocks of a tile, 1 where work is in whole tiles."""
        return (self.k_blocks if isinstance(self.k_blocks, int) else self.k_blocks.get(tile, 0)) or 1

    def tiles(self) -> Iterable[Coordinates]:
        """The tiles of all work, as often as they are handed out."""
        for work in self.workers:
            for one in work:
                if one is not None:
                    yield one.tile if isinstance(one, Piece) else one


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A scheduler of a library. `build` takes its parameters, by the library's names; it raises InputError."""

    name: str
    source: str
    """Project, revision and file."""
    entry: str
    """What the numbers of a tile are, and what a worker is."""
    example: Mapping[str, object]
    """Parameters, by the library's names; those that show what is wrong, if anything is."""
    build: Callable[[Mapping[str, object]], Listing]


def strided(num_workers: int, num_ids: int, stride: int, decode: Callable[[int, int], Work]) -> list[list[Work]]:
    """Worker w takes the ids w, w + stride, … below `num_ids`; `decode(id, worker)` says what each is."""
    require_work(max(num_workers, num_ids))
    return [[decode(linear, worker) for linear in range(worker, num_ids, stride)] for worker in range(num_workers)]


def require_work(number: int) -> None:
    """InputError if so many work tiles or workers are not written out."""
    if number > MAX_WORK:
        raise InputError(f"work={number} is outside [0, {MAX_WORK}]")
