"""Triton's persistent matmul in grouped order, with both tails that are in use.

docs/schedulers.md has the formulas, where they are from, and how far each was checked.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..problem import Problem
from ..raster import IntArray, RasterOrder, panel_decode
from ..schedule import BoolArray, PhaseClock, StridedSchedule
from ..structure import PanelWalk, panel_structure
from .spec import DEFAULT_PANEL_WIDTH, Options, Param, SchedulerSpec

__all__ = ["GROUPED", "GROUPED_ROTATED"]

_SOURCE = "triton-lang/triton 02936a198 python/tutorials/09-persistent-matmul.py"


def _grouped(problem: Problem, options: Options, *, rotated: bool) -> StridedSchedule:
    spec = GROUPED_ROTATED if rotated else GROUPED
    spec.refuse(options, "raster")
    spec.require_cluster(problem, "single programs", problem.cluster_size == 1)
    group = options.panel_width or DEFAULT_PANEL_WIDTH
    stride = options.num_workers or problem.sm_count
    launched = options.launched or min(stride, problem.tiles)
    rows, columns = problem.tiles_m, problem.tiles_n

    def decode(linear: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        m, n = panel_decode(linear, rows, columns, group, RasterOrder.PANEL_M)
        if rotated:  # the row within the group from the id itself, not from the id within the group
            first = m // group * group
            m = first + linear % np.minimum(group, np.maximum(rows - first, 1))
        return m, n, np.array(True)

    missed = min(stride, problem.tiles) - launched
    cause = f"{launched} programs take ids at a stride of {stride}: {missed} residues are nobody's"
    return StridedSchedule(
        name=spec.name,
        problem=problem,
        num_workers=launched,
        params={"panel_width": group, "num_workers": stride, "launched": launched},
        padded_m=rows,
        padded_n=columns,
        clock=PhaseClock.TILE,
        cause=cause if missed > 0 else "",
        stride=stride,
        num_ids=rows * columns,
        decode=decode,
        # The rotated tail has other tiles first within a step, but the same tiles in each step.
        structure=panel_structure(PanelWalk(columns, rows, group, RasterOrder.PANEL_M), rows * columns),
    )


_PARAMS = (
    Param("panel_width", "8", "GROUP_SIZE_M: tile rows of a group"),
    Param("num_workers", "SMs", "NUM_SMS: the stride of the ids"),
    Param("launched", "min(num_workers, tiles)", "programs in the grid"),
)
_PARAM_ALIASES = {
    "num_pid_m": "tiles_m",
    "num_pid_n": "tiles_n",
    "GROUP_SIZE_M": "panel_width",
    "NUM_SMS": "num_workers",
}

GROUPED = SchedulerSpec(
    name="triton.grouped_persistent",
    summary="persistent matmul, grouped order; in the last group rows come one after another",
    source=f"{_SOURCE}, with the tail (id % ids_of_group) % rows_of_group that most other code has",
    params=_PARAMS,
    build=partial(_grouped, rotated=False),
    aliases=("triton.grouped_persistent(non-rotated tail: (id % per) % gm)",),
    param_aliases=_PARAM_ALIASES,
)

GROUPED_ROTATED = SchedulerSpec(
    name="triton.grouped_persistent_rotated",
    summary="persistent matmul, grouped order; in the last group rows may begin in the middle",
    source=_SOURCE,
    params=_PARAMS,
    build=partial(_grouped, rotated=True),
    aliases=("triton.grouped_persistent(rotated tail: id % gm, tutorial 09)",),
    param_aliases=_PARAM_ALIASES,
)
