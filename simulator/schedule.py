"""Schedules: which worker computes which work tile, in which wave, as closed forms and as arrays.

A worker is a CTA, or a cluster when the problem has one. Coordinates are those of cluster tiles: CTA
(rank_m, rank_n) of a cluster computes CTA tile (m * cluster_m + rank_m, n * cluster_n + rank_n).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .findings import Finding
from .intmath import ceil_div
from .problem import MAX_INT32, Problem, require_int32
from .raster import IntArray
from .structure import Structure

__all__ = [
    "CHUNK_ROWS",
    "BoolArray",
    "Decode",
    "PhaseClock",
    "Schedule",
    "StridedSchedule",
    "TableSchedule",
    "WorkTiles",
    "cta_tiles",
]

BoolArray: TypeAlias = npt.NDArray[np.bool_]
Decode: TypeAlias = Callable[[IntArray], tuple[IntArray, IntArray, BoolArray]]
"""Linear ids to (m, n, emitted) in cluster tiles; `emitted` is False where the guard skips the id."""

CHUNK_ROWS = 2**17
"""Rows handed out at once: a column of 32-bit ids then fits a core's L2 cache."""


class PhaseClock(Enum):
    """What the kernel's barrier phases count; it decides whether a hole does harm."""

    WAVE = "wave"  # phase = wave * k_blocks + k: a skipped wave advances it without any arrival
    TILE = "tile"  # only tiles that are computed advance it


@dataclass(frozen=True, slots=True)
class WorkTiles:
    """A block of waves × workers of a schedule, or one worker's rows: columns that broadcast together.

    Rows with `emitted` False are not computed: the guard skips them, or the worker has already ended.
    `k_begin` and `k_end` are in k-blocks.
    """

    worker: IntArray
    wave: IntArray
    linear: IntArray
    m: IntArray
    n: IntArray
    emitted: BoolArray
    batch: IntArray
    k_begin: IntArray
    k_end: IntArray

    @property
    def all_emitted(self) -> bool:
        """Whether no row is skipped; cheap when the schedule knows it."""
        return bool(self.emitted.all())

    def rows(self) -> WorkTiles:
        """The computed rows only, as one-dimensional columns of one length."""
        return self.where(self.emitted)

    def where(self, keep: BoolArray) -> WorkTiles:
        """The rows that `keep` selects, as one-dimensional columns; `keep` broadcasts with the columns."""
        columns = np.broadcast_arrays(
            self.worker,
            self.wave,
            self.linear,
            self.m,
            self.n,
            self.emitted,
            self.batch,
            self.k_begin,
            self.k_end,
        )
        keep = np.broadcast_to(keep, columns[0].shape)
        return WorkTiles(*(column[keep] for column in columns))


def cta_tiles(problem: Problem, m: IntArray, n: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """The CTA tiles of cluster tiles (m, n), one rank of the cluster after the other, along M first."""
    for rank_n in range(problem.cluster_n):
        for rank_m in range(problem.cluster_m):
            yield m * problem.cluster_m + rank_m, n * problem.cluster_n + rank_n


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule(ABC):
    """Per worker the ordered work tiles of one problem."""

    name: str
    problem: Problem
    num_workers: int
    """Workers that are launched."""
    params: Mapping[str, int | str]
    """The scheduler's parameters as they were resolved, for reports."""
    padded_m: int
    padded_n: int
    """CTA tiles up to which the scheduler pads the grid on purpose; what lies between is a ghost."""
    clock: PhaseClock
    cause: str = ""
    """One sentence on why this schedule loses or repeats tiles, where the scheduler knows it."""
    remarks: Sequence[Finding] = field(default=())
    """Findings known from the parameters alone: a launch that CUDA refuses, an assertion of the original."""

    @property
    @abstractmethod
    def num_waves(self) -> int:
        """Waves that the kernel loops over: the most rows that any worker has."""

    @property
    def busy_workers(self) -> int:
        """Workers from this one on have no rows at all."""
        return self.num_workers

    @abstractmethod
    def block(self, workers: range, waves: range) -> WorkTiles:
        """The rows of `workers` in `waves`: columns that broadcast to (len(waves), len(workers))."""

    def worker_blocks(self) -> Iterator[range]:
        """The busy workers, in ranges of at most CHUNK_ROWS."""
        for first in range(0, self.busy_workers, CHUNK_ROWS):
            yield range(first, min(first + CHUNK_ROWS, self.busy_workers))

    def wave_blocks(self, workers: range) -> Iterator[WorkTiles]:
        """The rows of `workers`, wave after wave, in blocks of about CHUNK_ROWS."""
        depth = max(1, CHUNK_ROWS // len(workers))
        for wave in range(0, self.num_waves, depth):
            yield self.block(workers, range(wave, min(wave + depth, self.num_waves)))

    def chunks(self) -> Iterator[WorkTiles]:
        """All rows in blocks of about CHUNK_ROWS; a worker's waves come in order, all before the next workers."""
        for workers in self.worker_blocks():
            yield from self.wave_blocks(workers)

    def worker(self, worker: int) -> WorkTiles:
        """One worker's computed rows in order, one-dimensional."""
        return self.block(range(worker, worker + 1), range(self.num_waves)).rows()


@dataclass(frozen=True, kw_only=True, eq=False)
class StridedSchedule(Schedule):
    """Worker w takes the ids w, w + stride, w + 2 * stride, ... below `num_ids`, decoded by `decode`.

    `structure` says of which tiles `decode` makes the ids [0, num_ids), if that is known without looking at each.
    `block` raises InputError when there are more than 2^31 - 1 rows: so many are not enumerated.
    """

    stride: int
    num_ids: int
    decode: Decode
    structure: Structure | None = None
    id_bits: int = 32
    """Width of the kernel's signed ids."""

    @property
    def overflows(self) -> bool:
        """Whether an id that the kernel computes, the one past the last of each worker included, does not fit."""
        return max(self.num_ids, self.num_workers * self.num_waves) >= 1 << (self.id_bits - 1)

    @property
    def num_waves(self) -> int:
        return ceil_div(self.num_ids, self.stride)

    @property
    def busy_workers(self) -> int:
        return min(self.num_workers, self.num_ids)

    def block(self, workers: range, waves: range) -> WorkTiles:
        require_int32("workers*waves", self.num_workers * self.num_waves, minimum=0)
        last = (waves.stop - 1) * self.stride + workers.stop - 1
        dtype = np.dtype(np.int32 if last <= MAX_INT32 else np.int64)
        worker = np.arange(workers.start, workers.stop, dtype=dtype)[None, :]
        wave = np.arange(waves.start, waves.stop, dtype=dtype)[:, None]
        linear = wave * self.stride + worker
        m, n, emitted = self.decode(linear)
        if last >= self.num_ids:
            emitted = emitted & (linear < self.num_ids)
        zero = np.zeros((), dtype)
        return WorkTiles(worker, wave, linear, m, n, emitted, zero, zero, np.array(self.problem.k_blocks, np.int32))


@dataclass(frozen=True, kw_only=True, eq=False)
class TableSchedule(Schedule):
    """A schedule written out: `m[i]`, `n[i]`, `emitted[i]`, `linear[i]` for row i, workers one after another.

    Worker w owns the rows from offsets[w] to offsets[w + 1], one per wave.
    """

    offsets: npt.NDArray[np.int64]
    linear: npt.NDArray[np.int64]
    m: npt.NDArray[np.int64]
    n: npt.NDArray[np.int64]
    emitted: BoolArray

    @property
    def num_waves(self) -> int:
        return int(np.diff(self.offsets).max(initial=0))

    def block(self, workers: range, waves: range) -> WorkTiles:
        worker = np.arange(workers.start, workers.stop)[None, :]
        wave = np.arange(waves.start, waves.stop)[:, None]
        row = self.offsets[worker] + wave
        inside = row < self.offsets[worker + 1]
        row = np.where(inside, row, 0)
        zero = np.zeros((), np.int64)
        return WorkTiles(
            worker,
            wave,
            self.linear[row],
            self.m[row],
            self.n[row],
            self.emitted[row] & inside,
            zero,
            zero,
            np.array(self.problem.k_blocks),
        )
