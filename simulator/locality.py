"""Operand traffic of a schedule: how many different tiles of A and of B the workers of a wave read, as a first figure.

A wave is here one round of the device: as many workers as are resident at once, one a slot. Workers beyond that, of a
grid that is larger than the device, are taken to follow in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .intmath import ceil_div
from .raster import IntArray
from .schedule import CHUNK_ROWS, Schedule

__all__ = ["Traffic", "device_waves", "operand_traffic", "resident_workers"]

MAX_ROWS = 2**22
"""Rows of a schedule that are looked at; of a larger one, blocks at equal distances."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Means over device waves: different CTA tile rows (tiles of A) and columns (of B), and computed CTA tiles."""

    a_tiles: float
    b_tiles: float
    waves: int
    """Device waves that were looked at."""


def resident_workers(schedule: Schedule) -> int:
    """Workers that run at once, one CTA an SM."""
    problem = schedule.problem
    return min(schedule.num_workers, problem.sm_count // problem.cluster_size)


def device_waves(schedule: Schedule) -> int:
    """Rounds that the device needs: the schedule's waves, times how often its workers fill the device."""
    return schedule.num_waves * ceil_div(schedule.busy_workers, resident_workers(schedule))


def operand_traffic(schedule: Schedule) -> Traffic:
    """Distinct tiles of A and B a device wave. Raises InputError when the schedule cannot be enumerated."""
    problem, slots = schedule.problem, resident_workers(schedule)
    blocks = list(_blocks(schedule, slots))
    skip = ceil_div(len(blocks) * CHUNK_ROWS, MAX_ROWS)
    a_tiles = b_tiles = waves = 0
    for workers, rounds in blocks[::skip]:
        rows = schedule.block(workers, rounds).rows()
        if not rows.m.size:
            continue
        wave = rows.wave.astype(np.int64) * ceil_div(schedule.busy_workers, slots) + rows.worker // slots
        a_tiles += _distinct(wave, rows.m, problem.cluster_m, problem.tiles_m)
        b_tiles += _distinct(wave, rows.n, problem.cluster_n, problem.tiles_n)
        waves += np.unique(wave).size
    return Traffic(a_tiles / max(waves, 1), b_tiles / max(waves, 1), waves)


def _blocks(schedule: Schedule, slots: int) -> Iterator[tuple[range, range]]:
    """Workers and waves in blocks of about CHUNK_ROWS that do not cut a device wave."""
    width = slots * max(1, CHUNK_ROWS // slots)
    for first in range(0, schedule.busy_workers, width):
        workers = range(first, min(first + width, schedule.busy_workers))
        depth = max(1, CHUNK_ROWS // len(workers))
        for wave in range(0, schedule.num_waves, depth):
            yield workers, range(wave, min(wave + depth, schedule.num_waves))


def _distinct(wave: IntArray, tile: IntArray, cluster: int, tiles: int) -> int:
    """CTA tiles along an axis that are different within a wave, without those outside the output."""
    clusters = ceil_div(tiles, cluster)
    inside = (tile >= 0) & (tile < clusters)
    pairs = np.unique(wave[inside] * clusters + tile[inside])
    return int(np.clip(tiles - pairs % clusters * cluster, 0, cluster).sum())
