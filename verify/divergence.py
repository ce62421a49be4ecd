"""Why a trace leaves the model: single causes that reproduce every record of every slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from tilesched.simulator.errors import InputError
from tilesched.simulator.raster import IntArray, RasterOrder
from tilesched.simulator.schedule import BoolArray, Schedule, StridedSchedule

from .records import NOTHING, Records, SlotRecords, model_records

__all__ = ["explain"]

Predict: TypeAlias = Callable[[SlotRecords], Records]
"""What a slot that runs would have recorded if the cause held."""


def explain(schedule: Schedule, slots: Sequence[SlotRecords]) -> str:
    """The causes that reproduce all `slots`, conforming ones too, in words; else what can be seen; or nothing.

    A cause is stated only if the model, changed by it, gives the trace as it is, to the last record. Where several do,
    all are named.
    """
    fits = [text for text, predict in _causes(schedule, slots) if _reproduces(predict, slots)]
    if fits:
        return ", or ".join(fits)
    diverging = [slot for slot in slots if slot.leaves(slot.expected) is not None]
    return _tail_only(schedule, diverging) or _length(diverging)


def _reproduces(predict: Predict, slots: Sequence[SlotRecords]) -> bool:
    return all(slot.leaves(predict(slot) if slot.runs else NOTHING) is None for slot in slots)


def _causes(schedule: Schedule, slots: Sequence[SlotRecords]) -> Iterator[tuple[str, Predict]]:
    if isinstance(schedule, StridedSchedule):
        yield from _stride(schedule, slots)
        yield from _start(schedule, slots)
        yield from _panel_tail(schedule)
    yield "m and n are swapped", lambda slot: {**slot.expected, "m": slot.expected["n"], "n": slot.expected["m"]}


def _rows(schedule: Schedule, slot: SlotRecords) -> Records:
    return model_records(schedule, slot.cta, len(slot.recorded["m"]) + 1)


def _stride(schedule: StridedSchedule, slots: Sequence[SlotRecords]) -> Iterator[tuple[str, Predict]]:
    steps = (np.diff(slot.recorded["linear"][:2]) for slot in slots if "linear" in slot.recorded)
    step = next((int(step[0]) for step in steps if len(step)), schedule.stride)
    if step < 1 or step == schedule.stride:
        return
    try:
        changed = replace(schedule, stride=step)
    except InputError:  # ids beyond 32 bits: no kernel has that stride
        return
    text = f"wrong stride: ids advance by {step}, the model's by {schedule.stride}"
    yield text, lambda slot: _rows(changed, slot)


def _start(schedule: StridedSchedule, slots: Sequence[SlotRecords]) -> Iterator[tuple[str, Predict]]:
    """The kernel may have recorded the worker that it took itself for, or the one that it is: that is not compared."""
    both = (slot for slot in slots if "linear" in slot.recorded and min(map(len, _ids(slot))))
    shift = next((int(recorded[0] - expected[0]) for expected, recorded in map(_ids, both)), 0)
    if shift == 0 or abs(shift) > schedule.num_ids:
        return

    def decode(linear: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        return schedule.decode(linear + shift)

    try:
        changed = replace(schedule, num_ids=schedule.num_ids - shift, decode=decode)
    except InputError:
        return

    def predict(slot: SlotRecords) -> Records:
        rows = _rows(changed, slot)
        return {"m": rows["m"], "n": rows["n"], "wave": rows["wave"], "linear": rows["linear"] + shift}

    yield f"off by {abs(shift)}: worker w starts at id w {'+' if shift > 0 else '-'} {abs(shift)}", predict


def _ids(slot: SlotRecords) -> tuple[IntArray, IntArray]:
    return slot.expected["linear"], slot.recorded["linear"]


def _panel_tail(schedule: StridedSchedule) -> Iterator[tuple[str, Predict]]:
    """The last panel taken for a full one: ids are divided by the full width there."""
    panel = _panel(schedule)
    if panel is None:
        return
    along, across, width, order = panel

    def decode(linear: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        number, offset = np.divmod(linear, along * width)
        fast, slow = offset // width, number * width + offset % width
        m, n = (fast, slow) if order == RasterOrder.PANEL_N else (slow, fast)
        return m, n, np.ones(np.shape(linear), np.bool_)

    changed = replace(schedule, decode=decode)
    text = f"wrong panel tail: the last panel, {across % width} of {width} wide, is divided by the full width"
    yield text, lambda slot: _rows(changed, slot)


def _panel(schedule: Schedule) -> tuple[int, int, int, str] | None:
    """Cluster tiles along and across panels, their width and order, where the last one is narrower."""
    width, raster = schedule.params.get("panel_width"), schedule.params.get("raster")
    if not isinstance(width, int) or not isinstance(raster, str):
        return None
    rows, columns = schedule.problem.clusters_m, schedule.problem.clusters_n
    along, across = (rows, columns) if raster == RasterOrder.PANEL_N else (columns, rows)
    return (along, across, width, raster) if across % width else None


def _tail_only(schedule: Schedule, diverging: Sequence[SlotRecords]) -> str:
    """What can be seen where no cause fits: only tiles of the last panel are wrong."""
    panel = _panel(schedule)
    if panel is None:
        return ""
    along, across, width, _ = panel
    tail_begin = across // width * width * along
    for slot in diverging:
        if "linear" not in slot.recorded or len(slot.recorded["m"]) != len(slot.expected["m"]):
            return ""
        if any(not np.array_equal(slot.expected[name], slot.recorded[name]) for name in slot.recorded.keys() - {*"mn"}):
            return ""
        differs = (slot.expected["m"] != slot.recorded["m"]) | (slot.expected["n"] != slot.recorded["n"])
        if (slot.expected["linear"][differs] < tail_begin).any():
            return ""
    return f"ids agree, tiles differ only in the last panel, {across % width} of {width} wide"


def _length(diverging: Sequence[SlotRecords]) -> str:
    lengths = [(len(slot.expected["m"]), len(slot.recorded["m"])) for slot in diverging]
    if any(slot.leaves(slot.expected) != min(pair) for slot, pair in zip(diverging, lengths, strict=True)):
        return ""
    if all(recorded < expected for expected, recorded in lengths):
        return "the tiles agree, but every diverging role stops too early"
    if all(recorded > expected for expected, recorded in lengths):
        return "the tiles agree, but every diverging role goes on after its last tile"
    return ""
