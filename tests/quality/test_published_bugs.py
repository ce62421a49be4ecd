"""Published scheduler bugs as a user would meet them: as a scheduler file. Each beside its fix, which is clean.

Reports: tile-ai/tilelang#2433 (groups rounded down) and ROCm/hip-ep#207 (a fallback that takes others' tiles).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilesched.simulator.findings import Verdict
from tilesched.simulator.problem import Problem
from tilesched.simulator.schedulers import Options
from tilesched.verify.schedule_report import ScheduleReport, check_schedule
from tilesched.verify.user_scheduler import run_user_scheduler

SOURCE = """
def floor_groups(i, tiles_m, tiles_n):
    if i >= tiles_m * tiles_n:
        return None
    g = min(8, tiles_n)
    return i // g % tiles_m, i // (g * tiles_m) * g + i % g

def ceil_groups(i, tiles_m, tiles_n):
    g = min(8, tiles_n)
    if i >= tiles_m * -(-tiles_n // g) * g:
        return None
    column = i // (g * tiles_m) * g + i % g
    return (i // g % tiles_m, column) if column < tiles_n else None

def fallback(b, tiles_m, tiles_n, panel_width):
    if b >= tiles_m * tiles_n:
        return None
    sw = min(panel_width, tiles_n)
    strip, rest = divmod(b, sw * tiles_m)
    row, column = rest // sw, strip * sw + rest % sw
    return (row, column) if column < tiles_n else divmod(b, tiles_n)

def split(b, tiles_m, tiles_n, panel_width):
    if b >= tiles_m * tiles_n:
        return None
    sw = min(panel_width, tiles_n)
    main = tiles_n // sw * sw
    if b < main * tiles_m:
        strip, rest = divmod(b, sw * tiles_m)
        return rest // sw, strip * sw + rest % sw
    row, column = divmod(b - main * tiles_m, tiles_n - main)
    return row, main + column
"""
Judge = Callable[..., ScheduleReport]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    path = tmp_path_factory.mktemp("published") / "published.py"
    path.write_text(SOURCE)

    def run(function: str, tiles_m: int, tiles_n: int, workers: int, width: int = 8) -> ScheduleReport:
        problem = Problem(m=tiles_m, n=tiles_n, k=1, block_m=1, block_n=1, block_k=1)
        options = Options(num_workers=workers, panel_width=width)
        return check_schedule(run_user_scheduler(f"{path}:{function}", problem, options))

    return run


def missing(report: ScheduleReport) -> list[tuple[int, int]]:
    return [(tile.m, tile.n) for tile in report.coverage.missing.first]


@pytest.mark.parametrize("workers", [3, 36])
def test_tilelang_2433_as_reported(judge: Judge, workers: int) -> None:
    report = judge("floor_groups", 4, 9, workers)
    assert missing(report) == [(1, 8), (2, 8), (3, 8)]
    assert {(visit.tile.m, visit.tile.n) for visit in report.coverage.out_of_range.first} == {(0, 9), (0, 10), (0, 11)}
    assert report.coverage.repeated.count == 0
    assert report.why.endswith("the mapping puts ids outside the output that should reach the missing tiles")


@pytest.mark.parametrize(("tiles_n", "lost"), [(1, 0), (2, 0), (4, 0), (8, 0), (9, 3), (10, 6), (11, 6), (12, 8)])
def test_tilelang_2433_loses_as_many_as_reported(judge: Judge, tiles_n: int, lost: int) -> None:
    assert judge("floor_groups", 4, tiles_n, 3).coverage.missing.count == lost


def test_tilelang_2433_smallest(judge: Judge) -> None:
    report = judge("floor_groups", 2, 9, 1)
    assert missing(report) == [(1, 8)]
    assert [(visit.tile.m, visit.tile.n) for visit in report.coverage.out_of_range.first] == [(0, 9)]


@pytest.mark.parametrize("shape", [(4, 9), (2, 9), (4, 12), (11, 39), (1, 1)])
def test_tilelang_2433_fixed(judge: Judge, shape: tuple[int, int]) -> None:
    report = judge("ceil_groups", *shape, 3)
    coverage = report.coverage
    assert (coverage.missing.count, coverage.repeated.count, coverage.out_of_range.count) == (0, 0, 0)


@pytest.mark.parametrize(("tiles_m", "lost"), [(2, 2), (4, 5), (8, 12), (1, 0)])
def test_hip_ep_207_as_reported(judge: Judge, tiles_m: int, lost: int) -> None:
    coverage = judge("fallback", tiles_m, 45, 5).coverage
    assert coverage.missing.count == lost


def test_hip_ep_207_names_lost_and_repeated(judge: Judge) -> None:
    report = judge("fallback", 2, 45, 5)
    assert missing(report) == [(1, 43), (1, 44)]
    assert [(r.tile.m, r.tile.n, r.times) for r in report.coverage.repeated.first] == [(1, 40, 2), (1, 41, 2)]
    report = judge("fallback", 3, 3, 2, width=2)
    assert missing(report) == [(2, 2)]
    assert [(r.tile.m, r.tile.n) for r in report.coverage.repeated.first] == [(2, 1)]
    assert report.why.endswith("the mapping puts ids on tiles already taken that should reach the missing tiles")


@pytest.mark.parametrize(("shape", "width"), [((2, 45), 8), ((4, 45), 8), ((3, 3), 2), ((8, 16), 16)])
def test_hip_ep_207_fixed(judge: Judge, shape: tuple[int, int], width: int) -> None:
    assert judge("split", *shape, 5, width).verdict is Verdict.CLEAN
