"""TileLang's schedulers of the seed: PersistentTileScheduler and the manual wave mappings before it.

docs/schedulers.md has the formulas, where they are from, and how far each was checked.
"""

from __future__ import annotations

from ..errors import NoScheduleError
from ..findings import Finding, Severity
from ..intmath import ceil_div, round_up
from ..problem import Problem
from ..raster import RasterOrder
from ..schedule import PhaseClock, StridedSchedule
from ..structure import PanelWalk
from .panels import grid_remarks, panel_schedule
from .spec import DEFAULT_PANEL_WIDTH, Options, Param, RemarkKind, SchedulerSpec

__all__ = ["MANUAL_1CTA", "MANUAL_2CTA", "PERSISTENT", "manual_ids"]


def _persistent(problem: Problem, options: Options) -> StridedSchedule:
    PERSISTENT.require_cluster(problem, "clusters along M only", problem.cluster_n == 1)
    rows, columns = problem.clusters_m, problem.tiles_n
    width = options.panel_width or DEFAULT_PANEL_WIDTH
    order = options.raster or RasterOrder.PANEL_N
    along, across = (rows, columns) if order is RasterOrder.PANEL_N else (columns, rows)
    stride = options.num_workers or problem.sm_count // problem.cluster_size
    launched = options.launched or stride
    return panel_schedule(
        PERSISTENT.name,
        problem,
        PanelWalk(along, across, width, order),
        params={
            "panel_width": width,
            "raster": str(order),
            "cluster_size": problem.cluster_m,
            "num_workers": stride,
            "launched": launched,
        },
        workers=stride,
        launched=launched,
        cause=_persistent_cause(problem, stride, launched),
    )


def _persistent_cause(problem: Problem, stride: int, launched: int) -> str:
    ids = problem.clusters_m * problem.tiles_n
    if launched > stride and ids > stride:
        return (
            f"{launched} workers are launched but their ids advance by {stride}: workers from {stride} on "
            "start at ids that other workers reach one wave later"
        )
    if launched < min(stride, ids):
        return (
            f"{launched} workers are launched but ids advance by {stride}: "
            "the ids of the absent workers are never taken"
        )
    if problem.tiles_m % problem.cluster_m:
        return (
            f"{problem.tiles_m} tile rows are not a multiple of the cluster {problem.cluster_m}: the last "
            "cluster row is handed out whole, so the kernel must clip or predicate its ghost rows"
        )
    return ""


PERSISTENT = SchedulerSpec(
    name="tilelang.persistent",
    summary="TileLang T.PersistentTileScheduler: panels, clusters along M, narrow last panel",
    source="tile-ai/tilelang a35008a42 tilelang/language/tile_schedule.py (arithmetic as in #2441)",
    params=(
        Param("panel_width", "8", "swizzle_size: cluster tiles across a panel"),
        Param("raster", "panel-n", "panel-n is column_major=True, panel-m is column_major=False"),
        Param("cluster", "1", "cluster_size: CTAs of a cluster, along M"),
        Param("num_workers", "SMs // cluster", "stride of the ids; workers are clusters"),
        Param("launched", "num_workers", "workers really in the grid"),
    ),
    build=_persistent,
    aliases=("tilelang.PersistentTileScheduler",),
    param_aliases={
        "num_m_tiles": "tiles_m",
        "num_n_tiles": "tiles_n",
        "swizzle_size": "panel_width",
        "column_major": "raster",
        "cluster_size": "cluster_m",
    },
)


def _manual_1cta(problem: Problem, options: Options) -> StridedSchedule:
    MANUAL_1CTA.refuse(options, "raster", "launched")
    MANUAL_1CTA.require_cluster(problem, "single CTAs", problem.cluster_size == 1)
    workers = options.num_workers or problem.sm_count
    return _manual(MANUAL_1CTA, problem, options, rows=problem.tiles_m, workers=workers, sm_num=workers)


def _manual_2cta(problem: Problem, options: Options) -> StridedSchedule:
    MANUAL_2CTA.refuse(options, "raster", "launched")
    MANUAL_2CTA.require_cluster(problem, "clusters of 2x1", (problem.cluster_m, problem.cluster_n) == (2, 1))
    sm_num = options.num_workers * 2 if options.num_workers else problem.sm_count
    rows = problem.tiles_m // 2
    if rows == 0:
        message = (
            f"m_clusters = m_blocks // 2 = {problem.tiles_m} // 2 = 0, by which the mapping divides: "
            "no tile is computed"
        )
        facts = {"m_blocks": problem.tiles_m}
        raise NoScheduleError(Finding(kind=RemarkKind.UNDEFINED, message=message, facts=facts))
    return _manual(MANUAL_2CTA, problem, options, rows=rows, workers=sm_num // 2, sm_num=sm_num)


def _manual(
    spec: SchedulerSpec, problem: Problem, options: Options, *, rows: int, workers: int, sm_num: int
) -> StridedSchedule:
    """Both manual mappings: ids over a grid whose columns are padded to the group, cut off after `waves`.

    `rows` counts tile rows (1-CTA) or cluster rows (2-CTA, rounded down); `sm_num` is the CTA count from
    which the seed takes `waves`.
    """
    columns = problem.tiles_n
    group = options.panel_width or DEFAULT_PANEL_WIDTH
    waves = ceil_div(problem.tiles, sm_num)
    return panel_schedule(
        spec.name,
        problem,
        PanelWalk(rows, columns, group, RasterOrder.PANEL_N, padded=True),
        params={"panel_width": group, "num_workers": workers, "sm_num": sm_num},
        workers=workers,
        num_ids=waves * workers,
        guard=True,
        clock=PhaseClock.WAVE,
        cause=_manual_cause(problem, group, rows, waves * workers),
        remarks=[*grid_remarks(problem, sm_num), *_manual_remarks(problem, group)],
    )


def manual_ids(rows: int, columns: int, group: int) -> int:
    """Ids of the manual mapping up to that of the last tile of rows × columns, in groups of `group` columns."""
    return (ceil_div(columns, group) * rows - 1) * group + (columns % group or group)


def _manual_cause(problem: Problem, group: int, rows: int, num_ids: int) -> str:
    """The loss conditions of docs/schedulers.md, in words."""
    columns, cluster = problem.tiles_n, problem.cluster_m
    causes = []
    if problem.tiles_m % cluster:
        causes.append(
            f"m_blocks // 2 = {rows} rounds {problem.tiles_m} tile rows down, "
            f"so row {problem.tiles_m - 1} is never visited"
        )
    last = manual_ids(rows, columns, group)
    if last > num_ids:
        causes.append(
            f"the last tile needs {last} ids, but waves * workers = {num_ids}"
            + (
                f": {columns} tile columns are padded to {round_up(columns, group)} by the group of {group}"
                if columns % group
                else ""
            )
        )
    return "; ".join(causes)


def _manual_remarks(problem: Problem, group: int) -> list[Finding]:
    remarks = []
    if problem.tiles_n % (2 * group):
        remarks.append(
            Finding(
                kind=RemarkKind.ASSERTION,
                severity=Severity.NOTE,
                message=f"the seed's kernel asserts n_blocks % (2 * group_size) == 0; "
                f"{problem.tiles_n} % {2 * group} = {problem.tiles_n % (2 * group)}",
                facts={"n_blocks": problem.tiles_n, "group_size": group},
            )
        )
    return remarks


_MANUAL_ALIASES = {
    "m_blocks": "tiles_m",
    "n_blocks": "tiles_n",
    "group_size": "panel_width",
    "sm_num": "sm_count",
}
_MANUAL_SOURCE = "tile-ai/tilelang 8a68bbc51^ examples/gemm_sm100/gemm_tcgen5mma_ws_persistent.py"

MANUAL_1CTA = SchedulerSpec(
    name="tilelang.manual_1cta",
    summary="the seed's manual wave mapping before #2441, one CTA a tile",
    source=f"{_MANUAL_SOURCE} gemm_persistent",
    params=(
        Param("panel_width", "8", "group_size: tile columns of a group"),
        Param("num_workers", "SMs", "sm_num: CTAs, the stride of the ids"),
    ),
    build=_manual_1cta,
    aliases=("tilelang.manual_1cta(pre-2441)",),
    param_aliases=_MANUAL_ALIASES,
)

MANUAL_2CTA = SchedulerSpec(
    name="tilelang.manual_2cta",
    summary="the seed's manual wave mapping before #2441, a pair of CTAs a cluster tile",
    source=f"{_MANUAL_SOURCE} gemm_persistent_2cta",
    params=(
        Param("panel_width", "8", "group_size: cluster tile columns of a group"),
        Param("num_workers", "SMs // 2", "clusters, the stride of the ids; sm_num = 2 * num_workers"),
    ),
    cluster=(2, 1),
    build=_manual_2cta,
    aliases=("tilelang.manual_2cta(pre-2441)",),
    param_aliases=_MANUAL_ALIASES,
    golden_per_cta=True,
)
