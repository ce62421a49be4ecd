"""The coverage checker against a naive twin, on schedules that break every rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator import schedule as schedule_module
from tilesched.simulator.problem import Problem
from tilesched.simulator.schedule import PhaseClock, TableSchedule
from tilesched.simulator.schedulers import SCHEDULERS, Options
from tilesched.verify.coverage import check_coverage
from tilesched.verify.executors import in_process
from tilesched.verify.tileset import TileSet

Row = tuple[int, int] | None


def table(problem: Problem, workers: list[list[Row]]) -> TableSchedule:
    rows = [row for worker in workers for row in worker]
    return TableSchedule(
        name="table",
        problem=problem,
        num_workers=len(workers),
        params={},
        padded_m=problem.clusters_m * problem.cluster_m,
        padded_n=problem.clusters_n * problem.cluster_n,
        clock=PhaseClock.TILE,
        offsets=np.cumsum([0, *(len(worker) for worker in workers)]),
        linear=np.arange(len(rows)),
        m=np.array([row[0] if row else 0 for row in rows], np.int64),
        n=np.array([row[1] if row else 0 for row in rows], np.int64),
        emitted=np.array([row is not None for row in rows], np.bool_),
    )


@st.composite
def tables(draw: st.DrawFn) -> TableSchedule:
    cluster_m, cluster_n = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)]))
    problem = Problem(
        m=draw(st.integers(1, 6)),
        n=draw(st.integers(1, 6)),
        k=1,
        block_m=1,
        block_n=1,
        block_k=1,
        cluster_m=cluster_m,
        cluster_n=cluster_n,
    )
    near = st.tuples(st.integers(-1, problem.clusters_m + 1), st.integers(-1, problem.clusters_n + 1))
    inside = st.tuples(st.integers(0, problem.clusters_m - 1), st.integers(0, problem.clusters_n - 1))
    worker = st.lists(st.one_of(inside, near, st.none()), max_size=8)
    return table(problem, draw(st.lists(worker, min_size=1, max_size=5)))


@pytest.mark.parametrize("chunk_rows", [1, 2, 7, schedule_module.CHUNK_ROWS])
@given(schedule=tables())
def test_coverage_equals_the_naive_count(chunk_rows: int, schedule: TableSchedule) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule_module, "CHUNK_ROWS", chunk_rows)  # holes and repeats over blocks of any size
        compare_with_the_naive_count(schedule)


def compare_with_the_naive_count(schedule: TableSchedule) -> None:
    problem = schedule.problem
    times: Counter[tuple[int, int]] = Counter()
    holes, per_worker = [], []
    for worker in range(schedule.num_workers):
        rows = range(int(schedule.offsets[worker]), int(schedule.offsets[worker + 1]))
        emitted = [bool(schedule.emitted[row]) for row in rows]
        per_worker.append(sum(emitted))
        for wave, row in enumerate(rows):
            if emitted[wave]:
                for rank_m in range(problem.cluster_m):
                    for rank_n in range(problem.cluster_n):
                        tile_m = int(schedule.m[row]) * problem.cluster_m + rank_m
                        times[tile_m, int(schedule.n[row]) * problem.cluster_n + rank_n] += 1
            elif any(emitted[wave:]):
                holes.append((worker, wave))
    real = {(m, n) for m in range(problem.tiles_m) for n in range(problem.tiles_n)}
    padding = {(m, n) for m in range(schedule.padded_m) for n in range(schedule.padded_n)} - real

    coverage = check_coverage(schedule, limit=10**6)
    assert {(tile.m, tile.n) for tile in coverage.missing.first} == real - times.keys()
    assert coverage.missing.count == len(real - times.keys())
    repeated = {tile: count for tile, count in times.items() if count > 1 and tile in real}
    assert {(r.tile.m, r.tile.n): r.times for r in coverage.repeated.first} == repeated
    assert coverage.repeated.count == len(repeated)
    for tally, region in ((coverage.ghosts, padding), (coverage.out_of_range, times.keys() - real - padding)):
        assert tally.count == sum(times[tile] for tile in region)
        assert Counter((v.tile.m, v.tile.n) for v in tally.first) == Counter(
            {tile: times[tile] for tile in region if times[tile]}
        )
    assert sorted((hole.worker, hole.wave) for hole in coverage.holes.first) == holes
    last = max((int(end - begin) for begin, end in pairwise(schedule.offsets)), default=0) - 1
    assert coverage.last_wave_work_tiles == sum(
        last >= 0 and begin + last < end and bool(schedule.emitted[begin + last])
        for begin, end in pairwise(schedule.offsets.tolist())
    )
    for repeat in coverage.repeated.first:
        assert len(repeat.visits) == min(repeat.times, 4)
    assert coverage.holes.count == len(holes)
    assert (coverage.work_tiles_min, coverage.work_tiles_max) == (min(per_worker), max(per_worker))
    assert coverage.work_tiles == sum(per_worker)
    assert coverage.idle_workers == per_worker.count(0)


@given(tables(), st.integers(2, 7))
def test_workers_may_be_dealt_to_processes(schedule: TableSchedule, jobs: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tilesched.verify.coverage.local_cores", lambda jobs: in_process)
        dealt = check_coverage(schedule, limit=10**6, jobs=jobs)
    whole = check_coverage(schedule, limit=10**6)
    for tally in ("ghosts", "out_of_range"):
        one, other = getattr(dealt, tally), getattr(whole, tally)
        assert (one.count, sorted(map(repr, one.first))) == (other.count, sorted(map(repr, other.first)))
    assert replace(dealt, ghosts=whole.ghosts, out_of_range=whole.out_of_range) == whole


def test_two_processes_find_what_one_does() -> None:
    problem = Problem(m=40, n=30, k=1, block_m=1, block_n=1, block_k=1, sm_count=7)
    schedule = SCHEDULERS["tilelang.manual_1cta"].build(problem, Options(panel_width=8))  # with its decode, a closure
    calls: list[tuple[int, int]] = []
    assert check_coverage(schedule, jobs=2, progress=lambda *call: calls.append(call)) == check_coverage(schedule)
    assert (2, 2) in calls


@given(tables(), st.integers(1, 3))
def test_counts_do_not_depend_on_the_limit(schedule: TableSchedule, limit: int) -> None:
    short, full = check_coverage(schedule, limit=limit), check_coverage(schedule, limit=10**6)
    for name in ("missing", "repeated", "ghosts", "out_of_range", "holes"):
        cut, whole = getattr(short, name), getattr(full, name)
        assert cut.count == whole.count
        assert len(cut.first) == min(limit, whole.count)


@given(st.integers(1, 300), st.data())
def test_tileset_is_a_set(size: int, data: st.DataObject) -> None:
    chosen: set[int] = set()
    tiles = TileSet(size)
    for block in data.draw(st.lists(st.lists(st.integers(0, size - 1), max_size=20), max_size=5)):
        tiles.add(np.array(block, np.int64))
        chosen |= set(block)
    everything = np.arange(size)
    assert len(tiles) == len(chosen)
    assert set(everything[tiles.contains(everything)].tolist()) == chosen
    limit = data.draw(st.integers(0, size))
    assert tiles.present(limit) == sorted(chosen)[:limit]
    assert tiles.absent(limit) == sorted(set(range(size)) - chosen)[:limit]


def test_a_block_wider_than_the_window_is_added_too() -> None:
    tiles = TileSet(2**28)
    index = np.array([5, 2**28 - 1, 5, 2**27])
    tiles.add(index)
    assert tiles.present(9) == [5, 2**27, 2**28 - 1]
