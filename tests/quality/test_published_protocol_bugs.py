"""Published barrier bugs, each as reported, smallest, and fixed. The fast checker and the explorer both judge them.

Sources are named at each test. Roles read as in the reports; expected kinds are those that the reports describe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from tilesched.simulator.findings import Finding
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.kinds import ProtocolKind as Kind
from tilesched.simulator.protocol.lint import LintKind, find_lints, policy
from tilesched.simulator.protocol.ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Complete,
    Join,
    Launch,
    Mode,
    Operation,
    Scope,
    Slot,
    Touch,
    Wait,
)
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol, Thread

Ops = Iterator[Operation]
READ, WRITE = Mode.READ, Mode.WRITE


def wait(barrier: Barrier, phase: int) -> Wait:
    return Wait(barrier, phase, phase & 1)


def read(slot: Slot) -> Touch:
    return Touch(Access(slot, READ))


def write(slot: Slot) -> Touch:
    return Touch(Access(slot, WRITE))


def load(slot: Slot, barrier: Barrier, size: int = 16) -> Launch:
    return Launch(Agent(f"load of {slot.name}", (Access(slot, WRITE),), (Complete(barrier, size),)))


def judge(*threads: tuple[str, int, Ops], explored: bool = True) -> list[Finding]:
    """Findings of the fast checker, after the explorer has agreed that there are some, or none."""
    protocol = Protocol("reported", tuple(Thread(role, tuple(ops), cta) for role, cta, ops in threads))
    findings = check_ordered(protocol)
    if explored:
        exploration = explore(protocol)
        assert exploration.complete
        assert bool(findings) == bool(exploration.found), (findings, exploration.found)
    return findings


def kinds(findings: Sequence[Finding]) -> set[str]:
    return {str(finding.kind) for finding in findings}


@pytest.mark.parametrize("relayed", [False, True])
def test_cutlass_3643_the_peers_half_is_not_waited_for(relayed: bool) -> None:
    f0, f1, g = Barrier("full0", 1, 0), Barrier("full1", 1, 1), Barrier("relay", 1, 0)
    h0, h1 = Slot("half0", 0), Slot("half1", 1)
    done = Barrier("end", 4 if relayed else 3, 0, BarrierKind.HARDWARE)

    def sync() -> Ops:
        yield from (Arrive(done), AwaitOwn(done))

    def loader(barrier: Barrier, slot: Slot) -> Ops:
        yield Arrive(barrier, tx=16)
        yield load(slot, barrier)
        if slot is h1:
            yield wait(f1, 0)  # so that the peer stays until its half is there
        yield from sync()

    def mma() -> Ops:
        yield wait(f0, 0)
        if relayed:
            yield wait(g, 0)
        yield Launch(Agent("mma", (Access(h0, READ), Access(h1, READ)), group="mma"))
        yield Join(("mma",))
        yield from sync()

    def relay() -> Ops:
        yield wait(f1, 0)
        yield Arrive(g)
        yield from sync()

    threads = [("LOAD", 0, loader(f0, h0)), ("LOAD", 1, loader(f1, h1)), ("MMA", 0, mma())]
    findings = judge(*threads, *([("RELAY", 1, relay())] if relayed else []))
    assert kinds(findings) == (set() if relayed else {Kind.RACE, Kind.UNWRITTEN} & kinds(findings) | {Kind.RACE})
    if not relayed:
        (race,) = (finding for finding in findings if finding.kind is Kind.RACE)
        assert race.facts["about"] == "half1"
        assert race.message == (
            "MMA@CTA0's mma reads half1, and LOAD@CTA1's load of half1 writes it: nothing orders the two (the end of "
            "LOAD@CTA1's load of half1 is told by full1@CTA1)"
        )


@pytest.mark.parametrize("scope", Scope)
def test_cutlass_3643_the_relays_scope_is_too_narrow(scope: Scope) -> None:
    """The peer's half is written by its threads: the relay's arrival must have cluster scope, and so must the wait."""
    g, half, end = Barrier("relay", 1, 0), Slot("half1", 1), Barrier("end", 2, 0, BarrierKind.HARDWARE)
    peer = (write(half), Arrive(g, scope=scope), Arrive(end), AwaitOwn(end))
    mma = (Wait(g, 0, 0, scope), read(half), Arrive(end), AwaitOwn(end))
    protocol = Protocol("scope", (Thread("RELAY", peer, 1), Thread("MMA", mma, 0)))
    assert check_ordered(protocol) == []
    lints = find_lints(protocol, policy("cutlass"))
    assert [lint.kind for lint in lints] == ([LintKind.SCOPE] if scope is Scope.CTA else [])
    if lints:
        assert "RELAY@CTA1 writes half1, then MMA@CTA0 reads it: in another CTA, with no release of cluster scope" in (
            lints[0].message
        )


@pytest.mark.parametrize(("stages", "single", "wrong"), [(1, 1, False), (2, 1, False), (3, 1, True), (3, 0, False)])
def test_fb_triton_3472_one_rendezvous_for_a_ring(stages: int, single: int, wrong: bool) -> None:
    iterations = 4
    rv = [Barrier(f"rv{i}", 2, 0) for i in range(1 if single else stages)]
    free = [Barrier(f"free{s}", 1, 1) for s in range(stages)]
    end = Barrier("end", 2, 0, BarrierKind.HARDWARE)

    def follower() -> Ops:
        for i in range(iterations):
            yield wait(free[i % stages], i // stages - 1)
            yield Arrive(rv[i % len(rv)])
        for i in range(max(iterations - stages, 0), iterations):
            yield wait(free[i % stages], i // stages)
        yield from (Arrive(end), AwaitOwn(end))

    def leader() -> Ops:
        for i in range(iterations):
            yield Arrive(rv[i % len(rv)])
            yield wait(rv[i % len(rv)], i // len(rv))
            yield Launch(Agent("commit", signals=(Arrive(free[i % stages]),), queue="tensor"))
        yield from (Arrive(end), AwaitOwn(end))

    threads = [("F", 1, tuple(follower())), ("L", 0, tuple(leader()))]
    findings = judge(*((role, cta, iter(ops)) for role, cta, ops in threads))
    found = kinds(findings)
    reachable = explore(Protocol("reported", tuple(Thread(role, ops, cta) for role, cta, ops in threads))).found
    assert (Kind.DEADLOCK in reachable) == wrong
    if wrong:  # the follower's arrivals alone end a phase that the leader has no part in; the leader then waits
        early = next(finding for finding in findings if finding.kind is Kind.WRONG_PHASE)
        assert "an arrival of L@CTA0 on rv0 can land in phase 0 or in phase 1" in early.message
        assert early.facts["made_by"] == ["F@CTA1", "F@CTA1"]
        hang = explore(Protocol("reported", tuple(Thread(role, ops, cta) for role, cta, ops in threads)))
        assert any(text.startswith("L@CTA0 waits on rv0") for text in hang.found[Kind.DEADLOCK].waiting)
    if stages == 2:  # never hangs, yet arrivals trade phases and break rule 15: that is said, and no more
        assert found == {Kind.WRONG_PHASE, Kind.UNOBSERVED}
    else:
        assert found == ({Kind.WRONG_PHASE, Kind.UNOBSERVED, Kind.LAPPED} if wrong else set())


@pytest.mark.parametrize("armed", [False, True])
def test_fb_triton_908_only_cta_0_arms_the_answer(armed: bool) -> None:
    q = [Barrier(f"q{c}", 1, c) for c in range(2)]
    r = [Slot(f"answer{c}", c) for c in range(2)]

    def scheduler() -> Ops:
        yield Arrive(q[0], tx=16)
        for c in range(2):
            yield load(r[c], q[c])

    def consumer(c: int) -> Ops:
        if c and armed:
            yield Arrive(q[1], tx=16)
        yield wait(q[c], 0)
        yield read(r[c])

    findings = judge(("S", 0, scheduler()), ("C", 0, consumer(0)), ("C", 1, consumer(1)))
    assert bool(findings) != armed
    if not armed:
        deadlock = next(finding for finding in findings if finding.kind is Kind.DEADLOCK)
        (waiting,) = deadlock.facts["waiting"]  # type: ignore[misc]
        assert (waiting["role"], waiting["pending"], waiting["tx"]) == ("C@CTA1", 1, -16)
        assert "nobody is left to arrive" in deadlock.message


@pytest.mark.parametrize(("subtiles", "stuck", "wrong"), [(4, True, True), (4, False, False), (3, True, False)])
def test_cutlass_3636_store_buffer_from_a_counter_that_stands_still(subtiles: int, stuck: bool, wrong: bool) -> None:
    buffers = [Slot(f"c[{i}]") for i in range(3)]

    def epilogue() -> Ops:
        for tile in range(2):
            for sub in range(subtiles):
                real = tile * subtiles + sub
                if real >= 3:
                    yield Join((f"store {real - 3}",))  # wait_group 2: all but the last two have been read
                index = (sub if stuck else real) % 3
                yield write(buffers[index])
                yield Launch(Agent("store", (Access(buffers[index], READ),), group=f"store {real}"))
        yield Join(tuple(f"store {i}" for i in range(2 * subtiles)))

    findings = judge(("EPI", 0, epilogue()))
    assert kinds(findings) == ({Kind.RACE} if wrong else set())
    if wrong:  # tile 1's first subtile goes over what the store of tile 0's last one still reads
        assert findings[0].message.startswith("EPI@CTA0 writes c[0], and EPI@CTA0's store reads it")
        assert findings[0].facts["told_by"] == ["its thread's wait for store 3"]


@pytest.mark.parametrize(("stages", "k_blocks", "mma_tiles"), [(2, 3, 1), (2, 3, 2), (2, 1, 1)])
def test_quack_206_roles_disagree_on_their_tiles(stages: int, k_blocks: int, mma_tiles: int) -> None:
    full = [Barrier(f"full{s}", 1) for s in range(stages)]
    empty = [Barrier(f"empty{s}", 1) for s in range(stages)]
    ring = [Slot(f"stage{s}") for s in range(stages)]

    def loader() -> Ops:
        for c in range(2 * k_blocks):
            yield wait(empty[c % stages], c // stages - 1)
            yield Arrive(full[c % stages], tx=16)
            yield load(ring[c % stages], full[c % stages])

    def mma() -> Ops:
        for c in range(mma_tiles * k_blocks):
            yield wait(full[c % stages], c // stages)
            yield read(ring[c % stages])
            yield Arrive(empty[c % stages])

    findings = judge(("LOAD", 0, loader()), ("MMA", 0, mma()))
    if mma_tiles == 2:
        assert findings == []
    elif k_blocks == 3:
        assert Kind.DEADLOCK in kinds(findings)
        assert "LOAD@CTA0 waits on empty" in next(f.message for f in findings if f.kind is Kind.DEADLOCK)
    else:  # the second tile fits into the ring: the kernel ends, and its data are never read
        assert {Kind.UNREAD, Kind.IN_FLIGHT} <= kinds(findings)


@pytest.mark.parametrize("ring_parity", [True, False])
def test_tilelang_3087_ring_parity_on_a_barrier_of_one_slot(ring_parity: bool) -> None:
    stages, iterations = 3, 6
    full = [Barrier(f"full{s}", 1) for s in range(stages)]
    done = Barrier("m", 1)
    ring = [Slot(f"stage{s}") for s in range(stages)]

    def fill(c: int) -> Ops:
        yield Arrive(full[c % stages], tx=16)
        yield load(ring[c % stages], full[c % stages])

    def role() -> Ops:
        for c in range(stages - 1):
            yield from fill(c)
        for k in range(iterations):
            if k + stages - 1 < iterations:
                yield from fill(k + stages - 1)
            yield wait(full[k % stages], k // stages)
            yield Launch(Agent(f"mma {k}", (Access(ring[k % stages], READ),), queue="tensor"))
            yield Launch(Agent("commit", signals=(Arrive(done),), queue="tensor"))
            yield Wait(done, k, (k // stages if ring_parity else k) & 1)

    findings = judge(("ONE", 0, role()))
    assert kinds(findings) == ({Kind.WRONG_PARITY} if ring_parity else set())
    if ring_parity:
        assert findings[0].facts["meant"] == 1  # the first k at which the parities differ
        assert findings[0].facts["parity"] == 0
        assert "it passes at once while phase 1 is open" in findings[0].message


@pytest.mark.parametrize("empty", list(product([False, True], repeat=3)))
def test_cudnn_575_the_gate_laps_the_loader_on_empty_tiles(empty: tuple[bool, ...]) -> None:
    gate, data = Barrier("gate", 1), Barrier("data", 1)

    def loader() -> Ops:
        for t in range(3):
            yield wait(gate, t - 1)
            yield Arrive(data)

    def correction() -> Ops:
        for t in range(3):
            if not empty[t]:
                yield wait(data, t)
            yield Arrive(gate)

    findings = judge(("LOAD", 0, loader()), ("CORR", 0, correction()))
    assert bool(findings) == any(empty)
    if all(empty):
        lapped = next(finding for finding in findings if finding.kind is Kind.LAPPED)
        assert "gate can end phase 1 before LOAD@CTA0 has looked for the end of phase 0" not in lapped.message
        assert "gate can end phase 0 before LOAD@CTA0 has looked for the end of phase -1" in lapped.message
        assert lapped.facts["made_by"] == ["CORR@CTA0"]


@pytest.mark.parametrize("pattern", [p for n in range(1, 5) for p in product([0, 1], repeat=n)], ids=str)
@pytest.mark.parametrize("extra", [False, True])
def test_flash_attention_2258_arrivals_on_empty_tiles(pattern: tuple[int, ...], extra: bool) -> None:
    full, free, p = Barrier("P_full", 1), Barrier("P_free", 1), Slot("P")

    def softmax() -> Ops:
        turn = 0
        for work in pattern:
            if work:
                yield wait(free, turn - 1)
                yield write(p)
                yield Arrive(full)
                turn += 1
            elif extra:
                yield Arrive(full)

    def mma() -> Ops:
        for turn in range(sum(pattern)):
            yield wait(full, turn)
            yield read(p)
            yield Arrive(free)

    findings = judge(("SOFT", 0, softmax()), ("MMA", 0, mma()))
    if not extra or all(pattern):
        assert findings == []
    if extra and pattern in {(1, 0, 1), (0, 1), (0, 0, 1), (1, 0, 0, 1)}:
        assert findings


@pytest.mark.parametrize(("stages", "joined"), [(1, False), (2, False), (1, True)])
def test_triton_10035_one_warp_releases_what_two_wait_for(stages: int, joined: bool) -> None:
    ready = [Barrier(f"ready{s}", 1) for s in range(stages)]
    empty = [Barrier(f"empty{s}", 1) for s in range(stages)]
    both = Barrier("warps", 2, kind=BarrierKind.HARDWARE)

    def producer() -> Ops:
        for c in range(2 * stages):
            yield wait(empty[c % stages], c // stages - 1)
            yield Arrive(ready[c % stages])

    def warp(leads: bool) -> Ops:
        for c in range(2 * stages):
            yield wait(ready[c % stages], c // stages)
            if joined:
                yield from (Arrive(both), AwaitOwn(both))
            if leads:
                yield Arrive(empty[c % stages])

    findings = judge(("P", 0, producer()), ("W0", 0, warp(True)), ("W1", 0, warp(False)))
    assert kinds(findings) == (set() if joined else {Kind.LAPPED})
    if not joined:
        assert findings[0].facts["role"] == "W1@CTA0"
        assert "ready0 can end phase 1 before W1@CTA0 has looked for the end of phase 0" in findings[0].message
        assert findings[0].facts["made_by"] == ["P@CTA0"]


@pytest.mark.parametrize("tiles", [0, 1, 2])
@pytest.mark.parametrize("guarded", [False, True])
def test_cutlass_2152_a_wait_of_a_cta_without_tiles(tiles: int, guarded: bool) -> None:
    threads: list[tuple[str, int, Ops]] = []

    def ab(own: range, order: Barrier) -> Ops:
        for tile in own:
            if tile == own[0]:
                yield Arrive(order)

    def c_load(own: range, order: Barrier) -> Ops:
        if own or not guarded:
            yield wait(order, 0)

    for cta in range(2):
        order = Barrier("order", 1, cta)
        own = range(cta, tiles, 2)
        threads += [("AB_LOAD", cta, ab(own, order)), ("C_LOAD", cta, c_load(own, order))]
    findings = judge(*threads)
    idle = 2 - tiles
    assert kinds(findings) == ({Kind.DEADLOCK} if idle and not guarded else set())
    if findings:
        assert f"{idle} of 4 threads wait for ever" in findings[0].message
        assert "C_LOAD@CTA1 waits on order for phase 0" in findings[0].message


@pytest.mark.parametrize("ids", [1, 2])
def test_flashinfer_4732_math_arrives_twice_on_a_named_barrier(ids: int) -> None:
    bars = [Barrier(f"bar{i}", 2, kind=BarrierKind.HARDWARE) for i in range(ids)]
    back = Barrier("run-ahead", 1)

    def math() -> Ops:
        for t in range(3):
            if ids == 2 and t >= 2:  # what bounds how far ahead it runs
                yield wait(back, t - 2)
            yield Arrive(bars[t % ids])

    def io() -> Ops:
        for t in range(3):
            yield from (Arrive(bars[t % ids]), AwaitOwn(bars[t % ids]))
            if ids == 2 and t + 2 < 3:
                yield Arrive(back)

    findings = judge(("MATH", 0, math()), ("IO", 0, io()))
    assert bool(findings) == (ids == 1)
    if findings:  # MATH's arrivals of two tiles fill a phase without IO
        twice = next(finding for finding in findings if finding.kind is Kind.DOUBLE_ARRIVAL)
        assert "MATH@CTA0 arrives on bar0 for the second time in phase 0" in twice.message
        deadlock = next(finding for finding in findings if finding.kind is Kind.DEADLOCK)
        assert "IO@CTA0 waits on bar0" in deadlock.message


@pytest.mark.parametrize("second_sync", [False, True])
def test_tileops_1550_the_other_warps_do_not_wait_for_the_store(second_sync: bool) -> None:
    staging = [Slot("c[0]"), Slot("c[1]")]
    bar = Barrier("warpgroup", 2, kind=BarrierKind.HARDWARE)

    def thread(number: int) -> Ops:
        for _ in range(2):
            yield write(staging[number])
            yield from (Arrive(bar), AwaitOwn(bar))
            if number == 0:
                yield Launch(Agent("store", tuple(Access(slot, READ) for slot in staging), group="store"))
                yield Join(("store",))
            if second_sync:
                yield from (Arrive(bar), AwaitOwn(bar))

    findings = judge(("T0", 0, thread(0)), ("T1", 0, thread(1)))
    assert bool(findings) != second_sync
    if findings:
        (race,) = (finding for finding in findings if finding.kind is Kind.RACE)
        assert race.facts["about"] == "c[1]"
        assert set(race.facts["roles"]) == {"T1@CTA0", "T0@CTA0's store"}  # type: ignore[call-overload]
        assert race.facts["told_by"] == ["its thread's wait for store"]


@pytest.mark.parametrize(("count", "wrong"), [(256, False), (128, True)])
def test_flashmla_57_is_no_bug_but_its_fix_would_be(count: int, wrong: bool) -> None:
    bar, s = Barrier("SReady", count, kind=BarrierKind.HARDWARE), Slot("S")

    def arriving() -> Ops:
        yield write(s)
        yield Arrive(bar, 128)

    def syncing() -> Ops:
        yield from (Arrive(bar, 128), AwaitOwn(bar))
        yield read(s)

    findings = judge(("WG0", 0, arriving()), ("WG1", 0, syncing()))
    assert kinds(findings) == ({Kind.WRONG_PHASE} if wrong else set())
    if wrong:  # the phase can end by WG1 alone
        assert "WG1@CTA0 on SReady can land in phase 0 or in phase 1" in findings[0].message


@pytest.mark.parametrize(("count", "remote", "wrong"), [(2, True, False), (1, False, True), (2, False, True)])
def test_deepgemm_51_a_multicast_refill_needs_both_releases(count: int, remote: bool, wrong: bool) -> None:
    full = [Barrier(f"full{c}", 1, c) for c in range(2)]
    empty = [Barrier(f"empty{c}", count, c) for c in range(2)]
    half = [[Slot(f"half{h}@{c}", c) for h in range(2)] for c in range(2)]
    end = Barrier("end", 4, 0, BarrierKind.HARDWARE)

    def producer(c: int) -> Ops:
        for turn in range(2):
            yield wait(empty[c], turn - 1)
            yield Arrive(full[c], tx=32)
            for other in range(2):
                yield load(half[other][c], full[other])
        yield from (Arrive(end), AwaitOwn(end))

    def consumer(c: int) -> Ops:
        for turn in range(2):
            yield wait(full[c], turn)
            yield from (read(slot) for slot in half[c])
            if turn == 0:
                for other in range(2) if remote else (c,):
                    yield Arrive(empty[other])
        yield from (Arrive(end), AwaitOwn(end))

    threads = [("P", 0, producer(0)), ("P", 1, producer(1)), ("C", 0, consumer(0)), ("C", 1, consumer(1))]
    found = kinds(judge(*threads, explored=False))
    assert bool(found) == wrong, found
    if wrong:
        assert (Kind.DEADLOCK in found) == (count == 2)
