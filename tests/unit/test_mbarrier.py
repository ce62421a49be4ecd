"""The mbarrier's transitions, one by one (docs/protocol.md has the rules)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.protocol.mbarrier import MAX_COUNT, Fault, FaultKind, Mbarrier


def test_rule_6_a_phase_ends_when_nothing_is_pending() -> None:
    barrier = Mbarrier.init(2)
    assert barrier.arrive() == Mbarrier(expected=2, pending=1, size=2)
    assert barrier.arrive().arrive() == Mbarrier(expected=2, pending=2, phase=1, size=2)
    assert barrier.arrive(2).phase == 1


def test_rule_10_bytes_are_expected_before_the_arrival() -> None:
    barrier = Mbarrier.init(1).arrive(tx=32)
    assert (barrier.phase, barrier.pending, barrier.tx) == (0, 0, 32)
    assert barrier.complete(16).phase == 0
    assert barrier.complete(16).complete(16) == Mbarrier(expected=1, pending=1, phase=1, size=1)


def test_rule_14_bytes_may_come_before_they_are_expected() -> None:
    barrier = Mbarrier.init(1).complete(16)
    assert (barrier.phase, barrier.tx) == (0, -16)
    assert barrier.arrive(tx=16).phase == 1


def test_rule_7_expect_that_brings_the_bytes_to_zero_ends_the_phase() -> None:
    """Settled on an H200; while the bytes are negative the phase is open for both parities."""
    barrier = Mbarrier.init(1).complete(16).arrive()
    assert (barrier.phase, barrier.pending, barrier.tx) == (0, 0, -16)
    assert barrier.expect(16).phase == 1


def test_rule_19_a_fresh_barrier_lets_parity_1_pass() -> None:
    barrier = Mbarrier.init(1)
    assert barrier.answer(1)
    assert not barrier.answer(0)
    assert barrier.arrive().answer(0)
    assert barrier.arrive().arrive().answer(1)


def test_rule_11_drop_lowers_the_count_of_later_phases() -> None:
    """init 2, arrive, arrive_drop ends phase 0; one arrival then ends phase 1 (as on an H200)."""
    barrier = Mbarrier.init(2).arrive().arrive(drop=True)
    assert (barrier.phase, barrier.pending) == (1, 1)
    assert barrier.arrive().phase == 2
    with pytest.raises(Fault, match="below 1") as caught:
        barrier.arrive(drop=True)
    assert caught.value.kind is FaultKind.DROP_ALL


def test_rule_12_no_complete_must_not_end_the_phase() -> None:
    assert Mbarrier.init(2).arrive(no_complete=True).pending == 1
    with pytest.raises(Fault) as caught:
        Mbarrier.init(1).arrive(no_complete=True)
    assert caught.value.kind is FaultKind.COMPLETES


def test_rule_9_more_arrivals_than_are_pending() -> None:
    with pytest.raises(Fault, match="2 arrivals with 1 pending") as caught:
        Mbarrier.init(1).arrive(2)
    assert caught.value.kind is FaultKind.ARRIVE_OVERFLOW
    with pytest.raises(Fault):  # none is pending while bytes are outstanding
        Mbarrier.init(1).arrive(tx=16).arrive()


@pytest.mark.parametrize("sign", [1, -1])
def test_rule_2_the_range_of_bytes(sign: int) -> None:
    def move(barrier: Mbarrier, tx: int) -> Mbarrier:
        return barrier.expect(tx) if sign > 0 else barrier.complete(tx)

    edge = move(Mbarrier.init(1), MAX_COUNT)
    assert edge.tx == sign * MAX_COUNT
    with pytest.raises(Fault) as caught:
        move(edge, 1)
    assert caught.value.kind is FaultKind.TX_RANGE


events = st.lists(st.sampled_from(["arrive", "expect", "complete"]), max_size=12)


@given(st.integers(1, 3), events)
def test_any_order_of_the_same_events_conserves_what_is_owed(count: int, names: list[str]) -> None:
    """Arrivals that were taken, and bytes, add up over phases as long as nothing is undefined."""
    barrier = Mbarrier.init(count)
    arrived = bytes_owed = 0
    for name in names:
        try:
            if name == "arrive":
                barrier = barrier.arrive()
                arrived += 1
            elif name == "expect":
                barrier = barrier.expect(16)
                bytes_owed += 16
            else:
                barrier = barrier.complete(16)
                bytes_owed -= 16
        except Fault:
            assert barrier.pending == 0
            return
        assert barrier.phase * count + (count - barrier.pending) == arrived
        assert barrier.tx == bytes_owed
        assert barrier.pending or barrier.tx
