"""CUTLASS: the static persistent scheduler of SM90, cluster launch control on SM100, and the swizzle of 2.x.

docs/schedulers.md has the formulas, where they are from, and how far each was checked.
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError, NoScheduleError
from ..originals.cutlass import ALONG_M, ALONG_N, HEURISTIC, SOURCE, dense_grid, launch_grid, log_width
from ..problem import Problem
from ..raster import IntArray, RasterOrder
from ..schedule import BoolArray, PhaseClock, StridedSchedule
from ..structure import Box, PanelWalk, Run, Structure
from .panels import ALL_EMITTED, decided_at_run_time, grid_remarks, padding_cause, panel_schedule
from .spec import Options, Param, SchedulerSpec

__all__ = ["IDENTITY_SWIZZLE", "SM90_STATIC", "SM100_CLC"]

_RASTERS = {RasterOrder.PANEL_N: ALONG_M, RasterOrder.PANEL_M: ALONG_N, None: HEURISTIC}
_ORDERS = {ALONG_M: RasterOrder.PANEL_N, ALONG_N: RasterOrder.PANEL_M}
_RASTER = Param("raster", "heuristic", "panel-n is AlongM, panel-m is AlongN")


def _sm90_static(problem: Problem, options: Options) -> StridedSchedule:
    SM90_STATIC.refuse(options, "launched")
    cluster, size = (problem.cluster_m, problem.cluster_n), problem.cluster_size
    if size & (size - 1):
        raise InputError(f"cluster={cluster[0]}x{cluster[1]}: {SM90_STATIC.name} needs powers of two")
    swizzle = options.panel_width or 1
    grid = dense_grid(problem.tiles_m, problem.tiles_n, cluster, swizzle, _RASTERS[options.raster])
    chosen = options.num_workers or 0
    sms = chosen if chosen and size == 1 else problem.sm_count  # single CTAs go by the SMs alone
    launched = launch_grid(grid.raster, cluster, sms, chosen, grid.size)
    remarks, workers = grid_remarks(problem, *launched), launched[0] * launched[1] // size
    if not workers:
        raise NoScheduleError(remarks[0])
    order = _ORDERS[grid.raster]
    rows, columns = grid.m // cluster[0], grid.n // cluster[1]
    along, across = (rows, columns) if grid.raster == ALONG_M else (columns, rows)
    return panel_schedule(
        SM90_STATIC.name,
        problem,
        PanelWalk(along, across, 1 << grid.log_swizzle, order),
        params={
            "panel_width": swizzle,
            "log_swizzle": grid.log_swizzle,
            "raster": str(order),
            "num_workers": workers,
        },
        workers=workers,
        padded=(rows, columns),
        cause=padding_cause(problem, rows, columns),
        remarks=remarks,
        id_bits=64,
    )


SM90_STATIC = SchedulerSpec(
    name="cutlass.sm90_static",
    summary="PersistentTileSchedulerSm90: panels of a power of two clusters, both axes padded to them",
    source=f"{SOURCE}/sm90_tile_scheduler.hpp",
    params=(
        Param("panel_width", "1", "max_swizzle_size: 1, 2, 4 or 8 clusters across a panel, fewer on small grids"),
        _RASTER,
        Param("cluster", "1", "cluster shape, powers of two"),
        Param("num_workers", "by SMs, in GPCs of 18", "max_active_clusters: clusters, the stride of the ids"),
    ),
    build=_sm90_static,
    aliases=("cutlass.sm90.static_persistent",),
)


class _Blocks:
    """Squares of `width` × `width` clusters that are dealt out column by column; what is left at the edges is not."""

    def __init__(self, size_x: int, size_y: int, width: int, raster: str) -> None:
        self.size_x, self.width, self.along_m = size_x, width, raster == ALONG_M
        self.whole_x, self.whole_y = size_x // width, size_y // width

    def decode(self, linear: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        """The cluster tiles of ids in launch order."""
        y = linear // self.size_x
        x = linear - y * self.size_x
        inside = (x < self.whole_x * self.width) & (y < self.whole_y * self.width)
        square_x, square_y = x // self.width, y // self.width
        to_x = square_x + self.whole_x * (y - square_y * self.width)
        to_y = (x - square_x * self.width) + square_y * self.width
        x, y = np.where(inside, to_x, x), np.where(inside, to_y, y)
        return (x, y, ALL_EMITTED) if self.along_m else (y, x, ALL_EMITTED)

    def locate(self, m: int, n: int) -> int:
        """The id of a cluster tile."""
        x, y = (m, n) if self.along_m else (n, m)
        if x < self.whole_x * self.width and y < self.whole_y * self.width:
            offset, square_x = divmod(x, self.whole_x)
            x, y = square_x * self.width + y % self.width, y // self.width * self.width + offset
        return y * self.size_x + x


def _sm100_clc(problem: Problem, options: Options) -> StridedSchedule:
    SM100_CLC.refuse(options, "launched")
    rows, columns = problem.clusters_m, problem.clusters_n
    raster = _RASTERS[options.raster]
    if raster == HEURISTIC:
        raster = ALONG_M if columns > rows or rows * problem.cluster_n > 65535 else ALONG_N
    size_x, size_y = (rows, columns) if raster == ALONG_M else (columns, rows)
    blocks = _Blocks(size_x, size_y, options.panel_width or 1, raster)
    workers = options.num_workers or problem.sm_count // problem.cluster_size
    return StridedSchedule(
        name=SM100_CLC.name,
        problem=problem,
        num_workers=workers,
        params={"panel_width": blocks.width, "raster": str(_ORDERS[raster]), "num_workers": workers},
        padded_m=rows * problem.cluster_m,
        padded_n=columns * problem.cluster_n,
        clock=PhaseClock.TILE,
        cause=padding_cause(problem, rows, columns),
        remarks=[
            *grid_remarks(problem, size_x * problem.cluster_m, size_y * problem.cluster_n),
            decided_at_run_time("cluster launch control"),
        ],
        stride=workers,
        num_ids=rows * columns,
        decode=blocks.decode,
        structure=Structure((Box(range(rows), range(columns)),), (Run(range(rows * columns)),), blocks.locate),
    )


SM100_CLC = SchedulerSpec(
    name="cutlass.sm100_clc",
    summary="PersistentTileSchedulerSm100: a cluster for each cluster tile, dealt out in squares, not padded",
    source=f"{SOURCE}/sm100_tile_scheduler.hpp",
    params=(
        Param("panel_width", "1", "max_swizzle_size: clusters across a square, of any number; 1 is off"),
        _RASTER,
        Param("cluster", "1", "cluster shape"),
        Param("num_workers", "SMs // cluster", "clusters that are resident at once"),
    ),
    build=_sm100_clc,
    aliases=("cutlass.sm100.clc",),
)


def _identity_swizzle(problem: Problem, options: Options) -> StridedSchedule:
    IDENTITY_SWIZZLE.refuse(options, "raster", "launched")
    IDENTITY_SWIZZLE.require_cluster(problem, "single CTAs", problem.cluster_size == 1)
    rows, columns = problem.tiles_m, problem.tiles_n
    most = options.panel_width or 8
    log = log_width(most, columns)
    walk = PanelWalk(rows, columns, 1 << log, RasterOrder.PANEL_N, padded=True)
    workers = options.num_workers or problem.sm_count
    grid = rows << log, walk.num_ids // (rows << log)
    return panel_schedule(
        IDENTITY_SWIZZLE.name,
        problem,
        walk,
        params={"panel_width": most, "log_swizzle": log, "num_workers": workers},
        workers=workers,
        guard=True,
        remarks=[*grid_remarks(problem, *grid), decided_at_run_time("one CTA a tile")],
    )


IDENTITY_SWIZZLE = SchedulerSpec(
    name="cutlass.identity_swizzle",
    summary="GemmIdentityThreadblockSwizzle of CUTLASS 2.x: a CTA a tile, panels of columns, the last one guarded",
    source="NVIDIA/cutlass 7107b0553 include/cutlass/gemm/threadblock/threadblock_swizzle.h",
    params=(
        Param("panel_width", "8", "N of the template: 1, 2, 4 or 8 tile columns of a panel, fewer on small grids"),
        Param("num_workers", "SMs", "CTAs that are resident at once"),
    ),
    build=_identity_swizzle,
)
