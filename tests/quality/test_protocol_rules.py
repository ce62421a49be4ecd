"""Every rule of docs/protocol.md that a protocol can break: a planted violation, and a twin that keeps it.

The fast checker names the kind, the explorer reaches it, and neither says anything of the twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tilesched.simulator.errors import InputError
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.kinds import ProtocolKind as Kind
from tilesched.simulator.protocol.lint import POLICIES, LintKind, find_lints, policy
from tilesched.simulator.protocol.mbarrier import MAX_COUNT
from tilesched.simulator.protocol.ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Complete,
    Expect,
    Fence,
    FenceKind,
    Init,
    Inval,
    Join,
    Launch,
    Mode,
    Operation,
    Scope,
    Slot,
    Space,
    Touch,
    Wait,
)
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol, Thread

READ, WRITE = Mode.READ, Mode.WRITE
Ops: TypeAlias = list[Operation]
Case: TypeAlias = Callable[[bool], Protocol]
"""From "wrong" to a protocol."""

B, C = Barrier("b", 1), Barrier("c", 1)
X = Slot("x")


def protocol(*threads: tuple[int, Ops]) -> Protocol:
    return Protocol("case", tuple(Thread(f"t{n}", tuple(ops), cta) for n, (cta, ops) in enumerate(threads)))


def wait(barrier: Barrier, phase: int, scope: Scope = Scope.CTA) -> Wait:
    return Wait(barrier, phase, phase & 1, scope)


def touch(slot: Slot, mode: Mode) -> Touch:
    return Touch(Access(slot, mode))


def load(slot: Slot, *signals: Arrive | Complete, queue: str | None = None, group: str | None = None) -> Launch:
    return Launch(Agent(f"load of {slot.name}", (Access(slot, WRITE),), signals, queue, group))


def together(name: str, *ctas: int) -> tuple[Barrier, Ops]:
    """bar.sync or barrier.cluster, and what each of its threads does on it."""
    barrier = Barrier(name, len(ctas), 0, BarrierKind.HARDWARE)
    return barrier, [Arrive(barrier), AwaitOwn(barrier)]


def sometimes(condition: bool, *operations: Operation) -> Ops:
    return list(operations) if condition else []


def rule_2_bytes_out_of_range(wrong: bool) -> Protocol:
    first = MAX_COUNT if wrong else MAX_COUNT - 1
    done = load(X, Complete(B, first), Complete(B, 1))
    return protocol((0, [Expect(B, first), Arrive(B, tx=1), done, wait(B, 0), touch(X, READ)]))


def rule_3_use_before_init(wrong: bool) -> Protocol:
    _, sync = together("bar", 0, 0)
    return protocol(
        (0, [Init(B), *sometimes(not wrong, *sync), wait(B, 0)]), (0, [*sometimes(not wrong, *sync), Arrive(B)])
    )


def rule_3_inval_while_awaited(wrong: bool) -> Protocol:
    _, sync = together("bar", 0, 0)
    return protocol(
        (0, [wait(B, 0), *sometimes(not wrong, *sync)]), (0, [Arrive(B), *sometimes(not wrong, *sync), Inval(B)])
    )


def rule_3_bytes_of_a_live_barrier(wrong: bool) -> Protocol:
    barrier = Barrier("b", 1, storage=X)
    return protocol((0, [Arrive(barrier), wait(barrier, 0), *sometimes(not wrong, Inval(barrier)), *data()]))


def data() -> Ops:
    return [touch(X, WRITE), touch(X, READ)]


def rule_3_init_over_a_live_barrier(wrong: bool) -> Protocol:
    old, new = Barrier("old", 1, storage=X), Barrier("new", 1, storage=X)
    use = [Arrive(old), wait(old, 0), *sometimes(not wrong, Inval(old))]
    return protocol((0, [Init(old), *use, Init(new), Arrive(new), wait(new, 0)]))


def rule_3_init_twice(wrong: bool) -> Protocol:
    return protocol((0, [Init(B), *sometimes(wrong, Init(B)), Arrive(B), wait(B, 0)]))


def rule_6_bytes_that_are_not_announced_block_the_phase(wrong: bool) -> Protocol:
    return protocol(
        (0, [Arrive(B, tx=16 if not wrong else 8), load(X, Complete(B, 16))]), (0, [wait(B, 0), touch(X, READ)])
    )


def rule_9_more_arrivals_than_are_pending(wrong: bool) -> Protocol:
    return protocol((0, [Arrive(B, 2 if wrong else 1), wait(B, 0)]))


def rule_9_an_arrival_that_lands_a_phase_early(wrong: bool) -> Protocol:
    two = Barrier("b", 2)
    turns = [Arrive(two), *sometimes(not wrong, wait(two, 0)), Arrive(two)]
    return protocol((0, turns), (0, [Arrive(two), wait(two, 0), Arrive(two), wait(two, 1)]))


def rule_10_bytes_announced_after_the_arrival(wrong: bool) -> Protocol:
    armed = [Arrive(B), Expect(B, 16)] if wrong else [Arrive(B, tx=16)]
    return protocol((0, [*armed, load(X, Complete(B, 16)), wait(B, 0), touch(X, READ)]))


def rule_11_drop_of_the_last_participant(wrong: bool) -> Protocol:
    two = Barrier("b", 2)
    last = [Arrive(two), wait(two, 0), Arrive(two, drop=wrong), wait(two, 1)]
    return protocol((0, [Arrive(two, drop=True)]), (0, last))


def rule_11_a_drop_that_others_do_not_know_of(wrong: bool) -> Protocol:
    """After the drop one arrival ends a phase: with two, the second counts for the phase after."""
    two = Barrier("b", 2)
    again = [wait(two, 0), Arrive(two), wait(two, 1)]
    return protocol((0, [Arrive(two, drop=True), *sometimes(wrong, *again)]), (0, [Arrive(two), *again]))


def rule_12_no_complete_arrival_that_can_come_last(wrong: bool) -> Protocol:
    two = Barrier("b", 2)
    return protocol(
        (0, [Arrive(two, no_complete=True), Arrive(C)]), (0, [*sometimes(not wrong, wait(C, 0)), Arrive(two)]),
        (0, [wait(two, 0), *sometimes(wrong, wait(C, 0))]),
    )  # fmt: skip


def rule_14_bytes_that_no_arrival_waits_for(wrong: bool) -> Protocol:
    """One thread announces, another arrives: the phase can end in between."""
    announced: Ops = [Expect(B, 16), load(X, Complete(B, 16)), *sometimes(not wrong, Arrive(C))]
    return protocol((0, announced), (0, [*sometimes(not wrong, wait(C, 0)), Arrive(B), wait(B, 0), touch(X, READ)]))


def rule_15_nobody_saw_the_phase(wrong: bool) -> Protocol:
    return protocol((0, [Arrive(B), *sometimes(not wrong, wait(B, 0)), Arrive(B), wait(B, 1)]))


def rule_17_a_wait_a_phase_too_early(wrong: bool) -> Protocol:
    waits = [*sometimes(not wrong, wait(B, 0)), Arrive(C), wait(B, 1)]
    return protocol((0, waits), (0, [Arrive(B), wait(B, 0), wait(C, 0), Arrive(B)]))


def rule_18_a_token_two_phases_old(wrong: bool) -> Protocol:
    two = Barrier("b", 2)
    _, sync = together("bar", 0, 0)
    late = [Arrive(two), *sync, AwaitOwn(two)] if wrong else [Arrive(two), AwaitOwn(two), *sync]
    return protocol((0, late), (0, [Arrive(two), AwaitOwn(two), *sync, Arrive(two, 2), AwaitOwn(two)]))


def rule_19_a_start_parity_that_blocks(wrong: bool) -> Protocol:
    return protocol((0, [Wait(B, -1, 0 if wrong else 1), Arrive(C)]), (0, [wait(C, 0), Arrive(B)]))


def rule_20_a_slow_waiter_is_lapped(wrong: bool) -> Protocol:
    both = Barrier("c", 1 if wrong else 2)
    slow: Ops = [wait(B, 0), *sometimes(not wrong, Arrive(both))]
    return protocol((0, [Arrive(B), wait(both, 0), Arrive(B)]), (0, [wait(B, 0), Arrive(both)]), (0, slow))


def rule_37_a_buffer_refilled_while_its_store_reads(wrong: bool) -> Protocol:
    store = Launch(Agent("store", (Access(X, READ),), group="store"))
    joined = Join(("store",))
    return protocol((0, [touch(X, WRITE), store, *sometimes(not wrong, joined), touch(X, WRITE), store, joined]))


def rule_39_a_commit_of_another_queue(wrong: bool) -> Protocol:
    work = load(X, queue="tcgen05")
    commit = Launch(Agent("commit", signals=(Arrive(B),), queue="other" if wrong else "tcgen05"))
    return protocol((0, [work, commit]), (0, [wait(B, 0), touch(X, READ)]))


def rule_41_no_wait_for_the_tmem_load(wrong: bool) -> Protocol:
    ld = Launch(Agent("tcgen05.ld", (Access(X, READ),), group="ld"))
    given_back = [ld, *sometimes(not wrong, Join(("ld",))), Arrive(B), Join(("ld",))]
    return protocol((0, [touch(X, WRITE), *given_back]), (0, [wait(B, 0), *data()]))


def rule_48_a_peer_that_leaves(wrong: bool) -> Protocol:
    _, sync = together("cluster", 0, 1)
    end = sometimes(not wrong, *sync)
    return protocol((0, [*end]), (1, [Arrive(B), *end]), *([] if wrong else [(0, [wait(B, 0)])]))


def rule_51_an_answer_that_only_one_cta_is_armed_for(wrong: bool) -> Protocol:
    other, answers = Barrier("b", 1, 1), (Slot("answer", 0), Slot("answer", 1))
    _, sync = together("cluster", 0, 1)
    query = Launch(
        Agent("try_cancel", tuple(Access(one, WRITE) for one in answers), (Complete(B, 16), Complete(other, 16)))
    )
    first = [Arrive(B, tx=16), query, wait(B, 0), touch(answers[0], READ), *sync]
    second = [*sometimes(not wrong, Arrive(other, tx=16)), wait(other, 0), touch(answers[1], READ), *sync]
    return protocol((0, first), (1, second))


def leftover(wrong: bool) -> Protocol:
    two = Barrier("b", 2)
    return protocol((0, [Arrive(two), *sometimes(not wrong, Arrive(two), wait(two, 0))]))


def leftover_after_a_drop(wrong: bool) -> Protocol:
    """A drop lowers the pending and the expected count alike: the phase has begun all the same."""
    two = Barrier("b", 2)
    return protocol((0, [Arrive(two, drop=True), *sometimes(not wrong, Arrive(two), wait(two, 0))]))


def unread(wrong: bool) -> Protocol:
    return protocol((0, [touch(X, WRITE), *sometimes(not wrong, touch(X, READ))]))


def accumulated_after_the_last_read(wrong: bool) -> Protocol:
    more = [touch(X, Mode.UPDATE), *sometimes(not wrong, touch(X, READ))]
    return protocol((0, [touch(X, WRITE), touch(X, READ), *more]))


def overwritten(wrong: bool) -> Protocol:
    return protocol((0, [touch(X, WRITE), *sometimes(not wrong, touch(X, READ)), touch(X, WRITE), touch(X, READ)]))


def unwritten(wrong: bool) -> Protocol:
    return protocol((0, [*sometimes(not wrong, touch(X, WRITE)), touch(X, READ)]))


def in_flight(wrong: bool) -> Protocol:
    store = Launch(Agent("store", (Access(X, READ),), group="store"))
    return protocol((0, [touch(X, WRITE), store, *sometimes(not wrong, Join(("store",)))]))


CASES: list[tuple[Case, Kind]] = [
    (rule_2_bytes_out_of_range, Kind.TX_RANGE),
    (rule_3_use_before_init, Kind.DEAD_BARRIER),
    (rule_3_inval_while_awaited, Kind.DEAD_BARRIER),
    (rule_3_bytes_of_a_live_barrier, Kind.LIVE_BARRIER),
    (rule_3_init_over_a_live_barrier, Kind.LIVE_BARRIER),
    (rule_3_init_twice, Kind.LIVE_BARRIER),
    (rule_6_bytes_that_are_not_announced_block_the_phase, Kind.WRONG_BYTES),
    (rule_9_more_arrivals_than_are_pending, Kind.ARRIVE_OVERFLOW),
    (rule_9_an_arrival_that_lands_a_phase_early, Kind.WRONG_PHASE),
    (rule_10_bytes_announced_after_the_arrival, Kind.RACE),
    (rule_11_drop_of_the_last_participant, Kind.DROP_ALL),
    (rule_11_a_drop_that_others_do_not_know_of, Kind.WRONG_PHASE),
    (rule_12_no_complete_arrival_that_can_come_last, Kind.COMPLETES),
    (rule_14_bytes_that_no_arrival_waits_for, Kind.EARLY_TX),
    (rule_15_nobody_saw_the_phase, Kind.UNOBSERVED),
    (rule_17_a_wait_a_phase_too_early, Kind.EARLY_WAIT),
    (rule_18_a_token_two_phases_old, Kind.LAPPED),
    (rule_19_a_start_parity_that_blocks, Kind.WRONG_PARITY),
    (rule_20_a_slow_waiter_is_lapped, Kind.LAPPED),
    (rule_37_a_buffer_refilled_while_its_store_reads, Kind.RACE),
    (rule_39_a_commit_of_another_queue, Kind.RACE),
    (rule_41_no_wait_for_the_tmem_load, Kind.RACE),
    (rule_48_a_peer_that_leaves, Kind.PEER_EXIT),
    (rule_51_an_answer_that_only_one_cta_is_armed_for, Kind.DEADLOCK),
    (leftover, Kind.LEFTOVER),
    (leftover_after_a_drop, Kind.LEFTOVER),
    (unread, Kind.UNREAD),
    (accumulated_after_the_last_read, Kind.UNREAD),
    (overwritten, Kind.OVERWRITTEN),
    (unwritten, Kind.UNWRITTEN),
    (in_flight, Kind.IN_FLIGHT),
]


@pytest.mark.parametrize(("case", "kind"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_the_violation_is_named_and_its_twin_is_clean(case: Case, kind: Kind) -> None:
    wrong, right = case(True), case(False)
    assert kind in {finding.kind for finding in check_ordered(wrong)}
    assert check_ordered(right) == []
    explored = explore(wrong)
    # The explorer names EARLY_TX by what it leads to: bytes that land in the wrong phase, or another end of the phase.
    assert kind in explored.found or (kind is Kind.EARLY_TX and explored.found), explored.found.keys()
    assert explore(right).found == {}


def remote(wrong: bool) -> Protocol:
    """A thread of CTA 1 writes into CTA 0 and tells it."""
    scope = Scope.CTA if wrong else Scope.CLUSTER
    _, sync = together("cluster", 0, 1)
    writer: Ops = [touch(X, WRITE), Arrive(B, scope=scope), *sync]
    return protocol((1, writer), (0, [wait(B, 0, scope), touch(X, READ), *sync]))


def remote_acquire(wrong: bool) -> Protocol:
    """The same with the waiter's scope alone too narrow."""
    _, sync = together("cluster", 0, 1)
    writer: Ops = [touch(X, WRITE), Arrive(B, scope=Scope.CLUSTER), *sync]
    return protocol((1, writer), (0, [wait(B, 0, Scope.CTA if wrong else Scope.CLUSTER), touch(X, READ), *sync]))


def remote_of_engine_data(wrong: bool) -> Protocol:
    """Only what a load brought crosses: legal, and what CUTLASS does."""
    _, sync = together("cluster", 0, 1)
    peer, there = Barrier("b", 1, 1), Slot("x", 1)
    relay = Arrive(C, scope=Scope.CTA if wrong else Scope.CLUSTER)
    loader: Ops = [Arrive(peer, tx=16), load(there, Complete(peer, 16)), wait(peer, 0), relay, *sync]
    reader = Launch(Agent("mma", (Access(there, READ),), group="mma"))
    return protocol((1, loader), (0, [wait(C, 0), reader, Join(("mma",)), *sync]))


def proxy(wrong: bool) -> Protocol:
    fence = sometimes(not wrong, Fence(FenceKind.PROXY_ASYNC))
    store = Launch(Agent("store", (Access(X, READ),), group="store"))
    return protocol((0, [touch(X, WRITE), *fence, Arrive(B)]), (0, [wait(B, 0), store, Join(("store",))]))


def proxy_fence_of_the_reader_alone(wrong: bool) -> Protocol:
    fence = Fence(FenceKind.PROXY_ASYNC)
    store = Launch(Agent("store", (Access(X, READ),), group="store"))
    writer = [touch(X, WRITE), *sometimes(not wrong, fence), Arrive(B)]
    return protocol((0, writer), (0, [wait(B, 0), fence, store, Join(("store",))]))


def init(wrong: bool) -> Protocol:
    """Rule 4: a load signals a barrier that this thread has made."""
    fence = sometimes(not wrong, Fence(FenceKind.MBARRIER_INIT))
    return protocol((0, [Init(B), *fence, Arrive(B, tx=16), load(X, Complete(B, 16)), wait(B, 0), touch(X, READ)]))


def tcgen05(before: bool, after: bool) -> Protocol:
    """An MMA warp and an epilogue warp that hand one accumulator to and fro."""
    accumulator = Slot("acc", space=Space.TMEM)
    mma = Launch(Agent("mma", (Access(accumulator, WRITE),), (Arrive(B),), "tcgen05"))
    ld = Launch(Agent("ld", (Access(accumulator, READ),), group="ld"))
    told, heard = Fence(FenceKind.TCGEN05_BEFORE), Fence(FenceKind.TCGEN05_AFTER)
    first: Ops = [mma, wait(C, 0), *sometimes(after, heard), mma, wait(B, 1), wait(C, 1)]
    second: Ops = []
    for turn in range(2):
        second += [wait(B, turn), *sometimes(after, heard), ld, Join(("ld",)), *sometimes(before, told), Arrive(C)]
    return protocol((0, first), (0, second))


def wgmma(wrong: bool) -> Protocol:
    registers = Slot("registers", space=Space.REGISTERS)
    work = Launch(Agent("wgmma", (Access(registers, Mode.UPDATE),), queue="wgmma", group="wgmma"))
    fence = sometimes(not wrong, Fence(FenceKind.WGMMA))
    return protocol((0, [touch(registers, WRITE), *fence, work, Join(("wgmma",)), touch(registers, READ)]))


def tensormap(wrong: bool) -> Protocol:
    descriptor = Slot("map", space=Space.DESCRIPTOR)
    fences = [Fence(FenceKind.TENSORMAP_RELEASE), Fence(FenceKind.TENSORMAP_ACQUIRE)]
    copy = Launch(Agent("copy", (Access(descriptor, READ),), group="copy"))
    return protocol((0, [touch(descriptor, WRITE), *(fences[:1] if wrong else fences), copy, Join(("copy",))]))


LINTS: list[tuple[Case, LintKind]] = [
    (init, LintKind.INIT),
    (remote, LintKind.SCOPE),
    (remote_acquire, LintKind.SCOPE),
    (remote_of_engine_data, LintKind.REMOTE_SCOPE),
    (proxy, LintKind.PROXY),
    (proxy_fence_of_the_reader_alone, LintKind.PROXY),
    (wgmma, LintKind.WGMMA),
    (tensormap, LintKind.TENSORMAP),
    (lambda wrong: tcgen05(before=not wrong, after=True), LintKind.TCGEN05_BEFORE),
    (lambda wrong: tcgen05(before=True, after=not wrong), LintKind.TCGEN05_AFTER),
]


@pytest.mark.parametrize(("case", "kind"), LINTS, ids=[str(kind) for _, kind in LINTS])
def test_a_lint_is_no_error_and_its_twin_has_none(case: Case, kind: LintKind) -> None:
    everything = policy("ptx")
    assert check_ordered(case(True)) == []
    assert kind in {lint.kind for lint in find_lints(case(True), everything)}
    assert check_ordered(case(False)) == []
    assert kind not in {lint.kind for lint in find_lints(case(False), everything)}
    for rules in POLICIES.values():
        found = {lint.kind for lint in find_lints(case(True), rules)}
        assert found <= rules.kinds
        assert (kind in found) == (kind in rules.kinds)


def test_what_front_ends_leave_out_is_no_lint_of_theirs() -> None:
    """Triton, Gluon and CuTe DSL emit no tcgen05.fence; CUTLASS's remote arrivals are unqualified."""
    without = tcgen05(before=False, after=False)
    for name, expected in [("tilelang", 2), ("cutlass", 2), ("triton", 0), ("gluon", 0), ("cute", 0), ("none", 0)]:
        assert len(find_lints(without, policy(name))) == expected, name
    assert find_lints(remote_of_engine_data(True), policy("cutlass")) == []
    assert {lint.kind for lint in find_lints(remote(True), policy("cutlass"))} == {LintKind.SCOPE}


def test_an_unknown_policy() -> None:
    with pytest.raises(InputError, match="policy='nvcc' is unknown; known: ptx, tilelang"):
        policy("nvcc")


def refused() -> Iterator[tuple[str, Ops]]:
    peer = Barrier("p", 1, 1)
    hardware = Barrier("h", 1, kind=BarrierKind.HARDWARE)
    yield "waits on, makes or ends p of CTA 1", [wait(peer, 0)]
    yield "waits on, makes or ends p of CTA 1", [Init(peer)]
    yield "waits on, makes or ends p of CTA 1", [Arrive(peer), AwaitOwn(peer)]
    yield "before it has arrived", [AwaitOwn(B)]
    yield "phase=-2 is below -1", [Wait(B, -2, 0)]
    yield r"count=1048576 is outside \[1, 1048575\]", [Arrive(Barrier("big", MAX_COUNT + 1))]
    yield r"count=0 is outside \[1, 1048575\]", [Arrive(B, 0)]
    yield r"tx=-1 is outside \[1, 1048575\]", [Expect(B, -1)]
    yield r"tx=0 is outside \[1, 1048575\]", [Expect(B, 0)]
    yield r"tx=0 is outside \[1, 1048575\]", [load(X, Complete(B, 0))]
    yield r"tx=-1 is outside \[0, 1048575\]", [Arrive(B, tx=-1)]
    yield "number 1 of what it yields is no operation, but generator", [Arrive(B), (one for one in ())]  # type: ignore[list-item]
    yield "is no operation, but Complete", [Complete(B, 16)]  # type: ignore[list-item]
    yield "is no operation, but Touch", [Touch(X)]  # type: ignore[arg-type]
    yield "is no operation, but Launch", [Launch(Agent("a", Access(X, READ)))]  # type: ignore[arg-type]
    yield "is no operation, but Wait", [Wait(B, 0.5, 0)]  # type: ignore[arg-type]
    yield "is no operation, but Wait", [Wait(B, 0, 2)]
    yield "is no operation, but Arrive", [Arrive(Barrier("two\nlines", 1))]
    yield "it has no waits by parity", [Arrive(hardware), Wait(hardware, 0, 0)]
    yield "it has no bytes", [Expect(hardware, 16)]
    yield "takes neither bytes nor drops", [Arrive(hardware, tx=16)]
    yield "of CTA 0 is in bytes of CTA 1", [Arrive(Barrier("far", 1, storage=Slot("s", 1)))]
    yield (
        "old and new are in the same bytes and have no Init",
        [
            Arrive(Barrier("old", 1, storage=X)),
            Arrive(Barrier("new", 1, storage=X)),
        ],
    )
    yield "no engine has that form", [load(X, Arrive(B, drop=True))]
    yield "no engine has that form", [load(X, Arrive(B, no_complete=True))]
    yield "h is no mbarrier: it has no init or inval", [Inval(hardware)]


@pytest.mark.parametrize(("message", "operations"), list(refused()))
def test_what_no_kernel_can_say_is_refused(message: str, operations: Ops) -> None:
    with pytest.raises(InputError, match=message):
        protocol((0, operations))
