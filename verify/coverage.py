"""Coverage: whether a schedule computes every CTA tile of the output exactly once, and if not, which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter

import numpy as np

from tilesched.simulator.schedule import Schedule, WorkTiles

from .accounts import Balance, Cover
from .executors import local_cores
from .grid import ClusterGrid
from .tally import LIST_LIMIT, VISIT_LIMIT, Coverage, Hole, Progress, Repeat, Tally, Visit
from .tileset import TileSet

__all__ = ["LIST_LIMIT", "Coverage", "Hole", "Progress", "Repeat", "Tally", "Visit", "check_coverage"]


def check_coverage(
    schedule: Schedule, *, limit: int = LIST_LIMIT, progress: Progress | None = None, jobs: int = 1
) -> Coverage:
    """Enumerate the schedule in blocks, its workers dealt to `jobs` processes, and account for every tile.

    Memory is one bit a cluster tile plus a few blocks for each process, two bits when tiles repeat. Raises InputError
    when there are more than 2^31 - 1 rows or tiles, or no joblib for several processes.
    """
    grid = ClusterGrid(schedule.problem, m_fastest=_walks_along_m(schedule))
    cover = Cover(schedule, grid, limit)
    balance = Balance(idle=schedule.num_workers - schedule.busy_workers)
    if jobs == 1:
        _enumerate(cover, balance, range(schedule.busy_workers), _Pass(schedule, progress))
    else:
        parts = [part for part in _deal(schedule.busy_workers, jobs) if part]
        found: list[tuple[int, Cover, Balance]] = []
        for one in local_cores(jobs)(partial(_enumerate_part, schedule, limit), parts):
            found.append(one)
            if progress is not None:
                progress(len(found), len(parts))
        for _, its_cover, its_balance in sorted(found, key=itemgetter(0)):  # so that a run repeats exactly
            cover.join(its_cover)
            balance.join(its_balance)
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


def _enumerate(cover: Cover, balance: Balance, part: range, advance: Callable[[WorkTiles], None]) -> None:
    """All rows of the workers in `part`."""
    schedule = cover.schedule
    for workers in schedule.worker_blocks(part):
        balance.enter(len(workers))
        for chunk in schedule.wave_blocks(workers):
            balance.add(chunk, schedule.num_waves - 1)
            cover.add(chunk)
            advance(chunk)
        balance.leave()


def _enumerate_part(schedule: Schedule, limit: int, part: range) -> tuple[int, Cover, Balance]:
    """What a process finds of some workers, and the first of them."""
    cover = Cover(schedule, ClusterGrid(schedule.problem, m_fastest=_walks_along_m(schedule)), limit)
    balance = Balance(idle=0)
    _enumerate(cover, balance, part, lambda chunk: None)
    return part.start, cover, balance


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
