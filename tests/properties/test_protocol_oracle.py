"""The fast checker (one run, happens-before) and the exhaustive explorer agree on every small protocol."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Complete,
    Expect,
    Join,
    Launch,
    Mode,
    Operation,
    Signal,
    Slot,
    Touch,
    Wait,
)
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol, Thread

SLOTS = (Slot("x"), Slot("y", cta=1))


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    return Access(draw(st.sampled_from(SLOTS)), draw(st.sampled_from(Mode)), draw(st.none() | st.integers(0, 1)))


@st.composite
def soups(draw: st.DrawFn) -> Protocol:
    """Anything at all: a few threads of a few operations."""
    barriers = [
        Barrier("a", draw(st.integers(1, 2))),
        Barrier("b", draw(st.integers(1, 2)), cta=draw(st.integers(0, 1))),
        Barrier("h", 2, kind=BarrierKind.HARDWARE),
    ]
    mbarriers = st.sampled_from(barriers[:2])
    arrive = st.builds(Arrive, mbarriers, st.integers(1, 2), st.sampled_from([0, 0, 16]))
    signal: st.SearchStrategy[Signal] = arrive | st.builds(Complete, mbarriers, st.just(16))
    agent = st.builds(
        Agent,
        st.just("work"),
        st.lists(accesses(), max_size=2).map(tuple),
        st.lists(signal, max_size=2).map(tuple),
        st.sampled_from([None, "q"]),
        st.sampled_from([None, "g"]),
    )
    wait = st.integers(-1, 2).flatmap(
        lambda phase: st.builds(Wait, mbarriers, st.just(phase), st.sampled_from([phase & 1] * 4 + [~phase & 1]))
    )
    operation: st.SearchStrategy[tuple[Operation, ...]] = st.one_of(
        wait.map(lambda op: (op,)),
        arrive.map(lambda op: (op,)),
        st.builds(Expect, mbarriers, st.just(16)).map(lambda op: (op,)),
        st.builds(Touch, accesses()).map(lambda op: (op,)),
        st.builds(Launch, agent).map(lambda op: (op,)),
        st.just((Join(("g",)),)),
        st.just((Arrive(barriers[2]), AwaitOwn(barriers[2]))),
    )
    threads = draw(st.lists(st.lists(operation, max_size=4), min_size=1, max_size=3))
    return Protocol(
        "soup",
        tuple(
            Thread(f"t{index}", tuple(op for part in parts for op in part), cta=draw(st.integers(0, 1)))
            for index, parts in enumerate(threads)
        ),
    )


def verdicts(protocol: Protocol) -> tuple[set[str], set[str]] | None:
    exploration = explore(protocol, max_states=20_000)
    if not exploration.complete:
        return None
    return {str(finding.kind) for finding in check_ordered(protocol)}, {str(kind) for kind in exploration.found}


@given(soups())
def test_both_agree_on_anything(protocol: Protocol) -> None:
    found = verdicts(protocol)
    if found is not None:
        assert bool(found[0]) == bool(found[1]), found
