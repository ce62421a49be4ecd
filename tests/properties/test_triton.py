"""Triton's grouped persistent order: the kernel's own lines as a loop, exactness, and where the two tails differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedule import Schedule
from tilesched.simulator.schedulers import Options, get

SIZES = st.integers(1, 9)


def build(name: str, m: int, n: int, group: int, sms: int, launched: int | None = None) -> Schedule:
    problem = Problem(m=m, n=n, k=1, block_m=1, block_n=1, block_k=1, sm_count=sms)
    return get(name).build(problem, Options(panel_width=group, launched=launched))


def tiles(schedule: Schedule) -> list[list[tuple[int, int]]]:
    rows = [schedule.worker(worker) for worker in range(schedule.num_workers)]
    return [list(zip(one.m.tolist(), one.n.tolist(), strict=True)) for one in rows]


def program(pid: int, m: int, n: int, group: int, stride: int, *, rotated: bool) -> list[tuple[int, int]]:
    """The tiles of one program, id by id."""
    found = []
    for tile_id in range(pid, m * n, stride):
        in_group = group * n
        first = tile_id // in_group * group
        size = min(m - first, group)
        row = tile_id % size if rotated else tile_id % in_group % size
        found.append((first + row, tile_id % in_group // size))
    return found


@given(SIZES, SIZES, SIZES, SIZES, st.booleans())
def test_the_loop_of_the_kernel(m: int, n: int, group: int, sms: int, rotated: bool) -> None:
    schedule = build("triton.grouped_persistent" + "_rotated" * rotated, m, n, group, sms)
    expected = [program(pid, m, n, group, sms, rotated=rotated) for pid in range(min(sms, m * n))]
    assert tiles(schedule) == expected
    assert sorted(tile for one in expected for tile in one) == [(i, j) for i in range(m) for j in range(n)]


@given(SIZES, SIZES, SIZES, SIZES)
def test_the_tails_differ_in_a_narrow_last_group_only(m: int, n: int, group: int, sms: int) -> None:
    plain, rotated = (tiles(build(f"triton.grouped_persistent{form}", m, n, group, sms)) for form in ("", "_rotated"))
    full = m // group * group
    for one, other in zip(plain, rotated, strict=True):
        assert all(a == b for a, b in zip(one, other, strict=True) if a[0] < full)


def test_the_smallest_case_in_which_they_differ() -> None:
    """schedulers.md section 5: M=5, N=1, G=3."""
    assert tiles(build("triton.grouped_persistent_rotated", 5, 1, 3, 1)) == [[(0, 0), (1, 0), (2, 0), (4, 0), (3, 0)]]
    assert tiles(build("triton.grouped_persistent", 5, 1, 3, 1)) == [[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]]


@given(SIZES, SIZES, SIZES, SIZES)
def test_it_is_tilelangs_order_by_rows(m: int, n: int, group: int, sms: int) -> None:
    problem = Problem(m=m, n=n, k=1, block_m=1, block_n=1, block_k=1, sm_count=sms)
    other = get("tilelang.persistent").build(problem, Options(panel_width=group, raster=RasterOrder.PANEL_M))
    ours = tiles(build("triton.grouped_persistent", m, n, group, sms))
    assert ours == tiles(other)[: len(ours)]


def test_a_grid_that_is_too_small_loses_tiles() -> None:
    """schedulers.md section 5: 3 programs, NUM_SMS 4, 3 x 3 tiles lose (1,1) and (2,1)."""
    found = {tile for one in tiles(build("triton.grouped_persistent", 3, 3, 2, 4, launched=3)) for tile in one}
    assert {(i, j) for i in range(3) for j in range(3)} - found == {(1, 1), (2, 1)}
