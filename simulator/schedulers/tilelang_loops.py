"""TileLang without a scheduler object: the `T.Persistent` loop, cluster launch control, and plain swizzled grids.

docs/schedulers.md has the formulas, where they are from, and how far each was checked.
"""

from __future__ import annotations

from functools import partial

from ..errors import NoScheduleError
from ..findings import Finding
from ..intmath import round_up
from ..problem import Problem
from ..raster import RasterOrder
from ..schedule import StridedSchedule
from ..structure import PanelWalk
from .panels import decided_at_run_time, grid_remarks, panel_schedule
from .spec import DEFAULT_PANEL_WIDTH, Options, Param, RemarkKind, SchedulerSpec
from .tilelang import manual_ids

__all__ = ["CLC_2CTA", "T_PERSISTENT", "T_PERSISTENT_BEFORE", "USE_SWIZZLE"]


def _t_persistent(problem: Problem, options: Options, *, fixed: bool) -> StridedSchedule:
    """Over the domain [tile rows, tile columns]; the loop variable never is a phase, so holes do no harm."""
    spec = T_PERSISTENT if fixed else T_PERSISTENT_BEFORE
    spec.refuse(options, "raster", "launched")
    spec.require_cluster(problem, "single CTAs", problem.cluster_size == 1)
    rows, columns = problem.tiles_m, problem.tiles_n
    group = min(options.panel_width or DEFAULT_PANEL_WIDTH, columns)
    workers = options.num_workers or problem.sm_count
    walk = PanelWalk(rows, columns, group, RasterOrder.PANEL_N, padded=True)
    ids = walk.num_ids if fixed else max(rows * columns, workers)
    needed = manual_ids(rows, columns, group)
    cause = ""
    if ids > rows * columns:
        cause = f"{workers} workers have an id each, and no guard skips those beyond the {problem.tiles} tiles"
    if needed > ids:
        cause = (
            f"{columns} tile columns are padded to {round_up(columns, group)} by the group of {group}: the last tile "
            f"needs {needed} ids, but the loop ends after {ids}, and no guard skips those of the padding"
        )
    return panel_schedule(
        spec.name,
        problem,
        walk,
        params={"panel_width": group, "num_workers": workers},
        workers=workers,
        num_ids=ids,
        guard=fixed,
        cause="" if fixed else cause,
    )


_T_PERSISTENT_PARAMS = (
    Param("panel_width", "8", "group_size: tile columns of a group, at most all"),
    Param("num_workers", "SMs", "wave_size: CTAs, the stride of the ids"),
)

T_PERSISTENT = SchedulerSpec(
    name="tilelang.t_persistent",
    summary="the loop T.Persistent([m, n], wave_size, index) since #2455: the last group is padded, and guarded",
    source="tile-ai/tilelang a35008a42 src/ir.cc PersistentFor",
    params=_T_PERSISTENT_PARAMS,
    build=partial(_t_persistent, fixed=True),
    aliases=("tilelang.T.Persistent",),
)

T_PERSISTENT_BEFORE = SchedulerSpec(
    name="tilelang.t_persistent_before_2455",
    summary="the loop T.Persistent before #2455: ids end with the number of tiles, and nothing is guarded",
    source="tile-ai/tilelang ab083cb3c^ src/ir.cc PersistentFor",
    params=_T_PERSISTENT_PARAMS,
    build=partial(_t_persistent, fixed=False),
    aliases=("tilelang.T.Persistent(before #2455)",),
)


def _clc_2cta(problem: Problem, options: Options) -> StridedSchedule:
    CLC_2CTA.refuse(options, "raster", "launched")
    CLC_2CTA.require_cluster(problem, "clusters of 2x1", (problem.cluster_m, problem.cluster_n) == (2, 1))
    rows, columns = problem.tiles_m // 2, problem.tiles_n
    if rows == 0:
        message = f"m_blocks // 2 = {problem.tiles_m} // 2 = 0: CUDA refuses a grid of no CTAs"
        raise NoScheduleError(Finding(kind=RemarkKind.LAUNCH, message=message, facts={"m_blocks": problem.tiles_m}))
    group, ids = options.panel_width or DEFAULT_PANEL_WIDTH, rows * columns
    workers = options.num_workers or problem.sm_count // 2
    causes = []
    if problem.tiles_m % 2:
        causes.append(f"m_blocks // 2 = {rows} rounds {problem.tiles_m} tile rows down: the last row is never visited")
    if manual_ids(rows, columns, group) > ids:
        causes.append(
            f"{columns} tile columns are padded to {round_up(columns, group)} by the group of {group}, but {ids} "
            "clusters are launched, and no guard skips those of the padding"
        )
    return panel_schedule(
        CLC_2CTA.name,
        problem,
        PanelWalk(rows, columns, group, RasterOrder.PANEL_N, padded=True),
        params={"panel_width": group, "num_workers": workers},
        workers=workers,
        num_ids=ids,
        cause="; ".join(causes),
        remarks=[*grid_remarks(problem, 2 * ids), decided_at_run_time("cluster launch control")],
    )


CLC_2CTA = SchedulerSpec(
    name="tilelang.clc_2cta",
    summary="the example with cluster launch control: a pair of CTAs for each cluster tile, without a guard",
    source="tile-ai/tilelang a35008a42 examples/gemm_tcgen05/gemm_tcgen5mma_ws_clc.py",
    params=(
        Param("panel_width", "8", "group_size: cluster tile columns of a group"),
        Param("num_workers", "SMs // 2", "clusters that are resident at once"),
    ),
    cluster=(2, 1),
    build=_clc_2cta,
)


def _use_swizzle(problem: Problem, options: Options) -> StridedSchedule:
    USE_SWIZZLE.refuse(options, "launched")
    USE_SWIZZLE.require_cluster(problem, "single CTAs", problem.cluster_size == 1)
    rows, columns = problem.tiles_m, problem.tiles_n
    width, order = options.panel_width or DEFAULT_PANEL_WIDTH, options.raster or RasterOrder.PANEL_M
    along, across = (columns, rows) if order is RasterOrder.PANEL_M else (rows, columns)
    workers = options.num_workers or problem.sm_count
    return panel_schedule(
        USE_SWIZZLE.name,
        problem,
        PanelWalk(along, across, width, order, serpentine=True),
        params={"panel_width": width, "raster": str(order), "num_workers": workers},
        workers=workers,
        remarks=[*grid_remarks(problem, columns, rows), decided_at_run_time("one CTA a tile")],
    )


USE_SWIZZLE = SchedulerSpec(
    name="tilelang.use_swizzle",
    summary="T.use_swizzle on a grid of one CTA a tile: panels, every other one backwards, narrow last panel",
    source="tile-ai/tilelang a35008a42 src/tl_templates/cuda/threadblock_swizzle.h",
    params=(
        Param("panel_width", "8", "panel_size: tiles across a panel"),
        Param("raster", "panel-m", "panel-m is order='row' where blockIdx.x counts tile columns, panel-n 'column'"),
        Param("num_workers", "SMs", "CTAs that are resident at once"),
    ),
    build=_use_swizzle,
)
