"""Schedulers of the registry against the originals that are written out: the same tiles, worker by worker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.errors import NoScheduleError
from tilesched.simulator.originals import ORIGINALS, Listing
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedule import Schedule
from tilesched.simulator.schedulers import Options, get
from tilesched.simulator.schedulers.deepgemm import group_width
from tilesched.verify.certificate import certify
from tilesched.verify.coverage import check_coverage
from tilesched.verify.listings import cover

small = st.integers(1, 13)
widths = st.integers(1, 9)
workers_st = st.integers(1, 40)
orders = st.sampled_from(RasterOrder)
chosen_orders = st.sampled_from([None, *RasterOrder])
clusters = st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (4, 2)])
AlongM = {None: "H", RasterOrder.PANEL_N: "M", RasterOrder.PANEL_M: "N"}


def build(name: str, m: int, n: int, cluster: tuple[int, int] = (1, 1), sms: int = 148, **options: Any) -> Schedule:
    problem = Problem(
        m=m, n=n, k=1, block_m=1, block_n=1, block_k=1, cluster_m=cluster[0], cluster_n=cluster[1], sm_count=sms
    )
    return get(name).build(problem, Options(**options))


def tiles_of(schedule: Schedule) -> list[list[tuple[int, ...]]]:
    workers = (schedule.worker(worker) for worker in range(schedule.num_workers))
    return [list(zip(rows.m.tolist(), rows.n.tolist(), strict=True)) for rows in workers]


def entries(one: Listing, numbers: slice = slice(None)) -> list[list[tuple[int, ...]]]:
    return [[tuple(tile[numbers]) for tile in work if isinstance(tile, tuple)] for work in one.workers]


def listing(name: str, **params: Any) -> Listing:
    return ORIGINALS[name].build(params)


def in_launch_order(schedule: Schedule) -> list[tuple[int, ...]]:
    """The tiles of all workers by their ids."""
    rows = [schedule.worker(worker) for worker in range(schedule.num_workers)]
    tiles = [
        one for worker in rows for one in zip(worker.linear.tolist(), worker.m.tolist(), worker.n.tolist(), strict=True)
    ]
    return [(m, n) for _, m, n in sorted(tiles)]


def refused(schedule: Schedule) -> bool:
    return any(remark.kind == "launch" for remark in schedule.remarks)


@pytest.mark.parametrize("name", ["tilelang.T.Persistent", "tilelang.T.Persistent(before #2455)"])
@given(small, small, widths, workers_st)
def test_t_persistent(name: str, m: int, n: int, group: int, wave: int) -> None:
    ours = build(name, m, n, panel_width=group, num_workers=wave)
    theirs = listing(name, domain=[m, n], wave_size=wave, group_size=group)
    assert tiles_of(ours) == entries(theirs)
    found = check_coverage(ours)
    truth = cover(theirs)
    assert (found.missing.count, found.out_of_range.count) == (len(truth.lost), len(truth.ghosts))


@given(small, small, widths, orders)
def test_use_swizzle(m: int, n: int, width: int, order: RasterOrder) -> None:
    """blockIdx.x counts tile columns."""
    name = "row" if order is RasterOrder.PANEL_M else "column"
    (theirs,) = entries(listing("tilelang.use_swizzle", gridDim_x=n, gridDim_y=m, panel_width=width, order=name))
    ours = build("tilelang.use_swizzle", m, n, panel_width=width, raster=order)
    assert in_launch_order(ours) == [(y, x) for x, y in theirs]


@given(small, small, clusters, st.sampled_from([1, 2, 3, 4, 8, 16]), chosen_orders, st.integers(8, 150))
def test_cutlass_sm90_static(
    m: int, n: int, cluster: tuple[int, int], swizzle: int, order: RasterOrder | None, sms: int
) -> None:
    theirs = listing(
        "cutlass.sm90.static_persistent",
        cta_tiles_m=m,
        cta_tiles_n=n,
        cluster=list(cluster),
        sm_count=sms,
        max_swizzle=swizzle,
        raster=AlongM[order],
    )
    ours = build("cutlass.sm90_static", m, n, cluster, sms, panel_width=swizzle, raster=order)
    grid = theirs.facts["grid"]
    assert isinstance(grid, list)
    assert refused(ours) == any(length % size for length, size in zip(grid, cluster, strict=True))
    if refused(ours):
        return
    by_cta = {tile: cta for cta, work in enumerate(entries(theirs, slice(2))) for tile in work}
    for worker, tiles in enumerate(tiles_of(ours)):
        owners = {by_cta[row * cluster[0], column * cluster[1]] // (cluster[0] * cluster[1]) for row, column in tiles}
        assert owners <= {worker}
    firsts = [
        [(row // cluster[0], column // cluster[1]) for row, column in work]
        for work in entries(theirs, slice(2))[:: cluster[0] * cluster[1]]
    ]
    assert tiles_of(ours) == firsts
    assert (ours.padded_m, ours.padded_n) == tuple(theirs.facts["padded"])  # type: ignore[arg-type]


@given(small, small, st.sampled_from([(2, 1), (1, 2), (2, 2)]), st.integers(1, 8), st.integers(8, 40))
def test_cutlass_sm90_static_with_a_number_of_clusters(
    m: int, n: int, cluster: tuple[int, int], most: int, sms: int
) -> None:
    theirs = listing(
        "cutlass.sm90.static_persistent",
        cta_tiles_m=m,
        cta_tiles_n=n,
        cluster=list(cluster),
        sm_count=sms,
        max_active_clusters=most,
    )
    ours = build("cutlass.sm90_static", m, n, cluster, sms, num_workers=most)
    if not refused(ours):
        assert ours.num_workers * cluster[0] * cluster[1] == len(theirs.workers)


def test_cutlass_sm90_static_on_a_few_sms_is_refused() -> None:
    """schedulers.md 2.1: 2x2 on 10 SMs has the grid (2, 5)."""
    ours = build("cutlass.sm90_static", 9, 9, (2, 2), 10, raster=RasterOrder.PANEL_M)
    (remark,) = [one for one in ours.remarks if one.kind == "launch"]
    assert remark.facts == {"grid": [2, 5]}


@given(small, small, clusters, st.integers(1, 6), chosen_orders, workers_st)
def test_cutlass_sm100_clc(
    m: int, n: int, cluster: tuple[int, int], swizzle: int, order: RasterOrder | None, workers: int
) -> None:
    params = {"cta_tiles_m": m, "cta_tiles_n": n, "cluster": list(cluster), "max_swizzle": swizzle}
    (theirs,) = entries(listing("cutlass.sm100.clc", **params, raster=AlongM[order]), slice(2))
    ours = build("cutlass.sm100_clc", m, n, cluster, panel_width=swizzle, raster=order, num_workers=workers)
    assert in_launch_order(ours) == [(row // cluster[0], column // cluster[1]) for row, column in theirs]


@given(small, small, widths, workers_st)
def test_cutlass_identity_swizzle(m: int, n: int, most: int, workers: int) -> None:
    """schedulers.md 2.6, block by block."""
    log = max(log for log, side in ((0, 1), (1, 2), (2, 3), (3, 6)) if n >= side and most >= 2**log)
    blocks = [(x >> log, (y << log) + (x & (2**log - 1))) for y in range(-(-n >> log)) for x in range(m << log)]
    ours = build("cutlass.identity_swizzle", m, n, panel_width=most, num_workers=workers)
    assert in_launch_order(ours) == [tile for tile in blocks if tile[1] < n]


@given(small, small, clusters, widths, orders, st.integers(1, 30))
def test_cutedsl(m: int, n: int, cluster: tuple[int, int], width: int, order: RasterOrder, most: int) -> None:
    params: dict[str, Any] = {
        "ntile_mnl": [m, n, 1],
        "cluster": list(cluster),
        "swizzle_size": width,
        "raster_along_m": order is RasterOrder.PANEL_N,
    }
    static = build("cutedsl.static_persistent", m, n, cluster, panel_width=width, raster=order, num_workers=most)
    theirs = listing("cutedsl.static_persistent", **params, max_active_clusters=most)
    assert tiles_of(static) == entries(theirs, slice(2))
    dynamic = build("cutedsl.clc_dynamic", m, n, cluster, panel_width=width, raster=order, num_workers=most)
    (launched,) = entries(listing("cutedsl.clc_dynamic", **params), slice(2))
    assert in_launch_order(dynamic) == launched


@given(small, small, st.sampled_from([8, 16]), orders, workers_st)
def test_deepgemm(m: int, n: int, width: int, order: RasterOrder, workers: int) -> None:
    theirs = listing(
        "deepgemm.normal",
        m_blocks=m,
        n_blocks=n,
        num_sms=workers,
        num_1d_blocks_per_group=width,
        multicast_on_a=order is RasterOrder.PANEL_N,
    )
    ours = build("deepgemm.normal", m, n, panel_width=width, raster=order, num_workers=workers)
    assert tiles_of(ours) == entries(theirs)


def test_deepgemm_group_by_cost() -> None:
    """schedulers.md 4: of 128 × 128 blocks, 8 on 132 SMs and 16 on 148."""
    assert (group_width(128, 128, 132), group_width(128, 128, 148)) == (8, 16)
    assert build("deepgemm.normal", 3, 3, sms=148).params["panel_width"] == 16


@given(small, small, clusters, widths, chosen_orders, st.integers(1, 30))
def test_quack(m: int, n: int, cluster: tuple[int, int], width: int, order: RasterOrder | None, most: int) -> None:
    rows, columns = -(-m // cluster[0]), -(-n // cluster[1])
    raster = {None: "H", RasterOrder.PANEL_M: "M", RasterOrder.PANEL_N: "N"}[order]
    theirs = listing(
        "quack.dense_static",
        nclusters_m=rows,
        nclusters_n=columns,
        group_size=width,
        raster=raster,
        max_active_clusters=most,
    )
    ours = build("quack.dense_static", m, n, cluster, panel_width=width, raster=order, num_workers=most)
    assert tiles_of(ours) == entries(theirs, slice(2))


@given(small, small, widths)
def test_tilelang_clc_is_exact_where_it_says(m: int, n: int, group: int) -> None:
    """schedulers.md 1.4: exact when the rows are even and the group divides the columns, or one cluster row is left."""
    if m == 1:
        with pytest.raises(NoScheduleError):
            build("tilelang.clc_2cta", m, n, (2, 1), panel_width=group)
        return
    found = check_coverage(build("tilelang.clc_2cta", m, n, (2, 1), panel_width=group))
    assert bool(found.missing.count) == (m % 2 == 1 or (n % group > 0 and m // 2 > 1))


def test_tilelang_clc_ghosts() -> None:
    """schedulers.md 1.4: 4 × 1 tiles in groups of 2."""
    ours = build("tilelang.clc_2cta", 4, 1, (2, 1), panel_width=2)
    assert in_launch_order(ours) == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("tilelang.t_persistent", False),
        ("tilelang.t_persistent_before_2455", True),
        ("cutlass.sm90_static", False),
        ("cutlass.sm100_clc", False),
        ("cutlass.identity_swizzle", False),
        ("cutedsl.static_persistent", False),
        ("cutedsl.clc_dynamic", True),
        ("deepgemm.normal", False),
        ("quack.dense_static", False),
        ("tilelang.use_swizzle", False),
    ],
)
def test_grids_of_a_trillion_tiles_are_certified(name: str, missing: bool) -> None:
    found = certify(build(name, 10**6, 10**6 + 1, panel_width=8))
    assert found is not None
    assert bool(found.missing.count) == missing
