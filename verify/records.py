"""What the model has a CTA record, and where a record leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np

from tilesched.simulator.schedule import Schedule, WorkTiles, cta_tiles
from tilesched.simulator.trace import Column

__all__ = ["COMPARED", "NOTHING", "Records", "SlotRecords", "first_difference", "model_records"]

COMPARED = ("m", "n", "linear", "wave", "worker")

Records: TypeAlias = Mapping[str, Column]
"""Columns by name, `m` and `n` in CTA tiles."""

NOTHING: Records = {name: np.zeros(0, np.int64) for name in COMPARED}


@dataclass(frozen=True, slots=True)
class SlotRecords:
    """A (CTA, role): what it recorded, and what the model has it record, of which there may be more than is here.

    `runs`: whether the CTA has the role. `cut_off`: whether records were lost at the end.
    """

    cta: int
    role: int
    expected: Records
    recorded: Records
    runs: bool
    cut_off: bool

    def leaves(self, expected: Records) -> int | None:
        """The first position at which the records are not `expected`; None if there is none, or they are cut off."""
        position = first_difference(expected, self.recorded)
        return None if self.cut_off and position == len(self.recorded["m"]) else position


def model_records(schedule: Schedule, cta: int, at_most: int) -> Records:
    """The first `at_most` records of a CTA, or a few more; nothing for a CTA that the model does not launch.

    A kernel that loops over 2^31 waves is not written out to be compared with a short trace.
    """
    worker, rank = divmod(cta, schedule.problem.cluster_size)
    if worker >= schedule.busy_workers:
        return NOTHING
    blocks: list[WorkTiles] = []
    taken = 0
    for block in schedule.wave_blocks(range(worker, worker + 1)):
        rows = block.rows()
        blocks.append(rows)
        taken += len(rows.m)
        if taken >= at_most:
            break
    if not blocks:
        return NOTHING
    columns = {name: np.concatenate([getattr(rows, name) for rows in blocks]).astype(np.int64) for name in COMPARED}
    m, n = next(islice(cta_tiles(schedule.problem, columns["m"], columns["n"]), rank, None))
    return {**columns, "m": m, "n": n}


def first_difference(expected: Records, recorded: Records) -> int | None:
    """Position of the first record that differs in any column of both, or of the first that is too many or few."""
    lengths = len(expected["m"]), len(recorded["m"])
    common = min(lengths)
    differs = np.zeros(common, np.bool_)
    for name in recorded.keys() & expected.keys():
        differs |= recorded[name][:common] != expected[name][:common]
    if differs.any():
        return int(np.argmax(differs))
    return None if lengths[0] == lengths[1] else common
