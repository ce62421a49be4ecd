"""Operand traffic against a loop over the work tiles of each device wave."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator import locality
from tilesched.simulator.locality import device_waves, operand_traffic, resident_workers
from tilesched.simulator.problem import Problem
from tilesched.simulator.schedule import Schedule
from tilesched.simulator.schedulers import SCHEDULERS, Options


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    name = draw(st.sampled_from(["tilelang.persistent", "tilelang.manual_1cta"]))
    problem = Problem(
        m=draw(st.integers(1, 12)),
        n=draw(st.integers(1, 12)),
        k=1,
        block_m=1,
        block_n=1,
        block_k=1,
        cluster_m=draw(st.integers(1, 3)) if name == "tilelang.persistent" else 1,
        sm_count=draw(st.integers(3, 9)),
    )
    workers = draw(st.none() | st.integers(1, 40))  # more than the device has room for: a grid that is not persistent
    return SCHEDULERS[name].build(problem, Options(panel_width=draw(st.integers(1, 5)), num_workers=workers))


@pytest.mark.parametrize("rows", [1, 7, 2**17])
@given(schedule=schedules())
def test_distinct_operand_tiles_of_a_wave(rows: int, schedule: Schedule) -> None:
    problem = schedule.problem
    slots = min(schedule.num_workers, problem.sm_count // problem.cluster_m)
    assert resident_workers(schedule) == slots
    read: dict[tuple[int, int], set[tuple[str, int]]] = defaultdict(set)
    rounds = 0
    for worker in range(schedule.num_workers):
        tiles = schedule.worker(worker)
        for wave, m, n in zip(tiles.wave.tolist(), tiles.m.tolist(), tiles.n.tolist(), strict=True):
            rounds = max(rounds, worker // slots + 1)
            for rank in range(problem.cluster_m):
                if m * problem.cluster_m + rank < problem.tiles_m:
                    read[wave, worker // slots].add(("a", m * problem.cluster_m + rank))
            read[wave, worker // slots].add(("b", n))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locality, "CHUNK_ROWS", rows)
        traffic = operand_traffic(schedule)
    assert traffic.waves == len(read)
    for axis, mean in (("a", traffic.a_tiles), ("b", traffic.b_tiles)):
        assert mean == pytest.approx(sum(sum(kind == axis for kind, _ in wave) for wave in read.values()) / len(read))
    assert device_waves(schedule) >= len(read)


def test_of_a_large_schedule_some_waves_stand_for_all() -> None:
    problem = Problem(m=4000, n=4000, k=1, block_m=1, block_n=1, block_k=1, sm_count=100)
    schedule = SCHEDULERS["tilelang.persistent"].build(problem, Options(panel_width=10))
    traffic = operand_traffic(schedule)
    assert 0 < traffic.waves < schedule.num_waves // 2
    assert (traffic.a_tiles, traffic.b_tiles) == (10, 10)
