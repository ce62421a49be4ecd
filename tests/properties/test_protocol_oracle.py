"""The fast checker (one run, happens-before) and the exhaustive explorer agree on every small protocol."""

from __future__ import annotations

from hypothesis import given, reject
from hypothesis import strategies as st

from tilesched.simulator.errors import InputError
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
    Init,
    Inval,
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
def soups(draw: st.DrawFn, *, lives: bool = False) -> Protocol:
    """Anything at all: a few threads of a few operations, in one or two CTAs. `lives`: barriers are made and end."""
    shared = SLOTS[0] if lives and draw(st.booleans()) else None
    barriers = [
        Barrier("a", draw(st.integers(1, 2)), 0, storage=shared),
        Barrier("b", draw(st.integers(1, 3)), 0, storage=shared),
        Barrier("c", draw(st.integers(1, 2)), 1),
    ]
    hardware = Barrier("h", 2, kind=BarrierKind.HARDWARE)
    any_barrier = st.sampled_from(barriers)
    flag = st.sampled_from([False] * 5 + [True])
    plain = st.builds(Arrive, any_barrier, st.integers(1, 2), st.sampled_from([0, 0, 16]))
    arrive = st.builds(Arrive, any_barrier, st.integers(1, 2), st.sampled_from([0, 0, 16]), flag, flag)
    signal: st.SearchStrategy[Signal] = plain | st.builds(Complete, any_barrier, st.just(16))
    agent = st.builds(
        Agent,
        st.just("work"),
        st.lists(accesses(), max_size=2).map(tuple),
        st.lists(signal, max_size=2).map(tuple),
        st.sampled_from([None, "q"]),
        st.sampled_from([None, "g"]),
    )

    def operations(cta: int) -> st.SearchStrategy[list[tuple[Operation, ...]]]:
        own = st.sampled_from([barrier for barrier in barriers if barrier.cta == cta])
        wait = st.integers(-1, 2).flatmap(
            lambda phase: st.builds(Wait, own, st.just(phase), st.sampled_from([phase & 1] * 4 + [~phase & 1]))
        )
        single: st.SearchStrategy[Operation] = st.one_of(
            wait,
            wait,
            arrive,
            st.builds(Expect, any_barrier, st.just(16)),
            st.builds(Touch, accesses()),
            st.builds(Launch, agent),
            st.just(Join(("g",))),
            *([st.builds(Init, own), st.builds(Inval, own)] if lives else []),
        )
        pair = st.just((Arrive(hardware), AwaitOwn(hardware)))
        by_state = own.map(lambda barrier: (Arrive(barrier), AwaitOwn(barrier)))
        return st.lists(single.map(lambda operation: (operation,)) | pair | by_state, max_size=4)

    threads = []
    for index in range(draw(st.integers(1, 3))):
        cta = draw(st.integers(0, 1))
        parts = draw(operations(cta))
        threads.append(Thread(f"t{index}", tuple(operation for part in parts for operation in part), cta))
    try:
        return Protocol("soup", tuple(threads))
    except InputError:  # two barriers in the same bytes, neither of them made
        reject()


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
        assert_alone_is_meant(*found)


@given(soups(lives=True))
def test_both_agree_on_barriers_that_are_made_and_end(protocol: Protocol) -> None:
    found = verdicts(protocol)
    if found is not None:
        assert bool(found[0]) == bool(found[1]), found
        assert_alone_is_meant(*found)


def assert_alone_is_meant(checked: set[str], explored: set[str]) -> None:
    """Several findings can be leads of one another; a single kind that the checker reports must be reachable."""
    if len(checked) == 1:
        assert checked <= explored, (checked, explored)
