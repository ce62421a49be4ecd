"""What coverage is said in: tiles, visits, repeats and holes, counted exactly, and the first of each listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .grid import Tile

__all__ = ["LIST_LIMIT", "VISIT_LIMIT", "Coverage", "Hole", "Progress", "Repeat", "Tally", "Visit"]

LIST_LIMIT = 20
"""Tiles listed of each kind; counts are exact whatever the limit."""

VISIT_LIMIT = 4
"""Visits listed of each repeated tile."""

Progress = Callable[[int, int], None]
"""Called with (rows done, rows in all), from the start again for each pass that a failing schedule needs."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visit:
    """A CTA tile that a worker was handed in a wave."""

    tile: Tile
    worker: int
    wave: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A CTA tile that is computed more than once: how often, and the first visits to it."""

    tile: Tile
    times: int
    visits: Sequence[Visit]


@dataclass(frozen=True, slots=True)
class Hole:
    """A wave that a worker skips although it computes a tile in a later one."""

    worker: int
    wave: int
    linear: int


@dataclass(frozen=True, slots=True)
class Tally(Generic[T]):
    """How many there are, and the first of them."""

    count: int
    first: Sequence[T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What a schedule covers. Tiles are CTA tiles; work tiles are what a worker is handed at once."""

    tiles: int
    work_tiles: int
    idle_workers: int
    work_tiles_min: int
    work_tiles_max: int
    last_wave_work_tiles: int
    missing: Tally[Tile]
    repeated: Tally[Repeat]
    ghosts: Tally[Visit]
    out_of_range: Tally[Visit]
    holes: Tally[Hole]
