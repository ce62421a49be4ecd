"""The explorer: numbers of states that arithmetic gives, and what a naive twin without any reduction finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive_explorer import harm
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.kinds import ProtocolKind as Kind
from tilesched.simulator.protocol.ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    Complete,
    Expect,
    Join,
    Launch,
    Mode,
    Operation,
    Slot,
    Touch,
    Wait,
)
from tilesched.simulator.protocol.program import Protocol, Thread

UNDEFINED = {
    Kind.ARRIVE_OVERFLOW, Kind.TX_RANGE, Kind.STALE, Kind.UNWRITTEN, Kind.OVERWRITTEN,
}  # fmt: skip


@pytest.mark.parametrize(("threads", "steps"), [(1, 5), (2, 3), (3, 2), (4, 1)])
def test_independent_threads_have_all_products_of_their_places(threads: int, steps: int) -> None:
    barriers = [Barrier(f"b{number}", 100) for number in range(threads)]
    protocol = Protocol("product", tuple(Thread("t", (Arrive(one),) * steps) for one in barriers))
    assert explore(protocol).states == (steps + 1) ** threads


@pytest.mark.parametrize("works", [1, 2, 4])
def test_engines_without_a_queue_end_in_any_order(works: int) -> None:
    launches = tuple(Launch(Agent(f"w{n}", (Access(Slot(f"s{n}"), Mode.WRITE),))) for n in range(works))
    # Launched one after another, then any subset has ended.
    assert explore(Protocol("engines", (Thread("t", launches),))).states == works + 2**works


@pytest.mark.parametrize("works", [1, 2, 4])
def test_engines_of_a_queue_end_in_order(works: int) -> None:
    launches = tuple(Launch(Agent(f"w{n}", (Access(Slot(f"s{n}"), Mode.WRITE),), queue="q")) for n in range(works))
    assert explore(Protocol("engines", (Thread("t", launches),))).states == 2 * works + 1


def test_a_ring_of_one_stage_is_a_cycle() -> None:
    """A producer and a consumer that wait for each other take turns: two steps each and turn, one state between."""
    full, empty = Barrier("full", 1), Barrier("empty", 1)
    turns = range(5)
    producer = [one for turn in turns for one in (Wait(empty, turn - 1, (turn & 1) ^ 1), Arrive(full))]
    consumer = [one for turn in turns for one in (Wait(full, turn, turn & 1), Arrive(empty))]
    protocol = Protocol("ring", (Thread("p", tuple(producer)), Thread("c", tuple(consumer))))
    assert explore(protocol).states == 4 * len(turns) + 1


@st.composite
def small(draw: st.DrawFn) -> Protocol:
    barriers = [Barrier("a", draw(st.integers(1, 2))), Barrier("b", draw(st.integers(1, 2)))]
    a_barrier, slots = st.sampled_from(barriers), st.sampled_from([Slot("x"), Slot("y")])
    access = st.builds(Access, slots, st.sampled_from(Mode), st.none() | st.integers(0, 1))
    signal = st.builds(Arrive, a_barrier) | st.builds(Complete, a_barrier, st.just(16))
    agent = st.builds(
        Agent, st.just("w"), st.lists(access, max_size=1).map(tuple), st.lists(signal, max_size=2).map(tuple),
        st.sampled_from([None, "q"]), st.sampled_from([None, "g"]),
    )  # fmt: skip
    single: st.SearchStrategy[Operation] = st.one_of(
        st.builds(Wait, a_barrier, st.just(0), st.integers(0, 1)),
        st.builds(Arrive, a_barrier, st.integers(1, 2), st.sampled_from([0, 16])),
        st.builds(Expect, a_barrier, st.just(16)),
        st.builds(Touch, access),
        st.builds(Launch, agent),
        st.just(Join(("g",))),
    )
    own = a_barrier.map(lambda barrier: (Arrive(barrier), AwaitOwn(barrier)))
    parts = st.lists(single.map(lambda one: (one,)) | own, max_size=4)
    threads = draw(st.lists(parts, min_size=1, max_size=3))
    return Protocol("small", tuple(Thread("t", tuple(one for part in parts for one in part)) for parts in threads))


@given(small())
def test_the_naive_twin_finds_the_same_harm(protocol: Protocol) -> None:
    naive = harm(protocol, 2_000)
    if naive is None:
        return
    exploration = explore(protocol)
    found = set(exploration.found)
    assert exploration.complete
    assert ("undefined" in naive) == bool(found & UNDEFINED)
    assert ("deadlock" in naive) == (Kind.DEADLOCK in found)
    if not naive:
        assert not found & {*UNDEFINED, Kind.DEADLOCK, Kind.LEFTOVER, Kind.WRONG_BYTES, Kind.UNREAD}
