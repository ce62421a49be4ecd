"""CuTe DSL: the static persistent scheduler and the one of cluster launch control.

docs/schedulers.md has the formulas, where they are from, and how far each was checked.
"""

from __future__ import annotations

from functools import partial

from ..intmath import round_up
from ..problem import Problem
from ..raster import RasterOrder
from ..schedule import StridedSchedule
from ..structure import PanelWalk
from .panels import decided_at_run_time, grid_remarks, padding_cause, panel_schedule
from .spec import Options, Param, SchedulerSpec

__all__ = ["CLC_DYNAMIC", "STATIC_PERSISTENT"]


def _padded(problem: Problem, options: Options, *, dynamic: bool) -> StridedSchedule:
    """The cut axis is padded to whole panels. `dynamic`: as many clusters are launched as there are tiles, not ids."""
    spec = CLC_DYNAMIC if dynamic else STATIC_PERSISTENT
    spec.refuse(options, "launched")
    rows, columns = problem.clusters_m, problem.clusters_n
    width, order = options.panel_width or 1, options.raster or RasterOrder.PANEL_N
    along_m = order is RasterOrder.PANEL_N
    along, across = (rows, columns) if along_m else (columns, rows)
    padded = round_up(across, width)
    walk = PanelWalk(along, padded, width, order)
    tiles, resident = rows * columns, options.num_workers or problem.sm_count // problem.cluster_size
    workers = resident if dynamic else min(walk.num_ids, resident)
    grid_m, grid_n = (rows, padded) if along_m else (padded, columns)
    remarks = []
    cause = padding_cause(problem, grid_m, grid_n)
    if dynamic:
        grid: tuple[int, ...]
        if width == 1 and along_m:
            grid = rows * problem.cluster_m, columns * problem.cluster_n
        else:
            grid = problem.cluster_m, problem.cluster_n, tiles
        remarks = [*grid_remarks(problem, *grid), decided_at_run_time("cluster launch control")]
        if padded != across:
            cause = (
                f"{across} clusters across are padded to {padded} by the swizzle of {width}, so that the layout has "
                f"{walk.num_ids} ids, but {tiles} clusters are launched"
            )
    return panel_schedule(
        spec.name,
        problem,
        walk,
        params={"panel_width": width, "raster": str(order), "num_workers": workers},
        workers=workers,
        num_ids=tiles if dynamic else None,
        padded=(grid_m, grid_n),
        cause=cause,
        remarks=remarks,
    )


_SOURCE = "NVIDIA/cutlass 7107b0553 python/CuTeDSL/cutlass/utils"
_PARAMS = (
    Param("panel_width", "1", "swizzle_size: clusters across a panel"),
    Param("raster", "panel-n", "panel-n is raster_along_m=True, panel-m is raster_along_m=False"),
    Param("cluster", "1", "cluster shape"),
)

STATIC_PERSISTENT = SchedulerSpec(
    name="cutedsl.static_persistent",
    summary="StaticPersistentTileScheduler: panels of clusters, the cut axis padded to them",
    source=f"{_SOURCE}/static_persistent_tile_scheduler.py",
    params=(
        *_PARAMS,
        Param("num_workers", "SMs // cluster", "max_active_clusters: at most so many, the stride of the ids"),
    ),
    build=partial(_padded, dynamic=False),
)

CLC_DYNAMIC = SchedulerSpec(
    name="cutedsl.clc_dynamic",
    summary="ClcDynamicPersistentTileScheduler: the same layout, but a grid that is not padded to it",
    source=f"{_SOURCE}/dynamic_persistent_tile_scheduler.py",
    params=(*_PARAMS, Param("num_workers", "SMs // cluster", "clusters that are resident at once")),
    build=partial(_padded, dynamic=True),
)
