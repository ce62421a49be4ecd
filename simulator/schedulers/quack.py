"""quack: panels walked back and forth.

docs/schedulers.md has the formulas, where they are from, and how far each was checked.
"""

from __future__ import annotations

from ..intmath import round_up
from ..problem import Problem
from ..raster import RasterOrder
from ..schedule import StridedSchedule
from ..structure import PanelWalk
from .panels import padding_cause, panel_schedule
from .spec import DEFAULT_PANEL_WIDTH, Options, Param, SchedulerSpec

__all__ = ["DENSE_STATIC"]


def _dense_static(problem: Problem, options: Options) -> StridedSchedule:
    DENSE_STATIC.refuse(options, "launched")
    rows, columns = problem.clusters_m, problem.clusters_n
    width, order = options.panel_width or DEFAULT_PANEL_WIDTH, options.raster
    if order is None:
        along_m = round_up(columns, width) > round_up(rows, width)
        order = RasterOrder.PANEL_M if along_m else RasterOrder.PANEL_N
    across, along = (rows, columns) if order is RasterOrder.PANEL_M else (columns, rows)
    workers = min(rows * columns, options.num_workers or problem.sm_count // problem.cluster_size)
    return panel_schedule(
        DENSE_STATIC.name,
        problem,
        PanelWalk(along, across, width, order, serpentine=True),
        params={"panel_width": width, "raster": str(order), "num_workers": workers},
        workers=workers,
        cause=padding_cause(problem, rows, columns),
    )


DENSE_STATIC = SchedulerSpec(
    name="quack.dense_static",
    summary="the static scheduler of dense GEMMs: panels of clusters, every other one backwards, narrow last panel",
    source="Dao-AILab/quack c8ec31700 quack/tile_scheduler.py",
    params=(
        Param("panel_width", "8", "max_swizzle_size: clusters across a panel"),
        Param("raster", "heuristic", "panel-m is AlongM, panel-n is AlongN: not as in CUTLASS"),
        Param("cluster", "1", "cluster shape"),
        Param("num_workers", "SMs // cluster", "max_active_clusters: at most so many, stride of the ids"),
    ),
    build=_dense_static,
)
