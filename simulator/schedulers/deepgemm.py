"""DeepGEMM: groups of 8 or 16 blocks, by what the group reads.

docs/schedulers.md has the formulas, where they are from, and how far each was checked.
"""

from __future__ import annotations

from ..errors import InputError
from ..intmath import ceil_div
from ..problem import Problem
from ..raster import RasterOrder
from ..schedule import StridedSchedule
from ..structure import PanelWalk
from .panels import panel_schedule
from .spec import Options, Param, SchedulerSpec

__all__ = ["NORMAL"]

_WIDTHS = (8, 16)


def group_width(grouped_block: int, other_block: int, num_sms: int) -> int:
    """Blocks of a group: the first width for which the CTAs of a wave read the fewest rows and columns."""
    return min(_WIDTHS, key=lambda width: width * grouped_block + ceil_div(num_sms, width) * other_block)


def _normal(problem: Problem, options: Options) -> StridedSchedule:
    NORMAL.refuse(options, "launched")
    NORMAL.require_cluster(problem, "single CTAs", problem.cluster_size == 1)
    if options.panel_width not in (None, *_WIDTHS):
        raise InputError(f"panel_width={options.panel_width}: {NORMAL.name} has groups of 8 or 16 blocks")
    workers, order = options.num_workers or problem.sm_count, options.raster or RasterOrder.PANEL_M
    on_m, on_n = (problem.tiles_m, problem.block_m), (problem.tiles_n, problem.block_n)
    (across, block), (along, other) = (on_m, on_n) if order is RasterOrder.PANEL_M else (on_n, on_m)
    width = options.panel_width or group_width(block, other, workers)
    return panel_schedule(
        NORMAL.name,
        problem,
        PanelWalk(along, across, width, order),
        params={"panel_width": width, "raster": str(order), "num_workers": workers},
        workers=workers,
    )


NORMAL = SchedulerSpec(
    name="deepgemm.normal",
    summary="the scheduler of dense GEMMs without multicast: groups of 8 or 16 blocks, narrow last group",
    source="deepseek-ai/DeepGEMM 54e226124 deep_gemm/include/deep_gemm/scheduler/gemm.cuh",
    params=(
        Param("panel_width", "8 or 16, by what a wave reads", "kNum1DBlocksPerGroup: blocks of a group"),
        Param("raster", "panel-m", "panel-m groups on M, panel-n on N (kIsMulticastOnA)"),
        Param("num_workers", "SMs", "kNumSMs: CTAs, the stride of the ids"),
    ),
    build=_normal,
)
