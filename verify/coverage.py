"""Coverage: whether a schedule computes every CTA tile of the output exactly once, and if not, which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from tilesched.simulator.raster import IntArray
from tilesched.simulator.schedule import CHUNK_ROWS, BoolArray, Schedule, WorkTiles, cta_tiles

from .executors import local_cores
from .grid import ClusterGrid, Tile
from .tileset import TileSet

__all__ = ["LIST_LIMIT", "Coverage", "Hole", "Progress", "Repeat", "Tally", "Visit", "check_coverage"]

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


def check_coverage(
    schedule: Schedule, *, limit: int = LIST_LIMIT, progress: Progress | None = None, jobs: int = 1
) -> Coverage:
    """Enumerate the schedule in blocks, its workers dealt to `jobs` processes, and account for every tile.

    Memory is one bit a cluster tile plus a few blocks for each process, two bits when tiles repeat. Raises InputError
    when there are more than 2^31 - 1 rows or tiles, or no joblib for several processes.
    """
    grid = ClusterGrid(schedule.problem, m_fastest=_walks_along_m(schedule))
    cover = _Cover(schedule, grid, limit)
    balance = _Balance(idle=schedule.num_workers - schedule.busy_workers)
    if jobs == 1:
        _enumerate(cover, balance, range(schedule.busy_workers), _Pass(schedule, progress))
    else:
        parts = [part for part in _deal(schedule.busy_workers, jobs) if part]
        found = local_cores(jobs)(partial(_enumerate_part, schedule, limit), parts)
        for done, (its_cover, its_balance) in enumerate(found, 1):
            cover.join(its_cover)
            balance.join(its_balance)
            if progress is not None:
                progress(done, len(parts))
    missing = schedule.problem.tiles - grid.count_real(cover.seen)
    missing_tiles = grid.real_tiles(cover.seen.absent(limit)) if missing else []
    return Coverage(
        tiles=schedule.problem.tiles,
        work_tiles=balance.total,
        idle_workers=balance.idle,
        work_tiles_min=balance.least,
        work_tiles_max=balance.most,
        last_wave_work_tiles=balance.last_wave,
        missing=Tally(missing, missing_tiles[:limit]),
        repeated=_repeats(schedule, grid, cover.seen, limit, progress)
        if cover.inside > len(cover.seen)
        else Tally(0, ()),
        ghosts=cover.ghosts.tally(),
        out_of_range=cover.out_of_range.tally(),
        holes=Tally(balance.holes, _holes(schedule, limit) if balance.holes else ()),
    )


def _deal(workers: int, jobs: int) -> list[range]:
    return [range(workers * job // jobs, workers * (job + 1) // jobs) for job in range(jobs)]


def _enumerate(cover: _Cover, balance: _Balance, part: range, advance: Callable[[WorkTiles], None]) -> None:
    """All rows of the workers in `part`."""
    schedule = cover.schedule
    for first in range(part.start, part.stop, CHUNK_ROWS):
        workers = range(first, min(first + CHUNK_ROWS, part.stop))
        balance.enter(len(workers))
        for chunk in schedule.wave_blocks(workers):
            balance.add(chunk, schedule.num_waves - 1)
            cover.add(chunk)
            advance(chunk)
        balance.leave()


def _enumerate_part(schedule: Schedule, limit: int, part: range) -> tuple[_Cover, _Balance]:
    """What a process finds of some workers."""
    cover = _Cover(schedule, ClusterGrid(schedule.problem, m_fastest=_walks_along_m(schedule)), limit)
    balance = _Balance(idle=0)
    _enumerate(cover, balance, part, lambda chunk: None)
    return cover, balance


def _walks_along_m(schedule: Schedule) -> bool:
    """Which numbering of the grid keeps the schedule's blocks together: by the spans of its first block."""
    for chunk in schedule.chunks():
        rows = chunk.rows()
        if rows.m.size:
            span_m, span_n = int(np.ptp(rows.m)), int(np.ptp(rows.n))
            problem = schedule.problem
            return span_n * problem.clusters_m + span_m < span_m * problem.clusters_n + span_n
    return False


class _Pass:
    """Reports how far a pass over a schedule is; each pass begins at nothing."""

    def __init__(self, schedule: Schedule, progress: Progress | None) -> None:
        self._done, self._total = 0, schedule.busy_workers * schedule.num_waves
        self._progress = progress

    def __call__(self, chunk: WorkTiles) -> None:
        self._done += chunk.linear.size
        if self._progress is not None:
            self._progress(self._done, self._total)


class _Balance:
    """Work tiles, idleness and holes of workers, one range of workers after the other."""

    def __init__(self, idle: int) -> None:
        self.idle = idle
        self.total = self.most = self.last_wave = self.holes = 0
        self._least = 0 if idle else None

    @property
    def least(self) -> int:
        return self._least or 0

    def enter(self, width: int) -> None:
        self._tiles = np.zeros(width, np.int64)
        self._skipped = np.zeros(width, np.int64)  # waves skipped since the worker's last tile

    def add(self, chunk: WorkTiles, last_wave: int) -> None:
        waves = chunk.linear.shape[0]
        emitted = np.broadcast_to(chunk.emitted, chunk.linear.shape)
        if chunk.all_emitted:
            self._tiles += waves
            self.holes += int(self._skipped.sum())
            self._skipped[:] = 0
        else:
            tiles = emitted.sum(axis=0)
            after = np.argmax(emitted[::-1], axis=0)  # waves after the last tile, if there is one
            self._tiles += tiles
            self.holes += int((self._skipped + waves - tiles - after)[tiles > 0].sum())
            self._skipped = np.where(tiles > 0, after, self._skipped + waves)
        if int(chunk.wave[-1, 0]) == last_wave:
            self.last_wave += int(emitted[-1].sum())

    def join(self, other: _Balance) -> None:
        """Add what another has of other workers."""
        self.idle += other.idle
        self.total += other.total
        self.most = max(self.most, other.most)
        self.last_wave += other.last_wave
        self.holes += other.holes
        self._found_least(other.least)

    def _found_least(self, least: int) -> None:
        self._least = least if self._least is None else min(self._least, least)

    def leave(self) -> None:
        self._found_least(int(self._tiles.min()))
        self.most = max(self.most, int(self._tiles.max()))
        self.idle += int((self._tiles == 0).sum())
        self.total += int(self._tiles.sum())


class _Cover:
    """The cluster tiles that are handed out, with the CTA tiles outside the output set apart."""

    def __init__(self, schedule: Schedule, grid: ClusterGrid, limit: int) -> None:
        self.schedule, self.grid = schedule, grid
        self.seen = TileSet(grid.size)
        self.inside = 0  # work tiles handed out inside the grid, repeated ones as often as they are
        self.ghosts = _Visits(limit)
        self.out_of_range = _Visits(limit)

    def join(self, other: _Cover) -> None:
        """Add what another has of other workers."""
        self.seen.join(other.seen)
        self.inside += other.inside
        self.ghosts.join(other.ghosts)
        self.out_of_range.join(other.out_of_range)

    def add(self, chunk: WorkTiles) -> None:
        m, n = chunk.m, chunk.n
        if not chunk.all_emitted:
            m, n = m[chunk.emitted], n[chunk.emitted]
        if not m.size:
            return
        if not self.grid.all_whole(m, n):
            rows = chunk.rows()
            self._set_apart(rows)
            inside = self.grid.inside(rows.m, rows.n)
            m, n = rows.m[inside], rows.n[inside]
        self.seen.add(self.grid.index(m, n))
        self.inside += m.size

    def _set_apart(self, rows: WorkTiles) -> None:
        padded_m, padded_n = self.schedule.padded_m, self.schedule.padded_n
        partial = ~self.grid.whole(rows.m, rows.n)
        worker, wave = rows.worker[partial], rows.wave[partial]
        for tile_m, tile_n in cta_tiles(self.schedule.problem, rows.m[partial], rows.n[partial]):
            outside = ~self.grid.real(tile_m, tile_n)
            padding = (tile_m >= 0) & (tile_m < padded_m) & (tile_n >= 0) & (tile_n < padded_n)
            self.ghosts.add(tile_m, tile_n, worker, wave, outside & padding)
            self.out_of_range.add(tile_m, tile_n, worker, wave, outside & ~padding)


class _Visits:
    """A tally of visits that keeps the first `limit`."""

    def __init__(self, limit: int) -> None:
        self.count = 0
        self._first: list[Visit] = []
        self._limit = limit

    def add(self, m: IntArray, n: IntArray, worker: IntArray, wave: IntArray, which: BoolArray) -> None:
        self.count += int(which.sum())
        for row in np.flatnonzero(which)[: self._limit - len(self._first)]:
            self._first.append(Visit(Tile(int(m[row]), int(n[row])), int(worker[row]), int(wave[row])))

    def join(self, other: _Visits) -> None:
        self.count += other.count
        self._first += other._first[: self._limit - len(self._first)]

    def tally(self) -> Tally[Visit]:
        return Tally(self.count, self._first)


def _repeats(
    schedule: Schedule, grid: ClusterGrid, seen: TileSet, limit: int, progress: Progress | None
) -> Tally[Repeat]:
    """A second pass for the tiles that are handed out again, a third for who is handed the listed ones.

    `seen` is used anew, to hold no third set.
    """
    seen.clear()
    again = TileSet(grid.size)
    for rows in _inside_rows(schedule, grid, progress):
        unique, counts = np.unique(grid.index(rows.m, rows.n), return_counts=True)
        again.add(unique[(counts > 1) | seen.contains(unique)])
        seen.add(unique)
    listed = again.present(limit)
    times = dict.fromkeys(listed, 0)
    visits: dict[int, list[tuple[int, int]]] = {index: [] for index in listed}
    for rows in _inside_rows(schedule, grid, progress):
        indices = grid.index(rows.m, rows.n)
        for index in listed:
            places = np.flatnonzero(indices == index)
            times[index] += places.size
            for row in places[: VISIT_LIMIT - len(visits[index])]:
                visits[index].append((int(rows.worker[row]), int(rows.wave[row])))
    repeats = [
        Repeat(tile, times[index], [Visit(tile, *place) for place in visits[index]])
        for index in listed
        for tile in grid.real_tiles([index])
    ]
    return Tally(grid.count_real(again), repeats[:limit])


def _inside_rows(schedule: Schedule, grid: ClusterGrid, progress: Progress | None) -> Iterator[WorkTiles]:
    advance = _Pass(schedule, progress)
    for chunk in schedule.chunks():
        rows = chunk.rows()
        yield rows.where(grid.inside(rows.m, rows.n))
        advance(chunk)


def _holes(schedule: Schedule, limit: int) -> list[Hole]:
    """The first holes, by worker block: one pass for each worker's last tile, one for the skips before it."""
    holes: list[Hole] = []
    for workers in schedule.worker_blocks():
        last = np.full(len(workers), -1, np.int64)
        for chunk in schedule.wave_blocks(workers):
            emitted = np.broadcast_to(chunk.emitted, chunk.linear.shape)
            last = np.maximum(last, np.where(emitted, chunk.wave, -1).max(axis=0))
        for chunk in schedule.wave_blocks(workers):
            skipped = ~np.broadcast_to(chunk.emitted, chunk.linear.shape) & (chunk.wave < last)
            for wave, worker in np.argwhere(skipped)[: limit - len(holes)]:
                place = int(chunk.worker[0, worker]), int(chunk.wave[wave, 0])
                holes.append(Hole(*place, int(chunk.linear[wave, worker])))
            if len(holes) == limit:
                return holes
    return holes
