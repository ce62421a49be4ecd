"""Listings of libraries' schedulers: each tile and k-block once where they are right, and their losses where not."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilesched.simulator.errors import InputError
from tilesched.simulator.originals import ORIGINALS, Listing, Piece
from tilesched.simulator.originals.listing import MAX_WORK
from tilesched.verify.listings import cover

small = st.integers(1, 7)
clusters = st.sampled_from([[1, 1], [2, 1], [1, 2], [2, 2], [4, 1]])
sms = st.sampled_from([1, 3, 4, 8, 18, 19, 20, 37, 132])
rasters = st.sampled_from(["H", "M", "N"])
swizzles = st.sampled_from([1, 2, 3, 4, 8, 16])


def listing(name: str, **params: Any) -> Listing:
    return ORIGINALS[name].build(params)


def tiles_per_worker(one: Listing) -> list[list[Any]]:
    return [list(work) for work in one.workers]


def is_exact(one: Listing) -> bool:
    found = cover(one)
    return not found.lost and not found.repeated


# -- TileLang -----------------------------------------------------------------------------------------------------


@given(st.lists(small, min_size=1, max_size=3), small, st.integers(1, 9))
def test_t_persistent_is_exact_since_its_fix(domain: list[int], wave: int, group: int) -> None:
    found = cover(listing("tilelang.T.Persistent", domain=domain, wave_size=wave, group_size=group))
    assert found == type(found)((), (), ())


@given(small, st.integers(1, 12), st.integers(1, 40), st.integers(1, 9))
def test_t_persistent_lost_tiles_before_by_its_law(rows: int, columns: int, wave: int, group: int) -> None:
    """schedulers.md 1.3: the law was found by brute force on another transcription."""
    one = listing("tilelang.T.Persistent(before #2455)", domain=[rows, columns], wave_size=wave, group_size=group)
    width = min(group, columns)
    tail = columns - (-(-columns // width) - 1) * width
    assert bool(cover(one).lost) == ((rows - 1) * (width - tail) > max(0, wave - rows * columns))


def test_t_persistent_ran_tiles_that_do_not_exist() -> None:
    one = listing("tilelang.T.Persistent(before #2455)", domain=[1, 1], wave_size=2)
    assert cover(one).ghosts == ((0, 1),)


@given(small, small, small, st.sampled_from(["row", "column"]))
def test_use_swizzle_is_a_bijection_of_neighbours(x: int, y: int, width: int, order: str) -> None:
    one = listing("tilelang.use_swizzle", gridDim_x=x, gridDim_y=y, panel_width=width, order=order)
    assert cover(one) == type(cover(one))((), (), ())
    (walk,) = tiles_per_worker(one)
    if width == 1:  # back and forth: each step goes to a neighbour
        assert all(abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1 for a, b in pairwise(walk))


@given(small, small, st.integers(1, 9), st.integers(1, 12))
def test_stream_k_of_pairs_is_exact_and_publishes_once(rows: int, columns: int, k_blocks: int, workers: int) -> None:
    assume(rows * columns % workers)
    one = listing("tilelang.streamk_2cta", m_clusters=rows, n_blocks=columns, k_blocks=k_blocks, num_clusters=workers)
    assert is_exact(one)
    for work in one.workers:  # a cluster has one place to publish a part that does not end its tile
        parts = [piece for piece in work if isinstance(piece, Piece)]
        assert sum(piece.k_begin + piece.k_count < k_blocks for piece in parts) <= 1


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), small, st.integers(2, 9), st.integers(1, 9))
def test_grouped_mxfp8_computes_every_tile_and_the_rows_that_experts_lack(
    experts: list[int], columns: int, sm_num: int, group: int
) -> None:
    most = max(1, *experts)
    one = listing(
        "tilelang.grouped_mxfp8",
        expert_m_blocks=experts, n_blocks=columns, max_M_blocks=most, sm_num=sm_num, group_size=group,
    )  # fmt: skip
    assert is_exact(one)
    height = most + most % 2
    assert len(cover(one).ghosts) == sum((height - rows) * columns for rows in experts)


# -- CUTLASS ------------------------------------------------------------------------------------------------------


@given(small, small, st.integers(1, 2), clusters, sms, st.integers(0, 20), swizzles, rasters)
def test_cutlass_static_computes_every_padded_tile_once(
    m: int, n: int, batches: int, cluster: list[int], sm_count: int, most: int, swizzle: int, raster: str
) -> None:
    one = listing(
        "cutlass.sm90.static_persistent",
        cta_tiles_m=m, cta_tiles_n=n, L=batches, cluster=cluster, sm_count=sm_count,
        max_active_clusters=most, max_swizzle=swizzle, raster=raster,
    )  # fmt: skip
    grid, padded = one.facts["grid"], one.facts["padded"]
    assert isinstance(grid, list)
    assert isinstance(padded, list)
    assume(grid[0] % cluster[0] == 0 and grid[1] % cluster[1] == 0 and grid[0] * grid[1])  # else CUDA refuses it
    assert Counter(one.tiles()) == Counter(
        (a, b, c) for a in range(padded[0]) for b in range(padded[1]) for c in range(batches)
    )
    assert 0 <= padded[0] - m < 8 * cluster[0]
    assert is_exact(one)


@given(st.integers(1, 9), st.integers(1, 9), swizzles)
def test_cutlass_along_m_walks_panels_of_columns(m: int, n: int, swizzle: int) -> None:
    """Nested loops in place of arithmetic."""
    one = listing(
        "cutlass.sm90.static_persistent",
        cta_tiles_m=m, cta_tiles_n=n, cluster=[1, 1], sm_count=1, max_swizzle=swizzle, raster="M",
    )  # fmt: skip
    log, padded = one.facts["log_swizzle"], one.facts["padded"]
    assert isinstance(log, int)
    assert isinstance(padded, list)
    width = 2**log
    walk = [
        (row, panel + column, 0)
        for panel in range(0, padded[1], width)
        for row in range(padded[0])
        for column in range(width)
    ]
    assert tiles_per_worker(one) == [walk]


GROUPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).map(list), min_size=1, max_size=4)


@given(GROUPS, clusters, sms, swizzles, st.sampled_from(["AlongM", "AlongN"]), st.booleans())
def test_cutlass_groups_lose_tiles_only_with_panels_and_host_shapes(
    groups: list[list[int]], cluster: list[int], sm_count: int, swizzle: int, raster: str, host: bool
) -> None:
    one = listing(
        "cutlass.sm90.group",
        groups_cta_mn=groups, cluster=cluster, sm_count=sm_count, max_swizzle=swizzle, raster=raster, host_shapes=host,
    )  # fmt: skip
    grid = one.facts["grid"]
    assert isinstance(grid, list)
    assume(grid[0] % cluster[0] == 0 and grid[1] % cluster[1] == 0 and grid[0] * grid[1])
    found = cover(one)
    assert not found.repeated
    if swizzle == 1 or not host:
        assert not found.lost


def test_cutlass_3497_in_its_reported_and_its_smallest_form() -> None:
    """bugs.md A1: the host bounds ids without the padding to the swizzle."""
    base = {"cluster": [1, 1], "sm_count": 4, "max_swizzle": 4, "raster": "AlongM"}
    reported = listing("cutlass.sm90.group", groups_cta_mn=[[2, 2], [3, 3]], host_shapes=True, **base)
    alone = listing("cutlass.sm90.group", groups_cta_mn=[[3, 3]], host_shapes=True, **base)
    on_device = listing("cutlass.sm90.group", groups_cta_mn=[[2, 2], [3, 3]], host_shapes=False, **base)
    assert cover(reported).lost == ((2, 1, 1), (2, 2, 1))
    assert cover(alone).lost == ((2, 1, 0), (2, 2, 0))
    assert not cover(on_device).lost


MODES = st.sampled_from(
    [("Heuristic", 1), ("Heuristic", 3), ("StreamK", 1), ("DataParallel", 1), ("SplitK", 1), ("SplitK", 4)]
)


@given(small, small, st.integers(1, 2), st.integers(1, 70), clusters, sms, swizzles, rasters, MODES)
def test_cutlass_stream_k_computes_every_k_tile_once(
    m: int, n: int, batches: int, k_tiles: int, cluster: list[int], sm_count: int, swizzle: int, raster: str,
    mode: tuple[str, int],
) -> None:  # fmt: skip
    one = listing(
        "cutlass.sm90.stream_k",
        cta_tiles_m=m, cta_tiles_n=n, L=batches, k_tiles=k_tiles, cluster=cluster, sm_count=sm_count,
        max_swizzle=swizzle, raster=raster, decomposition=mode[0], splits=mode[1],
    )  # fmt: skip
    grid = one.facts["grid"]
    assert isinstance(grid, list)
    assume(grid[0] % cluster[0] == 0 and grid[1] % cluster[1] == 0 and grid[0] * grid[1])
    assert is_exact(one)
    if one.facts["kind"] == "StreamK":  # no piece is shorter than 8 k-tiles
        assert all(piece.k_count >= 8 for work in one.workers for piece in work if isinstance(piece, Piece))


@given(small, small, st.integers(1, 2), clusters, st.integers(0, 9), rasters)
def test_cutlass_clc_ids_are_a_bijection(
    m: int, n: int, batches: int, cluster: list[int], swizzle: int, raster: str
) -> None:
    one = listing(
        "cutlass.sm100.clc",
        cta_tiles_m=m, cta_tiles_n=n, L=batches, cluster=cluster, max_swizzle=swizzle, raster=raster,
    )  # fmt: skip
    assert cover(one) == type(cover(one))((), (), ())


# -- CuTe DSL -----------------------------------------------------------------------------------------------------


@given(small, small, st.integers(1, 2), clusters, small, st.booleans(), st.integers(1, 9))
def test_cutedsl_static_is_exact(
    m: int, n: int, batches: int, cluster: list[int], swizzle: int, along_m: bool, most: int
) -> None:
    one = listing(
        "cutedsl.static_persistent",
        ntile_mnl=[m, n, batches], cluster=cluster, swizzle_size=swizzle, raster_along_m=along_m,
        max_active_clusters=most,
    )  # fmt: skip
    assert is_exact(one)


@given(small, small, st.integers(1, 2), small, st.booleans())
def test_cutedsl_clc_loses_tiles_by_its_law(m: int, n: int, batches: int, swizzle: int, along_m: bool) -> None:
    """schedulers.md 3: the grid is not padded, the layout is."""
    one = listing(
        "cutedsl.clc_dynamic", ntile_mnl=[m, n, batches], cluster=[1, 1], swizzle_size=swizzle, raster_along_m=along_m
    )
    across, along = (n, m) if along_m else (m, n)
    loses = across % swizzle != 0 and not (along == 1 and batches == 1)
    assert bool(cover(one).lost) == loses


@given(GROUPS, st.integers(1, 9))
def test_cutedsl_groups_are_exact(groups: list[list[int]], most: int) -> None:
    one = listing("cutedsl.static_group", groups_cluster_tiles=groups, max_active_clusters=most)
    assert cover(one) == type(cover(one))((), (), ())


# -- DeepGEMM, quack, FlashAttention ------------------------------------------------------------------------------


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 9), st.sampled_from([8, 16]), st.booleans(),
       st.sampled_from([1, 2]), st.sampled_from(["sm90", "sm100"]))  # fmt: skip
def test_deepgemm_is_exact(m: int, n: int, workers: int, width: int, on_a: bool, multicast: int, arch: str) -> None:
    one = listing(
        "deepgemm.normal",
        m_blocks=m, n_blocks=n, num_sms=workers, num_1d_blocks_per_group=width, multicast_on_a=on_a,
        num_multicast=multicast, arch=arch,
    )  # fmt: skip
    assert cover(one) == type(cover(one))((), (), ())


@given(st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_deepgemm_pairs_share_the_operand_or_are_alone(m: int, n: int, on_a: bool) -> None:
    """schedulers.md 4: ids 2i and 2i + 1 share what is multicast, or stand in a panel of one, where it is off."""
    one = listing(
        "deepgemm.normal",
        m_blocks=m, n_blocks=n, num_sms=1, num_1d_blocks_per_group=8, multicast_on_a=on_a, num_multicast=2,
    )  # fmt: skip
    ((*walk,),) = tiles_per_worker(one)
    shared, primary, length = (0, 1, n) if on_a else (1, 0, m)
    for first, second in zip(walk[::2], walk[1::2], strict=False):
        alone = length % 2 == 1 and first[primary] == length - 1
        assert alone or first[shared] == second[shared]


@given(st.lists(st.integers(0, 9), max_size=4), small, small, st.booleans())
def test_deepgemm_masked_groups_are_exact(groups: list[int], n: int, workers: int, on_a: bool) -> None:
    one = listing(
        "deepgemm.m_grouped_masked",
        m_blocks_per_group=groups, n_blocks=n, num_sms=workers, num_1d_blocks_per_group=8, multicast_on_a=on_a,
    )  # fmt: skip
    assert cover(one) == type(cover(one))((), (), ())


@given(small, small, st.integers(1, 2), small, rasters, st.integers(1, 9))
def test_quack_is_exact_and_goes_back_and_forth(
    m: int, n: int, batches: int, width: int, raster: str, most: int
) -> None:
    params = {"nclusters_m": m, "nclusters_n": n, "L": batches, "group_size": width, "raster": raster}
    assert cover(listing("quack.dense_static", max_active_clusters=most, **params)).lost == ()
    (walk,) = tiles_per_worker(listing("quack.dense_static", max_active_clusters=1, **params))
    assert len(set(walk)) == len(walk)
    if width == 1:
        first = walk[: m * n]
        assert all(abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1 for a, b in pairwise(first))


@given(st.lists(st.integers(0, 20), max_size=5), small, small, small, st.sampled_from(["M", "N"]))
def test_quack_phantoms_are_the_last_ids(lengths: list[int], block: int, columns: int, width: int, raster: str) -> None:
    one = listing(
        "quack.varlen_m", seqlens=lengths, block_m=block, nclusters_n=columns, group_size=width, raster=raster
    )
    assert cover(one) == type(cover(one))((), (), ())
    (work,) = tiles_per_worker(one)
    needed = sum(-(-length // block) for length in lengths) * columns
    assert [entry is None for entry in work] == [False] * needed + [True] * (len(work) - needed)


@given(small, small, small, st.integers(1, 3), small)
def test_flash_attention_is_exact_and_takes_the_longest_first(
    blocks: int, heads: int, batches: int, splits: int, section: int
) -> None:
    params = {"num_blocks": blocks, "num_head": heads, "num_batch": batches, "splits": splits}
    assert cover(listing("fa3.static_persistent", num_sm=section, **params)).lost == ()
    dynamic = listing("fa3.dynamic_persistent(LPT)", swizzle=section, **params)
    assert cover(dynamic) == type(cover(dynamic))((), (), ())
    (work,) = tiles_per_worker(dynamic)
    of_one_head = [entry[0] for entry in work if entry[1:] == (0, 0, 0)]
    assert of_one_head == sorted(of_one_head, reverse=True)


# -- what comes from files ----------------------------------------------------------------------------------------

BAD = {
    "missing": ({}, "is missing"),
    "unknown": (
        {"ntile_mnl": [1, 1, 1], "cluster": [1, 1], "max_active_clusters": 1, "x": 1},
        "'x' is not a parameter",
    ),
    "no list": ({"ntile_mnl": "abc", "cluster": [1, 1], "max_active_clusters": 1}, "not a list"),
    "too short": ({"ntile_mnl": [1, 1], "cluster": [1, 1], "max_active_clusters": 1}, "2 numbers, not 3"),
    "a bool": ({"ntile_mnl": [1, 1, True], "cluster": [1, 1], "max_active_clusters": 1}, "not an integer"),
    "too large": ({"ntile_mnl": [2**31, 1, 1], "cluster": [1, 1], "max_active_clusters": 1}, "outside"),
    "zero": ({"ntile_mnl": [0, 1, 1], "cluster": [1, 1], "max_active_clusters": 1}, "outside"),
    "too much work": (
        {"ntile_mnl": [2**30, 2**30, 1], "cluster": [1, 1], "max_active_clusters": 1},
        f"[0, {MAX_WORK}]",
    ),
    "no flag": ({"ntile_mnl": [1, 1, 1], "cluster": [1, 1], "max_active_clusters": 1, "raster_along_m": 1}, "neither"),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_parameters_are_refused_in_one_line(case: str) -> None:
    params, text = BAD[case]
    with pytest.raises(InputError) as error:
        ORIGINALS["cutedsl.static_persistent"].build(params)
    assert text in str(error.value)
    assert "\n" not in str(error.value)
