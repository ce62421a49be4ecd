"""Coverage decided from a schedule's structure: what enumeration finds, in time that does not grow with the tiles.

The argument, for ids dealt out at a stride to workers w = 0, 1, ...: if no fewer workers than the stride (or than the
ids) are launched, and no more unless the ids end within the stride, then every id is taken by exactly one worker. The
tiles of all ids are disjoint boxes, so no tile is repeated, and what lies in the output, in its padding or beyond both
follows from corners. Which waves of a worker are skipped repeats with a period, and one period is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import combinations, islice
from math import gcd

import numpy as np
import numpy.typing as npt

from tilesched.simulator.problem import Problem
from tilesched.simulator.schedule import BoolArray, Schedule, StridedSchedule
from tilesched.simulator.structure import Box, Run, Structure

from .coverage import LIST_LIMIT, Coverage, Hole, Tally, Visit
from .grid import Tile

__all__ = ["certify"]

_MAX_PERIOD_ROWS = 2**21
"""Workers times the waves after which their skips repeat: above it the skips are not followed, but enumerated."""


def certify(schedule: Schedule, *, limit: int = LIST_LIMIT) -> Coverage | None:
    """The coverage of a schedule whose structure is known, None where it must be enumerated.

    Counts are those of `check_coverage`; of tiles and visits, the first by coordinates are listed.
    """
    if not isinstance(schedule, StridedSchedule) or schedule.structure is None or not _each_id_once(schedule):
        return None
    structure, problem = schedule.structure, schedule.problem
    if any(one.meet(other).size for one, other in combinations(structure.boxes, 2)):
        return None
    balance = _balance(schedule, structure, limit)
    if balance is None:
        return None
    output = Box(range(problem.tiles_m), range(problem.tiles_n))
    padded = Box(range(schedule.padded_m), range(schedule.padded_n))
    handed = [_cta_box(problem, box) for box in structure.boxes]
    outside = _minus(handed, [output])
    return Coverage(
        tiles=problem.tiles,
        work_tiles=sum(box.size for box in structure.boxes),
        idle_workers=balance.idle,
        work_tiles_min=balance.least,
        work_tiles_max=balance.most,
        last_wave_work_tiles=_last_wave(schedule, structure),
        missing=_tiles(_minus([output], handed), limit),
        repeated=Tally(0, ()),
        ghosts=_visits(schedule, structure, [box.meet(padded) for box in outside], limit),
        out_of_range=_visits(schedule, structure, _minus(outside, [padded]), limit),
        holes=Tally(balance.holes, balance.first_holes),
    )


def _each_id_once(schedule: StridedSchedule) -> bool:
    stride, launched, ids = schedule.stride, schedule.num_workers, schedule.num_ids
    return launched >= min(stride, ids) and (launched <= stride or ids <= stride)


def _cta_box(problem: Problem, box: Box) -> Box:
    """The CTA tiles of a box of cluster tiles."""
    m, n = box.m, box.n
    return Box(
        range(m.start * problem.cluster_m, m.stop * problem.cluster_m),
        range(n.start * problem.cluster_n, n.stop * problem.cluster_n),
    )


def _minus(boxes: Sequence[Box], others: Sequence[Box]) -> list[Box]:
    left = list(boxes)
    for other in others:
        left = [piece for box in left for piece in box.minus(other)]
    return left


def _ordered(boxes: Sequence[Box]) -> Iterator[Tile]:
    """The tiles of disjoint boxes, by coordinates."""
    return merge(*map(_in_order, boxes))


def _in_order(box: Box) -> Iterator[Tile]:
    return (Tile(m, n) for m in box.m for n in box.n)


def _tiles(boxes: Sequence[Box], limit: int) -> Tally[Tile]:
    count = sum(box.size for box in boxes)
    return Tally(count, list(islice(_ordered(boxes), limit)) if count and limit else ())


def _visits(schedule: StridedSchedule, structure: Structure, boxes: Sequence[Box], limit: int) -> Tally[Visit]:
    """Visits to CTA tiles, each of which one worker is handed."""
    problem, tiles = schedule.problem, _tiles(boxes, limit)
    visits = []
    for tile in tiles.first:
        linear = structure.locate(tile.m // problem.cluster_m, tile.n // problem.cluster_n)
        visits.append(Visit(tile, linear % schedule.stride, linear // schedule.stride))
    return Tally(tiles.count, visits)


def _last_wave(schedule: StridedSchedule, structure: Structure) -> int:
    start = max(0, schedule.num_waves - 1) * schedule.stride
    return sum(run.emitted(schedule.num_ids) - run.emitted(start) for run in structure.runs)


@dataclass(frozen=True, slots=True)
class _Balance:
    least: int
    most: int
    idle: int
    holes: int = 0
    first_holes: Sequence[Hole] = ()


def _balance(schedule: StridedSchedule, structure: Structure, limit: int) -> _Balance | None:
    """Work tiles by worker and holes; None where the skips repeat too late to follow them."""
    stride, launched, ids = schedule.stride, schedule.num_workers, schedule.num_ids
    idle = launched - schedule.busy_workers
    if all(run.kept == run.width for run in structure.runs):  # a worker has as many tiles as ids
        return _Balance(0 if idle else (ids - launched) // stride + 1, schedule.num_waves, idle)
    rows = max(_period(run, stride, schedule.num_waves) for run in structure.runs) * schedule.busy_workers
    if rows > _MAX_PERIOD_ROWS:
        return None
    skips = _Skips(schedule, structure)
    tiles = skips.tiles
    return _Balance(
        least=0 if idle else int(tiles.min()),
        most=int(tiles.max()),
        idle=idle + int((tiles == 0).sum()),
        holes=skips.holes,
        first_holes=skips.first(limit),
    )


def _period(run: Run, stride: int, waves: int) -> int:
    """Waves after which the emitted ids of a worker repeat within a run, or all waves where those are fewer."""
    return min(run.width // gcd(run.width, stride), waves)


class _Skips:
    """Which waves each worker skips, from one period of each run of ids."""

    def __init__(self, schedule: StridedSchedule, structure: Structure) -> None:
        self.schedule, self.structure = schedule, structure
        self.worker = np.arange(schedule.busy_workers, dtype=np.int64)
        self.tiles = np.zeros_like(self.worker)
        self.last = np.full_like(self.worker, -1)  # wave of each worker's last tile
        for run in structure.runs:
            self._add(run)
        self.holes = int((self.last + 1 - self.tiles).sum())

    def _add(self, run: Run) -> None:
        first = self._waves_below(run.ids.start)
        rows = self._waves_below(run.ids.stop) - first
        if run.kept == run.width:
            self.tiles += rows
            self.last = np.where(rows > 0, first + rows - 1, self.last)
            return
        period = np.arange(_period(run, self.schedule.stride, self.schedule.num_waves))[:, None]
        periods, rest = np.divmod(rows, period.size)
        emitted = self._emitted(run, first + period)
        in_rest = emitted & (period < rest)
        self.tiles += periods * emitted.sum(axis=0) + in_rest.sum(axis=0)
        last_of_period, last_of_rest = (
            np.where(emitted, period, -1).max(axis=0),
            np.where(in_rest, period, -1).max(axis=0),
        )
        last = np.where(last_of_rest >= 0, periods * period.size + last_of_rest, -1)
        whole = (last_of_rest < 0) & (last_of_period >= 0) & (periods > 0)
        last = np.where(whole, (periods - 1) * period.size + last_of_period, last)
        self.last = np.where(last >= 0, first + last, self.last)

    def _waves_below(self, linear: int) -> npt.NDArray[np.int64]:
        """Of each worker, the waves whose id is below `linear`."""
        return np.maximum(0, -((self.worker - linear) // self.schedule.stride))

    def _emitted(self, run: Run, wave: npt.NDArray[np.int64] | int) -> BoolArray:
        linear = self.worker + wave * self.schedule.stride
        return np.asarray((linear - run.ids.start) % run.width < run.kept)

    def first(self, limit: int) -> list[Hole]:
        """The first holes, wave after wave. Each worker that has one has one within the first period of a run."""
        found: list[Hole] = []
        limit = min(limit, self.holes)
        for run in self.structure.runs:
            if run.kept == run.width or not limit:
                continue
            start, stop = run.ids.start // self.schedule.stride, -(-run.ids.stop // self.schedule.stride)
            for wave in range(start, stop):
                linear = self.worker + wave * self.schedule.stride
                inside = (linear >= run.ids.start) & (linear < run.ids.stop)
                skipped = inside & ~self._emitted(run, wave) & (wave < self.last)
                workers = np.flatnonzero(skipped)[: limit - len(found)].tolist()
                found += [Hole(worker, wave, int(linear[worker])) for worker in workers]
                if len(found) == limit:
                    return found
        return found
