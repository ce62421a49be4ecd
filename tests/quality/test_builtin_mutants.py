"""Every single-point mutant of the Hopper protocols is flagged, or the explorer shows that nothing is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from protocol_mutants import mutants

from tilesched.simulator.protocol.builtin import GemmParams, Work, hopper_cooperative, hopper_pingpong
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol

SMALL = GemmParams(k_blocks=2, work=Work.same((0, 1)), stages=2)


@pytest.mark.parametrize(
    ("make", "killed", "equivalent"),
    # Equivalent ones: waits on fresh barriers, the last arrivals (nobody waits for them), operations done twice or
    # swapped where the order does not matter, and changes of a stage where the name has none.
    [(hopper_cooperative, 200, 87), (hopper_pingpong, 151, 72)],
)
def test_no_mutant_is_missed(make: Callable[[GemmParams], Protocol], killed: int, equivalent: int) -> None:
    counts: Counter[str] = Counter()
    for name, mutant in mutants(make(SMALL)):
        if check_ordered(mutant):
            counts["killed"] += 1
            continue
        exploration = explore(mutant, max_states=20_000)
        assert exploration.complete, name
        assert not exploration.found, name
        counts["equivalent"] += 1
    assert counts == {"killed": killed, "equivalent": equivalent}
