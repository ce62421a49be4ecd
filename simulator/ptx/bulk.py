"""Plain bulk copies, and the groups by which a thread waits for its copies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from .access import Part, address_of, resolve, shared_place
from .alu import Builder
from .barriers import change, find_barrier
from .engines import Agent, Bytes
from .isa import Modifiers, Unsupported
from .kinds import Fault, MachineKind
from .memory import Region, State
from .program import Immediate, Instruction, Operand
from .slots import BLOCK, Array, Ending, Slots, Step
from .warp import BulkGroups, Cta, Fragment, LiveBarrier, Reason, Waiting, Warp

__all__ = [
    "BULK",
    "check_barrier_place",
    "destinations",
    "read_then_write",
    "signal_step",
    "submit_in_group",
    "wait_for_groups",
]

_UNIT = 16  # bytes: sizes and addresses of bulk copies are multiples of it (rule 38)


def _one(parts: list[Part]) -> tuple[Region, int]:
    region, offsets, _ = parts[0]
    return region, int(offsets[0])


def destinations(warp: Warp, cta: Cta, mask: int | None) -> list[Cta]:
    """The CTAs that a copy goes to: those of a multicast mask, by rank, or the one that the address names."""
    if mask is None:
        return [cta]
    ctas = warp.cta.cluster.ctas
    chosen = [one for one in ctas if mask >> one.rank & 1]
    if not chosen or mask >> len(ctas):
        raise Fault(MachineKind.OUT_OF_BOUNDS, f"multicast mask {mask:#06x} in a cluster of {len(ctas)}", mask=mask)
    for one in chosen:
        if not one.shared.alive:
            raise Fault(MachineKind.PEER_EXIT, f"a multicast copy goes to {one}, which has ended", cta=one.index)
    return chosen


def signal_step(barriers: list[LiveBarrier], size: int) -> Callable[[], None]:
    """The step that completes `size` bytes on each barrier: rule 8."""

    def step() -> None:
        for barrier in barriers:
            find_barrier(barrier.cta, barrier.offset)
            change(barrier, lambda value: value.complete(size))

    return step


def submit_in_group(warp: Warp, lane: int, agent: Agent) -> None:
    """Hand over a copy that the thread's next commit_group takes into its group."""
    warp.group(lane).open.append(agent)
    warp.machine.engines.submit(agent)


def _put(targets: list[Bytes], values: Array, cta: int) -> None:
    for region, span in targets:
        region.data[span] = values
        region.state[span] = State.WRITTEN
        if region.observer is not None:
            offsets = np.arange(region.size)[span] if isinstance(span, slice) else span
            region.observer(cta, offsets, 1)


def _bulk(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """cp.async.bulk between global and shared memory, or from shared memory to a CTA of the cluster."""
    to_shared = m["destination"] != "global"
    signals = m["complete"] != "bulk_group"
    if to_shared != signals or (m["origin"] == "global") == (not to_shared) or m["destination"] == m["origin"]:
        raise Unsupported(i.opcode)
    operands = list(i.operands)
    target, source = address_of(operands[0], s), address_of(operands[1], s)
    size = s.read(operands[2], "u32")
    barrier = address_of(operands[3], s) if signals else None
    rest = operands[4 if signals else 3 :]
    mask = s.read(rest.pop(0), "b16") if m["multicast"] else None
    if len(rest) != bool(m["hint"]):
        raise Unsupported(f"{i.opcode} with {len(operands)} operands")
    from_space, to_space = resolve(m["origin"]), resolve(m["destination"])

    def issue(warp: Warp, lane: int) -> None:
        regs = warp.regs
        count = int(regs[size][lane])
        pick = slice(lane, lane + 1)
        region, offset = _one(from_space(warp, source(regs)[pick]))
        goal, at = _one(to_space(warp, target(regs)[pick]))
        _check_units(count, region.base + offset, goal.base + at)
        read: Bytes = (region, region.span(offset, count, "bulk copy (read)"))
        ctas = [warp.cta]
        if to_shared:
            cta, _ = shared_place(warp, int(target(regs)[lane]), "shared::cluster")
            ctas = destinations(warp, cta, None if mask is None else int(regs[mask][lane]))
            goals = [one.shared for one in ctas]
        else:
            goals = [goal]
        writes: list[Bytes] = [(one, one.span(at, count, "bulk copy (write)")) for one in goals]
        reads = (read,) if m["origin"] != "global" else ()
        if m["origin"] == "global":
            region.check_range(read[1], "bulk copy (read)", State.WRITTEN, State.BARRIER | State.INCOMING)
        if barrier is None:
            steps = read_then_write(
                lambda: region.data[read[1]].copy(), lambda data: _put(writes, data, warp.cta.index)
            )
            submit_in_group(warp, lane, Agent("bulk copy", warp.cta, i, steps, reads, tuple(writes)))
            return
        place, where = shared_place(warp, int(barrier(regs)[lane]), "shared::cluster")
        if mask is None:
            check_barrier_place(ctas[0], place, pair=False)
        objects = [find_barrier(one, where) for one in ctas]
        steps = deque([lambda: _put(writes, region.data[read[1]], warp.cta.index), signal_step(objects, count)])
        warp.machine.engines.submit(Agent("bulk copy", warp.cta, i, steps, reads, tuple(writes), tuple(objects)))

    def run(warp: Warp, fragment: Fragment) -> int:
        for lane in np.flatnonzero(fragment.mask).tolist():
            issue(warp, lane)
        return fragment.pc + 1

    return Ending(run)


def _check_units(size: int, *addresses: int) -> None:
    for value, what in ((size, "size"), *((address, "address") for address in addresses)):
        if value % _UNIT:
            text = f"a bulk copy with {what} {value:#x}, which is not a multiple of {_UNIT}"
            raise Fault(MachineKind.BULK_SIZE, text, **{what: value})


def read_then_write(read: Callable[[], Array], write: Callable[[Array], None]) -> deque[Callable[[], None]]:
    """Two steps, so that a thread may wait for the first (wait_group.read); `read` gives what `write` gets."""
    held: list[Array] = []
    return deque([lambda: held.append(read()), lambda: write(held.pop())])


def check_barrier_place(target: Cta, barrier: Cta, *, pair: bool) -> None:
    """Raise Fault unless a copy's barrier is in the CTA of its data, or for a pair in that CTA's pair (rule 36)."""
    if barrier is not target and not (pair and barrier.rank ^ 1 == target.rank):
        text = f"a copy to {target} signals an mbarrier of {barrier}"
        raise Fault(MachineKind.BARRIER_CTA, text, target=target.index, barrier_cta=barrier.index)


def _commit(i: Instruction, m: Modifiers, s: Slots) -> Step:
    def run(warp: Warp, fragment: Fragment) -> int:
        for lane in np.flatnonzero(fragment.mask).tolist():
            warp.group(lane).commit()
        return fragment.pc + 1

    return Ending(run)


def _literal(operand: Operand) -> int:
    if not isinstance(operand, Immediate):
        raise Unsupported("a group count that is not an immediate")
    return operand.value


def wait_for_groups(warp: Warp, fragment: Fragment, groups: BulkGroups, keep: int, *, reading: bool) -> int:
    """Go on once all but the last `keep` groups have ended, or have read their sources; else BLOCK."""
    committed = groups.committed
    due = committed[: max(0, len(committed) - keep)]
    left = [one for group in due for one in group if not (one.done or (reading and one.has_read))]
    if left:
        left[0].waiters.append((warp, fragment))
        facts = {"groups": len(due), "left": len(left)}
        fragment.blocked = Waiting(Reason.GROUP, f"waits for {len(left)} of its {left[0].name}", facts)
        return BLOCK
    while committed and all(one.done for one in committed[0]):  # a later group may not hide an earlier one
        committed.pop(0)
    return fragment.pc + 1


def _wait_group(i: Instruction, m: Modifiers, s: Slots) -> Step:
    keep, reading = _literal(i.operands[0]), bool(m["read"])

    def run(warp: Warp, fragment: Fragment) -> int:
        for lane in np.flatnonzero(fragment.mask).tolist():
            if wait_for_groups(warp, fragment, warp.group(lane), keep, reading=reading) == BLOCK:
                return BLOCK
        return fragment.pc + 1

    return Ending(run)


BULK: dict[str, Builder] = {
    "cp.async.bulk": _bulk,
    "cp.async.bulk.commit_group": _commit,
    "cp.async.bulk.wait_group": _wait_group,
}
