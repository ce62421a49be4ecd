"""Barriers of a CTA and of a cluster, and mbarrier objects: their transitions are those of protocol/mbarrier.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ..protocol.mbarrier import MAX_COUNT, Mbarrier
from ..protocol.mbarrier import Fault as MbarrierFault
from .access import address_of, shared_place
from .alu import Builder
from .isa import Modifiers, Unsupported
from .kinds import Fault, MachineKind
from .memory import State
from .program import Address, Immediate, Instruction, Operand, Sink
from .slots import BLOCK, DTYPES, LANES, Array, Ending, Slots, Step, pure
from .warp import Cta, Fragment, LiveBarrier, NamedBarrier, Reason, Waiting, Warp

__all__ = ["BARRIERS", "change", "find_barrier"]

_NAMED = 16
_OBJECT = 8  # bytes of an mbarrier object


# -- barriers of a CTA ------------------------------------------------------------------------------------------------


def _uniform(warp: Warp, fragment: Fragment, slot: int, what: str) -> int:
    values = warp.regs[slot][fragment.mask]
    if (values != values[0]).any():
        raise Fault(MachineKind.BARRIER_COUNT, f"lanes differ in the {what} of a barrier")
    return int(values[0])


def _named(warp: Warp, number: int) -> NamedBarrier:
    if not 0 <= number < _NAMED:
        raise Fault(MachineKind.BARRIER_COUNT, f"barrier {number} is outside [0, {_NAMED - 1}]")
    return warp.cta.named.setdefault(number, NamedBarrier())


def _arrive_named(warp: Warp, fragment: Fragment, number: int, count: int | None) -> NamedBarrier:
    """Count a fragment as arrived; a warp counts as 32 threads once all its lanes came."""
    barrier = _named(warp, number)
    everybody = LANES * len(warp.cta.warps)
    expected = everybody if count is None else count
    if expected % LANES or not 0 < expected <= everybody:
        text = f"barrier {number} with {expected} threads: not a multiple of {LANES} in [{LANES}, {everybody}]"
        raise Fault(MachineKind.BARRIER_COUNT, text, barrier=number, threads=expected)
    if barrier.expected not in (None, expected):
        text = f"barrier {number} with {expected} threads, while others use it with {barrier.expected}"
        raise Fault(MachineKind.BARRIER_COUNT, text, barrier=number, threads=expected)
    barrier.expected, barrier.everybody = expected, count is None
    lanes = barrier.partial.pop(warp.index, np.zeros(LANES, np.bool_)) | fragment.mask
    if (warp.live & ~lanes).any():
        barrier.partial[warp.index] = lanes
    else:
        barrier.arrived += LANES
    warp.machine.effects += 1
    return barrier


def settle_named(cta: Cta, barrier: NamedBarrier) -> None:
    """End the generation if all threads came; without a thread count those that have ended are not awaited."""
    if barrier.expected is None:
        return
    expected = LANES * cta.live_warps if barrier.everybody else barrier.expected
    if barrier.arrived and barrier.arrived >= expected:
        barrier.result = barrier.counted, barrier.voters
        barrier.arrived = barrier.counted = barrier.voters = 0
        barrier.expected = None
        barrier.generation += 1
        cta.machine.wake(barrier.waiters)


def _sync(
    warp: Warp, fragment: Fragment, number: int, count: int | None, vote: Array | None = None
) -> NamedBarrier | None:
    """Arrive once, and say whether the generation has ended (the barrier), or block (None)."""
    if fragment.token is None:
        barrier = _arrive_named(warp, fragment, number, count)
        if vote is not None:
            barrier.counted += int(np.count_nonzero(vote & fragment.mask))
            barrier.voters += fragment.count
        fragment.token = barrier, barrier.generation
        settle_named(warp.cta, barrier)
    barrier, generation = fragment.token
    if barrier.generation != generation:
        fragment.token = None
        return barrier if isinstance(barrier, NamedBarrier) else None
    barrier.waiters.append((warp, fragment))
    expected = barrier.expected
    fragment.blocked = Waiting(
        Reason.NAMED,
        f"waits at barrier {number} for {expected} threads, of which {barrier.arrived} came",
        {"barrier": number, "expected": expected, "arrived": barrier.arrived},
    )
    return None


def _counts(operands: tuple[Operand, ...], s: Slots) -> tuple[int, int | None]:
    number = s.read(operands[0], "u32")
    return number, s.read(operands[1], "u32") if len(operands) > 1 else None


def _bar_sync(i: Instruction, m: Modifiers, s: Slots) -> Step:
    number, count = _counts(i.operands, s)
    aligned = i.pieces[0] == "bar" or bool(m["aligned"])

    def run(warp: Warp, fragment: Fragment) -> int:
        threads = None if count is None else _uniform(warp, fragment, count, "thread count")
        done = _sync(warp, fragment, _uniform(warp, fragment, number, "number"), threads)
        return BLOCK if done is None else fragment.pc + 1

    return Ending(run, members=-1 if aligned else None)


def _bar_arrive(i: Instruction, m: Modifiers, s: Slots) -> Step:
    number, count = _counts(i.operands, s)
    aligned = i.pieces[0] == "bar" or bool(m["aligned"])

    def run(warp: Warp, fragment: Fragment) -> int:
        threads = None if count is None else _uniform(warp, fragment, count, "thread count")
        barrier = _arrive_named(warp, fragment, _uniform(warp, fragment, number, "number"), threads)
        settle_named(warp.cta, barrier)
        return fragment.pc + 1

    return Ending(run, members=-1 if aligned else None)


def _bar_red(i: Instruction, m: Modifiers, s: Slots) -> Step:
    op = m["popc"]
    if m["type"] != ("u32" if op == "popc" else "pred"):
        raise Unsupported(i.opcode)
    d = s.write(i.operands[0], 32 if op == "popc" else 1)
    number, count = _counts(i.operands[1:-1], s)
    p, negated = s.predicate(i.operands[-1])

    def run(warp: Warp, fragment: Fragment) -> int:
        regs = warp.regs
        threads = None if count is None else _uniform(warp, fragment, count, "thread count")
        vote = ~regs[p] if negated else regs[p]
        done = _sync(warp, fragment, _uniform(warp, fragment, number, "number"), threads, vote)
        if done is None:
            return BLOCK
        counted, voters = done.result
        if op == "popc":
            value: Array = np.full(LANES, counted, np.uint32)
        else:
            value = np.full(LANES, counted == voters if op == "and" else counted > 0)
        regs[d] = np.where(fragment.mask, value, regs[d])
        return fragment.pc + 1

    return Ending(run, members=-1)


# -- the barrier of a cluster -----------------------------------------------------------------------------------------


def _cluster_arrive(i: Instruction, m: Modifiers, s: Slots) -> Step:
    def run(warp: Warp, fragment: Fragment) -> int:
        cluster = warp.cta.cluster
        if (warp.cluster_phase[fragment.mask] >= cluster.phase).any():
            raise Fault(MachineKind.BARRIER_COUNT, "a thread arrives twice at its cluster's barrier without a wait")
        warp.cluster_phase[fragment.mask] = cluster.phase
        warp.machine.effects += 1
        warp.machine.settle_cluster(cluster)
        return fragment.pc + 1

    return Ending(run, members=-1 if m["aligned"] else None)


def _cluster_wait(i: Instruction, m: Modifiers, s: Slots) -> Step:
    def run(warp: Warp, fragment: Fragment) -> int:
        cluster = warp.cta.cluster
        phases = warp.cluster_phase[fragment.mask]
        if (phases < 0).any():
            raise Fault(MachineKind.BARRIER_COUNT, "a thread waits at its cluster's barrier without an arrival")
        if int(phases.max()) < cluster.phase:
            return fragment.pc + 1
        cluster.waiters.append((warp, fragment))
        facts = {"barrier": "cluster", "phase": cluster.phase}
        fragment.blocked = Waiting(Reason.CLUSTER, "waits at the barrier of its cluster", facts)
        return BLOCK

    return Ending(run, members=-1 if m["aligned"] else None)


# -- mbarrier objects -------------------------------------------------------------------------------------------------


def find_barrier(cta: Cta, offset: int) -> LiveBarrier:
    """The live object at an offset of a CTA's shared memory. Raises Fault."""
    barrier = cta.mbarriers.get(offset)
    if barrier is None:
        address = cta.shared.base + offset
        text = f"no mbarrier object at {cta.machine.shared_name(offset)} ({address:#x}) of {cta}"
        raise Fault(MachineKind.NOT_A_BARRIER, text, address=address, cta=cta.index)
    return barrier


def change(barrier: LiveBarrier, transition: Callable[[Mbarrier], Mbarrier]) -> None:
    """Do a transition, and wake those that wait if the phase ended. Raises Fault for what the rules do not define."""
    before = barrier.value
    try:
        barrier.value = transition(before)
    except MbarrierFault as fault:
        raise Fault(
            MachineKind(fault.kind.value),
            f"mbarrier {barrier.name} of {barrier.cta} in phase {before.phase}: {fault}",
            barrier=barrier.address,
            phase=before.phase,
            pending=before.pending,
            tx=before.tx,
        ) from None
    machine = barrier.cta.machine
    machine.effects += 1
    if barrier.value.phase != before.phase:
        machine.wake(barrier.waiters)


def _lanes(fragment: Fragment) -> list[int]:
    return [int(lane) for lane in np.flatnonzero(fragment.mask)]


def _aligned(address: int) -> int:
    if address % _OBJECT:
        raise Fault(MachineKind.MISALIGNED, f"an mbarrier at {address:#x} is not aligned to 8", address=address)
    return address


def _objects(warp: Warp, fragment: Fragment, addresses: Array, space: str) -> Iterator[tuple[int, LiveBarrier]]:
    """Of every lane its mbarrier object."""
    known: dict[int, LiveBarrier] = {}
    for lane in _lanes(fragment):
        address = int(addresses[lane])
        if address not in known:
            cta, offset = shared_place(warp, _aligned(address), space)
            known[address] = find_barrier(cta, offset)
        yield lane, known[address]


def _space(m: Modifiers, *refused: str) -> str:
    space = m["barrier_space"]
    if space in refused:
        raise Unsupported(f".{space} here")
    return space


def _init(i: Instruction, m: Modifiers, s: Slots) -> Step:
    addresses, count, space = address_of(i.operands[0], s), s.read(i.operands[1], "u32"), _space(m, "shared::cluster")

    def run(warp: Warp, fragment: Fragment) -> int:
        where = addresses(warp.regs)
        for lane in _lanes(fragment):
            cta, offset = shared_place(warp, _aligned(int(where[lane])), space)
            _make(cta, offset, int(warp.regs[count][lane]))
        return fragment.pc + 1

    return Ending(run)


def _make(cta: Cta, offset: int, count: int) -> None:
    name = cta.machine.shared_name(offset)
    span = cta.shared.span(offset, _OBJECT, "mbarrier.init")
    if offset in cta.mbarriers:
        raise Fault(MachineKind.LIVE_BARRIER, f"mbarrier.init on the live object {name} of {cta}", barrier=name)
    if not 1 <= count <= MAX_COUNT:
        text = f"mbarrier.init of {name} with {count} arrivals: outside [1, {MAX_COUNT}]"
        raise Fault(MachineKind.BARRIER_COUNT, text, barrier=name, count=count)
    cta.shared.check_range(span, "mbarrier.init", 0, State.BARRIER | State.INCOMING | State.OUTGOING)
    cta.shared.state[span] = State.BARRIER
    cta.mbarriers[offset] = LiveBarrier(cta, offset, name, Mbarrier.init(count))
    cta.machine.effects += 1


def _inval(i: Instruction, m: Modifiers, s: Slots) -> Step:
    addresses, space = address_of(i.operands[0], s), _space(m, "shared::cluster")

    def run(warp: Warp, fragment: Fragment) -> int:
        for _, barrier in list(_objects(warp, fragment, addresses(warp.regs), space)):
            find_barrier(barrier.cta, barrier.offset)  # a second lane may mean the same object
            del barrier.cta.mbarriers[barrier.offset]
            barrier.cta.shared.state[barrier.offset : barrier.offset + _OBJECT] = 0
            warp.machine.effects += 1
        return fragment.pc + 1

    return Ending(run)


def _tx(i: Instruction, m: Modifiers, s: Slots) -> Step:
    addresses, amount, space = address_of(i.operands[0], s), s.read(i.operands[1], "u32"), _space(m)
    expects = i.pieces[1] == "expect_tx"

    def run(warp: Warp, fragment: Fragment) -> int:
        for lane, barrier in _objects(warp, fragment, addresses(warp.regs), space):
            tx = int(warp.regs[amount][lane])
            change(barrier, partial(Mbarrier.expect if expects else Mbarrier.complete, tx=tx))
        return fragment.pc + 1

    return Ending(run)


def _arrive(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """arrive and arrive_drop, in all forms; the state that it gives is the phase and what was pending."""
    operands = i.operands
    has_state = len(operands) > 1 and not isinstance(operands[0], Address)
    state = s.write(operands[0], 64) if has_state and not isinstance(operands[0], Sink) else None
    rest = operands[1:] if has_state else operands
    if (
        len(rest) not in (1, 2)
        or (m["expect"] and len(rest) != 2)
        or (m["no_complete"] and (len(rest) != 2 or m["expect"]))
    ):
        raise Unsupported(f"{i.opcode} with {len(operands)} operands")
    addresses, space = address_of(rest[0], s), _space(m)
    if state is not None and space == "shared::cluster":
        raise Unsupported("the state of a remote arrival")
    amount = s.read(rest[1], "u32") if len(rest) == 2 else s.constant(1, 32)
    expects, drop, no_complete = bool(m["expect"]), i.pieces[1] == "arrive_drop", bool(m["no_complete"])

    def run(warp: Warp, fragment: Fragment) -> int:
        tokens = warp.regs[state].copy() if state is not None else None
        for lane, barrier in _objects(warp, fragment, addresses(warp.regs), space):
            value = int(warp.regs[amount][lane])
            count, tx = (1, value) if expects else (value, 0)
            if not 1 <= count <= MAX_COUNT:
                text = f"{count} arrivals at {barrier.name}: outside [1, {MAX_COUNT}]"
                raise Fault(MachineKind.BARRIER_COUNT, text, barrier=barrier.address, count=count)
            before = barrier.value
            change(barrier, partial(Mbarrier.arrive, count=count, tx=tx, drop=drop, no_complete=no_complete))
            if tokens is not None:
                tokens[lane] = before.phase << 20 | before.pending
        if state is not None:
            warp.regs[state] = tokens
        return fragment.pc + 1

    return Ending(run)


def _pending_count(i: Instruction, m: Modifiers, s: Slots) -> Step:
    d, a = s.write(i.operands[0], 32), s.read(i.operands[1], "b64")
    low = np.uint64(MAX_COUNT)

    def full(regs: list[Array]) -> None:
        regs[d] = (regs[a] & low).astype(DTYPES[32])

    return pure(full, d)


def _wait(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """test_wait answers at once; try_wait blocks until the phase ends, or until the machine lets its time run out.

    Under the late ordering a try_wait first answers false at once, so that one without a loop is seen (rule 16).
    """
    d = s.write(i.operands[0], 1)
    by_parity = bool(m["parity"])
    addresses, space = address_of(i.operands[1], s), _space(m, "shared::cluster")
    asked = s.read(i.operands[2], "u32" if by_parity else "b64")
    patient = i.pieces[1] == "try_wait"
    if isinstance(i.operands[2], Immediate) and not by_parity:
        raise Unsupported("a state that is an immediate")

    def run(warp: Warp, fragment: Fragment) -> int:
        answers = np.zeros(LANES, np.bool_)
        pairs = list(_objects(warp, fragment, addresses(warp.regs), space))
        for lane, barrier in pairs:
            value = int(warp.regs[asked][lane])
            answers[lane] = _parity(warp, barrier, value) if by_parity else _state(barrier, value)
        if patient and warp.machine.hasty and not fragment.refused and not answers.any():
            fragment.refused = True
        elif patient and not fragment.expired and not answers.any():
            for barrier in dict.fromkeys(barrier for _, barrier in pairs):
                barrier.waiters.append((warp, fragment))
            lane, barrier = pairs[0]
            fragment.blocked = _waiting(warp, barrier, int(warp.regs[asked][lane]), by_parity)
            return BLOCK
        else:
            fragment.expired = fragment.refused = False
        warp.regs[d] = np.where(fragment.mask, answers, warp.regs[d])
        return fragment.pc + 1

    return Ending(run)


def _parity(warp: Warp, barrier: LiveBarrier, value: int) -> bool:
    if value not in (0, 1):
        raise Fault(MachineKind.BARRIER_COUNT, f"a wait on {barrier.name} with parity {value}", parity=value)
    last = warp.meant.get(barrier, -1)
    if barrier.value.answer(value):
        warp.meant[barrier] = last + ((value ^ last) & 1)
        return True
    return False


def _state(barrier: LiveBarrier, token: int) -> bool:
    phase = token >> 20
    if barrier.value.phase - phase not in (0, 1):
        text = f"a wait on {barrier.name} by the state of phase {phase}, while phase {barrier.value.phase} is open"
        raise Fault(MachineKind.STATE_TOKEN, text, barrier=barrier.address, meant=phase, phase=barrier.value.phase)
    return barrier.value.phase > phase


def _waiting(warp: Warp, barrier: LiveBarrier, value: int, by_parity: bool) -> Waiting:
    """What a wait says of itself. `meant` is the first phase of its parity from the last one that the warp saw."""
    now = barrier.value
    last = warp.meant.get(barrier, -1)
    meant = last + ((value ^ last) & 1) if by_parity else value >> 20
    how = f"parity {value}" if by_parity else "by state"
    facts = {
        "barrier": barrier.address,
        "name": barrier.name,
        "cta_of_barrier": barrier.cta.index,
        "meant": meant,
        "parity": value if by_parity else meant & 1,
        "phase": now.phase,
        "pending": now.pending,
        "expected": now.expected,
        "tx": now.tx,
    }
    late = f"; phase {meant} ended long ago" if now.phase - meant > 1 else ""
    text = (
        f"waits on mbarrier {barrier.name} ({barrier.address:#x} of {barrier.cta}) for phase {meant} ({how}), which is "
        f"in phase {now.phase} with {now.pending} of {now.expected} arrivals and {now.tx} bytes pending{late}"
    )
    return Waiting(Reason.MBARRIER, text, facts, suspended=True)


BARRIERS: dict[str, Builder] = {
    **dict.fromkeys(("bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync"), _bar_sync),
    **dict.fromkeys(("bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive"), _bar_arrive),
    "bar.red": _bar_red,
    "barrier.cluster.arrive": _cluster_arrive,
    "barrier.cluster.wait": _cluster_wait,
    "mbarrier.init": _init,
    "mbarrier.inval": _inval,
    **dict.fromkeys(("mbarrier.expect_tx", "mbarrier.complete_tx"), _tx),
    **dict.fromkeys(("mbarrier.arrive", "mbarrier.arrive_drop"), _arrive),
    **dict.fromkeys(("mbarrier.test_wait", "mbarrier.try_wait"), _wait),
    "mbarrier.pending_count": _pending_count,
}
