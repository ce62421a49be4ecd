"""Every single-point mutant of a right protocol is flagged, or the explorer shows that it does no harm."""

from __future__ import annotations

import os

import pytest

from protocol_mutants import mutants
from tilesched.simulator.protocol.builtin import (
    ClcParams,
    GemmParams,
    Store,
    Work,
    clc_scheduler,
    gemm_1cta,
    gemm_2cta,
    hopper_cooperative,
    hopper_pingpong,
)
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.kinds import ProtocolKind
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol

ONE, TWO = Work.same((0,)), Work.same((0, 1))


def params(stages: int, k_blocks: int, accum_stages: int, store: Store, work: Work = TWO) -> GemmParams:
    return GemmParams(
        stages=stages,
        k_blocks=k_blocks,
        work=work,
        accum_stages=accum_stages,
        store=store,
        epilogue_warps=1,
        subtiles=1,
    )


# Equivalent mutants: waits on fresh barriers, the last arrivals (nobody waits for them), operations that are done twice
# or swapped where that does not matter, and another stage where a name has none.
CASES = {
    "one accumulator": gemm_1cta(params(2, 1, 1, Store.DIRECT)),
    "cooperative": hopper_cooperative(GemmParams(k_blocks=2, work=TWO, stages=2)),
    "ping-pong": hopper_pingpong(GemmParams(k_blocks=2, work=TWO, stages=2)),
}
if os.environ.get("TILESCHED_PROFILE", "dev") != "dev":  # more than a minute for these
    CASES["one stage"] = gemm_1cta(params(1, 2, 2, Store.DIRECT))
    CASES["stores by TMA"] = gemm_1cta(params(2, 1, 2, Store.TMA))
    CASES["pair, one tile"] = gemm_2cta(params(1, 1, 1, Store.DIRECT, ONE))
if os.environ.get("TILESCHED_PROFILE") == "deep":  # many minutes
    CASES["pair, two tiles"] = gemm_2cta(params(1, 1, 1, Store.DIRECT))
    CASES["answers, none granted"] = clc_scheduler(ClcParams(grants=0, slots=1, epilogue_warps=1))
    CASES["answers, one granted"] = clc_scheduler(ClcParams(grants=1, slots=1, epilogue_warps=1))


@pytest.mark.parametrize("right", CASES.values(), ids=CASES.keys())
def test_no_mutant_is_missed_and_none_is_a_false_alarm(right: Protocol) -> None:
    """Killed: the explorer reaches a kind that the checker names. Equivalent: it reaches nothing, in all states."""
    assert not check_ordered(right)
    killed = equivalent = 0
    for name, mutant in mutants(right):
        flagged = {str(finding.kind) for finding in check_ordered(mutant)}
        exploration = explore(mutant, until=flagged or set(ProtocolKind))
        if flagged:
            assert flagged & set(map(str, exploration.found)), f"{name}: {flagged}, explorer {exploration.found.keys()}"
            killed += 1
        else:
            assert exploration.complete, name
            assert not exploration.found, f"missed {name}: {exploration.found.keys()}"
            equivalent += 1
    assert killed > equivalent
    print(f"killed {killed}, equivalent {equivalent}, missed 0")
