"""Why a trace leaves the model: single causes that explain every diverging slot at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedule import Schedule, StridedSchedule
from tilesched.simulator.trace import Column

__all__ = ["Divergence", "explain"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """A slot whose records differ from the model: columns by name, `m` and `n` in CTA tiles, from `position` on."""

    cta: int
    role: int
    position: int
    expected: Mapping[str, Column]
    recorded: Mapping[str, Column]


def explain(schedule: Schedule, slots: Sequence[Divergence], tiles: Sequence[int]) -> str:
    """The cause that fits all of `slots`, in words; empty when none does.

    `tiles`: what the model has every slot take, the conforming ones too. A wrong start shows wherever there is a
    tile, a wrong stride wherever there is a second one; where it does not show, it is not the cause.
    """
    if len(slots) == sum(count > 1 for count in tiles) and (text := _stride(schedule, slots)):
        return text
    if len(slots) == sum(count > 0 for count in tiles) and (text := _start(schedule, slots)):
        return text
    for cause in (_panel_tail, _swapped, _length):
        if text := cause(schedule, slots):
            return text
    return ""


def _stride(schedule: Schedule, slots: Sequence[Divergence]) -> str:
    if not isinstance(schedule, StridedSchedule) or not _have_ids(slots):
        return ""
    steps = np.unique(np.concatenate([np.diff(slot.recorded["linear"]) for slot in slots]))
    starts_right = all(_first_ids(slot)[0] == _first_ids(slot)[1] for slot in slots)
    if len(steps) != 1 or steps[0] == schedule.stride or not starts_right:
        return ""
    return f"wrong stride: ids advance by {steps[0]}, the model's by {schedule.stride}"


def _start(schedule: Schedule, slots: Sequence[Divergence]) -> str:
    if not isinstance(schedule, StridedSchedule) or not _have_ids(slots):
        return ""
    shifts = {int(recorded - expected) for expected, recorded in map(_first_ids, slots)}
    right_steps = all((np.diff(slot.recorded["linear"]) == schedule.stride).all() for slot in slots)
    if len(shifts) != 1 or shifts == {0} or not right_steps:
        return ""
    shift = shifts.pop()
    return f"off by {abs(shift)}: worker w starts at id w {'+' if shift > 0 else '-'} {abs(shift)}"


def _panel_tail(schedule: Schedule, slots: Sequence[Divergence]) -> str:
    width, raster = schedule.params.get("panel_width"), schedule.params.get("raster")
    if not isinstance(width, int) or raster is None or not _have_ids(slots):
        return ""
    rows, columns = schedule.problem.clusters_m, schedule.problem.clusters_n
    along, across = (rows, columns) if raster == RasterOrder.PANEL_N else (columns, rows)
    tail_begin = across // width * width * along
    for slot in slots:
        if any(
            not np.array_equal(slot.expected[name], slot.recorded[name]) for name in slot.recorded if name not in "mn"
        ):
            return ""
        differs = (slot.expected["m"] != slot.recorded["m"]) | (slot.expected["n"] != slot.recorded["n"])
        if not differs.any() or (slot.expected["linear"][differs] < tail_begin).any():
            return ""
    return f"wrong panel tail: ids agree, tiles differ only in the last panel, {across % width} of {width} wide"


def _swapped(schedule: Schedule, slots: Sequence[Divergence]) -> str:
    swapped = all(
        np.array_equal(slot.expected["m"], slot.recorded["n"])
        and np.array_equal(slot.expected["n"], slot.recorded["m"])
        for slot in slots
    )
    return "m and n are swapped" if swapped else ""


def _length(schedule: Schedule, slots: Sequence[Divergence]) -> str:
    lengths = [(len(slot.expected["m"]), len(slot.recorded["m"])) for slot in slots]
    if any(slot.position < min(pair) for slot, pair in zip(slots, lengths, strict=True)):
        return ""
    if all(recorded < expected for expected, recorded in lengths):
        return "the tiles agree, but every diverging role stops too early"
    if all(recorded > expected for expected, recorded in lengths):
        return "the tiles agree, but every diverging role goes on after its last tile"
    return ""


def _have_ids(slots: Sequence[Divergence]) -> bool:
    """Whether every slot has ids on both sides."""
    return all("linear" in slot.recorded and len(slot.recorded["m"]) and len(slot.expected["m"]) for slot in slots)


def _first_ids(slot: Divergence) -> tuple[int, int]:
    """First id by the model and by the record."""
    return int(slot.expected["linear"][0]), int(slot.recorded["linear"][0])
