"""Every single-point mutant of a right protocol is flagged, or the explorer shows that it does no harm."""

from __future__ import annotations

import os

import pytest

from protocol_mutants import mutants
from tilesched.simulator.protocol.builtin import (
    GemmParams,
    Store,
    Work,
    gemm_1cta,
    hopper_cooperative,
    hopper_pingpong,
)
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol

TWO = Work.same((0, 1))


def gemm(stages: int, k_blocks: int, accum_stages: int, store: Store) -> Protocol:
    return gemm_1cta(
        GemmParams(
            stages=stages,
            k_blocks=k_blocks,
            work=TWO,
            accum_stages=accum_stages,
            store=store,
            epilogue_warps=1,
            subtiles=1,
        )
    )


# Killed and equivalent mutants. Equivalent ones: waits on fresh barriers, the last arrivals (nobody waits for them),
# operations that are done twice or swapped where that does not matter, and another stage where a name has none.
CASES = {
    "one accumulator": (gemm(2, 1, 1, Store.DIRECT), 127, 35),
    "cooperative": (hopper_cooperative(GemmParams(k_blocks=2, work=TWO, stages=2)), 198, 89),
    "ping-pong": (hopper_pingpong(GemmParams(k_blocks=2, work=TWO, stages=2)), 150, 73),
}
if os.environ.get("TILESCHED_PROFILE", "dev") != "dev":  # more than a minute for these
    CASES["one stage"] = (gemm(1, 2, 2, Store.DIRECT), 211, 53)
    CASES["stores by TMA"] = (gemm(2, 1, 2, Store.TMA), 136, 77)  # and two that Protocol refuses


@pytest.mark.parametrize(("right", "killed", "equivalent"), CASES.values(), ids=CASES.keys())
def test_no_mutant_is_missed_and_none_is_a_false_alarm(right: Protocol, killed: int, equivalent: int) -> None:
    assert not check_ordered(right)
    counts = {True: 0, False: 0}
    for name, mutant in mutants(right):
        exploration = explore(mutant)
        assert exploration.complete, name
        flagged = bool(check_ordered(mutant))
        assert flagged == bool(exploration.found), f"{name}: flagged {flagged}, explorer {set(exploration.found)}"
        counts[flagged] += 1
    assert (counts[True], counts[False]) == (killed, equivalent)
