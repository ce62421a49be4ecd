"""A protocol on the tile lists of a schedule: holes, empty workers, ghosts, and roles that disagree."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.cli.main import main
from tilesched.simulator.errors import InputError
from tilesched.simulator.problem import Problem
from tilesched.simulator.protocol.builtin import GemmParams, Loop, Work, gemm_1cta, get
from tilesched.simulator.protocol.kinds import ProtocolKind as Kind
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.schedule import PhaseClock, Schedule
from tilesched.simulator.schedulers import Options
from tilesched.simulator.schedulers import get as get_scheduler
from tilesched.verify.schedule_protocol import check_protocol

PARAMS = {"stages": 2, "epilogue_warps": 1, "subtiles": 1}


def schedule(name: str, tiles_m: int, tiles_n: int, k_blocks: int, sms: int, panel: int, cluster: int = 1) -> Schedule:
    problem = Problem(
        m=tiles_m, n=tiles_n, k=k_blocks, block_m=1, block_n=1, block_k=1, cluster_m=cluster, sm_count=sms
    )
    return get_scheduler(name).build(problem, Options(panel_width=panel))


def judged(name: str, of: Schedule, **others: Schedule) -> set[object]:
    one = get(name)
    return {finding.kind for finding in check_protocol(one, one.with_defaults(PARAMS), of, others).findings}


@given(
    st.sampled_from(["tilelang.persistent", "tilelang.manual_1cta"]),
    *(st.integers(1, 5) for _ in range(3)), st.integers(1, 6), st.integers(1, 4),
)  # fmt: skip
def test_every_worker_is_judged_as_if_alone(name: str, m: int, n: int, k: int, sms: int, panel: int) -> None:
    """The naive twin: each worker's waves read one by one, each judged by itself."""
    of = schedule(name, m, n, k, sms, panel)
    loop = Loop.WAVE if of.clock is PhaseClock.WAVE else Loop.TILE
    kinds = set()
    for worker in range(of.num_workers):
        waves: list[int | None] = []
        for wave in range(of.num_waves):
            row = of.block(range(worker, worker + 1), range(wave, wave + 1))
            waves.append(0 if row.all_emitted else None)
        params = GemmParams(
            k_blocks=k, work=Work.same(waves), loop=loop, stages=2, epilogue_warps=1, subtiles=1
        )  # fmt: skip
        kinds |= {finding.kind for finding in check_ordered(gemm_1cta(params))}
    assert judged("gemm-1cta", of) == kinds


def test_a_hole_makes_a_parity_wrong() -> None:
    """schedulers.md 1.1: M=3, N=1, group 2, one SM meets a skipped id, then a valid one."""
    holed = schedule("tilelang.manual_1cta", 3, 1, 2, 1, 2)
    assert Kind.WRONG_PARITY in judged("gemm-1cta", holed)
    assert judged("gemm-1cta", schedule("tilelang.persistent", 3, 1, 2, 1, 2)) == set()


def test_workers_without_tiles_are_judged_too() -> None:
    one = get("gemm-1cta")
    check = check_protocol(one, one.with_defaults(PARAMS), schedule("tilelang.persistent", 1, 1, 3, 5, 1), {})
    assert (check.workers, check.lists, check.findings) == (5, 2, ())


def test_ghosts_of_a_pair_are_tiles() -> None:
    """Three rows in clusters of two: the last pair computes a ghost, which its barriers do not know of."""
    assert judged("gemm-2cta", schedule("tilelang.persistent", 3, 2, 3, 4, 1, cluster=2)) == set()


def test_roles_that_disagree() -> None:
    """quack#206: MMA and epilogue see fewer tiles than the loads."""
    loads = schedule("tilelang.persistent", 4, 1, 3, 2, 1)
    fewer = schedule("tilelang.persistent", 3, 1, 3, 2, 1)
    found = judged("gemm-1cta", loads, mma=fewer, epilogue=fewer)
    assert {Kind.ROLE_MISMATCH, Kind.DEADLOCK} <= found
    same = judged("gemm-1cta", loads, mma=schedule("tilelang.persistent", 4, 1, 3, 2, 1))
    assert same == set()


def test_roles_that_take_other_tiles_in_equal_number() -> None:
    """Nothing hangs: only the comparison of the lists can tell."""
    loads = schedule("tilelang.persistent", 2, 2, 3, 1, 1)
    other = schedule("tilelang.persistent", 2, 2, 3, 1, 2)
    assert judged("gemm-1cta", loads, epilogue=other) == {Kind.ROLE_MISMATCH}


def test_what_cannot_be_judged_is_said() -> None:
    pair, single = schedule("tilelang.persistent", 2, 2, 1, 4, 1, 2), schedule("tilelang.persistent", 2, 2, 1, 4, 1)
    with pytest.raises(InputError, match="for clusters of 1x1 CTAs, the problem has 2x1"):
        judged("gemm-1cta", pair)
    with pytest.raises(InputError, match="for clusters of 2x1 CTAs, the problem has 1x1"):
        judged("gemm-2cta", single)
    answers = get("clc-scheduler")
    with pytest.raises(InputError, match="takes no tile lists"):
        check_protocol(answers, {}, single, {})
    huge = schedule("tilelang.persistent", 2**15, 2**10, 1, 1, 1)
    assert judged("gemm-1cta", huge) == {Kind.UNDECIDED}


def test_the_line_of_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    problem = ["--m", "1024", "--n", "1024", "--k", "448"]
    assert main([*problem, "--protocol", "gemm-1cta"]) == 0
    assert "  protocol     gemm-1cta: clean on 2 different tile lists of 148 workers" in capsys.readouterr().out
    assert main([*problem, "--protocol", "seed-1cta", "--sms", "4", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == document["protocol"]["verdict"] == "findings"
    assert document["findings"] == []
    assert {finding["worker"] for finding in document["protocol"]["findings"]} == {0}
    assert main([*problem, "--protocol", "seed-1cta", "--sms", "4", "--set", "stages=7"]) == 0  # 7 k-blocks fill it
    capsys.readouterr()
    skewed = ["--sms", "5", "--swizzle", "3", "--role-scheduler", "mma=tilelang.manual_1cta"]
    assert main([*problem, "--protocol", "gemm-1cta", *skewed]) == 1
    assert "role-mismatch: worker 0: the roles disagree on tile number" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "stages=3"], "set='stages=3' needs --protocol"),
        (["--role-scheduler", "mma=x"], "role-scheduler='mma=x' needs --protocol"),
        (["--protocol", "gemm"], "protocol='gemm' is unknown; known: gemm-1cta"),
        (["--protocol", "gemm-1cta", "--set", "stage=3"], "stage=3 is no parameter of gemm-1cta"),
        (["--protocol", "gemm-1cta", "--set", "stages=0"], "stages=0 is outside [1, 512]"),
        (["--protocol", "gemm-1cta", "--role-scheduler", "tma=tilelang.persistent"], "is not ROLE=NAME with another"),
        (["--protocol", "gemm-1cta", "--role-scheduler", "mma=nobody"], "scheduler='nobody' is unknown"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["--m", "128", "--n", "128", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
