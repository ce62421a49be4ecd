"""Laws of the seed's three schedulers. The naive twins are transcribed from the originals, loop for loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import RasterOrder, panel_decode, panel_encode
from tilesched.simulator.schedule import Schedule
from tilesched.simulator.schedulers import Options, get
from tilesched.verify.coverage import Coverage, check_coverage

small = st.integers(1, 14)
workers_st = st.integers(1, 20)
orders = st.sampled_from(RasterOrder)


def grid(tiles_m: int, tiles_n: int, cluster_m: int = 1, sm_count: int = 148) -> Problem:
    return Problem(m=tiles_m, n=tiles_n, k=1, block_m=1, block_n=1, block_k=1, cluster_m=cluster_m, sm_count=sm_count)


def tiles_of(schedule: Schedule) -> list[list[tuple[int, int]]]:
    workers = (schedule.worker(worker) for worker in range(schedule.num_workers))
    return [list(zip(rows.m.tolist(), rows.n.tolist(), strict=True)) for rows in workers]


def cover(schedule: Schedule) -> Coverage:
    return check_coverage(schedule, limit=10**6)


def persistent(m: int, n: int, workers: int, width: int, order: RasterOrder, cluster: int = 1) -> Schedule:
    problem = grid(m, n, cluster, workers * cluster)
    return get("tilelang.persistent").build(problem, Options(panel_width=width, raster=order, num_workers=workers))


def manual_1cta(m: int, n: int, group: int, sm: int) -> Schedule:
    return get("tilelang.manual_1cta").build(grid(m, n, sm_count=sm), Options(panel_width=group))


def manual_2cta(m: int, n: int, group: int, sm: int) -> Schedule:
    return get("tilelang.manual_2cta").build(grid(m, n, 2, sm), Options(panel_width=group))


def naive_persistent(
    num_m: int, num_n: int, workers: int, swizzle: int, column_major: bool, cluster: int
) -> list[list[tuple[int, int]]]:
    """tile_schedule.py: init, valid, next_tile, with its names."""
    num_m_clusters = -(-num_m // cluster)
    total = num_m_clusters * num_n
    primary, secondary = (num_m_clusters, num_n) if column_major else (num_n, num_m_clusters)
    result = []
    for worker in range(workers):
        tiles = []
        linear = worker
        while linear < total:
            group = linear // (primary * swizzle)
            base = group * swizzle
            width = max(1, min(swizzle, secondary - base))
            rest = linear - group * primary * swizzle
            fast, slow = rest // width, base + rest % width
            tiles.append((fast, slow) if column_major else (slow, fast))
            linear += workers
        result.append(tiles)
    return result


def naive_manual(
    m_rows: int, n_blocks: int, group: int, workers: int, waves: int
) -> list[list[tuple[int, int] | None]]:
    """The wave loop of gemm_persistent before #2441; None where its guard is false."""
    result: list[list[tuple[int, int] | None]] = []
    for block_id in range(workers):
        tiles: list[tuple[int, int] | None] = []
        for w in range(waves):
            tile_id = workers * w + block_id
            bx = (tile_id // group) % m_rows
            by = (tile_id % group) + (tile_id // group) // m_rows * group
            tiles.append((bx, by) if by < n_blocks else None)
        result.append(tiles)
    return result


@given(small, small, workers_st, st.integers(1, 20), orders, st.integers(1, 4))
def test_persistent_equals_the_original_loop(
    m: int, n: int, workers: int, width: int, order: RasterOrder, cluster: int
) -> None:
    expected = naive_persistent(m, n, workers, width, order is RasterOrder.PANEL_N, cluster)
    assert tiles_of(persistent(m, n, workers, width, order, cluster)) == expected


@given(small, small, st.integers(1, 20), workers_st)
def test_manual_1cta_equals_the_original_loop(m: int, n: int, group: int, sm: int) -> None:
    expected = naive_manual(m, n, group, sm, -(-m * n // sm))
    assert tiles_of(manual_1cta(m, n, group, sm)) == [[t for t in row if t] for row in expected]


@given(st.integers(2, 14), small, st.integers(1, 20), st.integers(2, 20))
def test_manual_2cta_equals_the_original_loop(m: int, n: int, group: int, sm: int) -> None:
    expected = naive_manual(m // 2, n, group, sm // 2, -(-m * n // sm))
    assert tiles_of(manual_2cta(m, n, group, sm)) == [[t for t in row if t] for row in expected]


@given(small, small, workers_st, st.integers(1, 20), orders, st.integers(1, 4))
def test_persistent_computes_every_tile_exactly_once(
    m: int, n: int, workers: int, width: int, order: RasterOrder, cluster: int
) -> None:
    schedule = persistent(m, n, workers, width, order, cluster)
    coverage = cover(schedule)
    lengths = [len(tiles) for tiles in tiles_of(schedule)]
    assert (coverage.work_tiles_min, coverage.work_tiles_max) == (min(lengths), max(lengths))
    assert coverage.idle_workers == lengths.count(0)
    assert (coverage.missing.count, coverage.repeated.count, coverage.out_of_range.count) == (0, 0, 0)
    assert coverage.holes.count == 0
    padded = -(-m // cluster) * cluster
    ghosts = {(visit.tile.m, visit.tile.n) for visit in coverage.ghosts.first}
    assert ghosts == {(row, column) for row in range(m, padded) for column in range(n)}
    assert coverage.ghosts.count == len(ghosts)


@given(small, small, workers_st, workers_st, st.integers(1, 9))
def test_persistent_with_another_grid_than_its_stride(m: int, n: int, stride: int, launched: int, width: int) -> None:
    options = Options(panel_width=width, num_workers=stride, launched=launched)
    coverage = cover(get("tilelang.persistent").build(grid(m, n), options))
    assert (coverage.repeated.count > 0) == (launched > stride and m * n > stride)
    assert (coverage.missing.count > 0) == (launched < min(stride, m * n))


@given(small, small, st.integers(1, 20), workers_st)
def test_manual_1cta_loses_tiles_exactly_under_its_law(m: int, n: int, group: int, sm: int) -> None:
    coverage = cover(manual_1cta(m, n, group, sm))
    last_width = n - (-(-n // group) - 1) * group
    slack = -(-m * n // sm) * sm - m * n
    assert (coverage.missing.count > 0) == ((m - 1) * (group - last_width) > slack)
    assert (coverage.repeated.count, coverage.out_of_range.count, coverage.ghosts.count) == (0, 0, 0)


@given(st.integers(2, 14), small, st.integers(1, 20), st.integers(2, 20))
def test_manual_2cta_loses_tiles_exactly_under_its_law(m: int, n: int, group: int, sm: int) -> None:
    coverage = cover(manual_2cta(m, n, group, sm))
    panels, rows = -(-n // group), m // 2
    last_width = n - (panels - 1) * group
    too_few_ids = (panels * rows - 1) * group + last_width > -(-m * n // sm) * (sm // 2)
    assert (coverage.missing.count > 0) == (m % 2 == 1 or too_few_ids)
    assert (coverage.repeated.count, coverage.out_of_range.count, coverage.ghosts.count) == (0, 0, 0)


@given(small, small, st.integers(1, 20), workers_st)
def test_manual_holes_are_skips_before_a_later_tile(m: int, n: int, group: int, sm: int) -> None:
    rows = naive_manual(m, n, group, sm, -(-m * n // sm))
    holes = [
        (worker, wave)
        for worker, tiles in enumerate(rows)
        for wave, tile in enumerate(tiles)
        if tile is None and any(tiles[wave:])
    ]
    coverage = cover(manual_1cta(m, n, group, sm))
    assert coverage.holes.count == len(holes)
    assert [(hole.worker, hole.wave) for hole in coverage.holes.first] == sorted(
        holes, key=lambda hole: (hole[1], hole[0])
    )
    if n % group == 0:
        assert not holes


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 70), orders)
def test_encode_is_the_inverse_of_decode(rows: int, columns: int, width: int, order: RasterOrder) -> None:
    ids = np.arange(rows * columns)
    m, n = panel_decode(ids, rows, columns, width, order)
    assert (panel_encode(m, n, rows, columns, width, order) == ids).all()


@given(small, small, st.integers(1, 20), orders, st.integers(0, 500))
def test_ids_past_the_grid_never_alias_a_tile(
    rows: int, columns: int, width: int, order: RasterOrder, past: int
) -> None:
    m, n = panel_decode(np.array([rows * columns + past]), rows, columns, width, order)
    assert m[0] >= rows or n[0] >= columns


@given(small, st.integers(1, 4), st.integers(1, 6), workers_st)
def test_persistent_panel_n_is_the_manual_mapping_where_the_group_divides(
    m: int, panels: int, width: int, workers: int
) -> None:
    n = panels * width
    assert tiles_of(persistent(m, n, workers, width, RasterOrder.PANEL_N)) == tiles_of(
        manual_1cta(m, n, width, workers)
    )


@given(small, small, st.integers(1, 20))
def test_persistent_panel_m_is_triton_grouped_order(m: int, n: int, group: int) -> None:
    """Triton's form with (pid % group) % size."""
    expected = []
    for pid in range(m * n):
        first = pid // (group * n) * group
        size = min(m - first, group)
        expected.append((first + pid % (group * n) % size, pid % (group * n) // size))
    assert tiles_of(persistent(m, n, 1, group, RasterOrder.PANEL_M)) == [expected]


@given(small, small, st.integers(1, 20))
def test_persistent_panel_n_is_deepgemm_grouping_on_n(m: int, n: int, group: int) -> None:
    """DeepGEMM's normal scheduler with multicast on A and without the SM90 fix."""
    expected = []
    for block in range(m * n):
        first = block // (m * group) * group
        size = min(group, n - first)
        rest = block % (m * group)
        expected.append((rest // size, first + rest % size))
    assert tiles_of(persistent(m, n, 1, group, RasterOrder.PANEL_N)) == [expected]
