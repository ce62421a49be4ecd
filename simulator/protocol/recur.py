"""The state of the one-run check, in a form in which two moments can be compared: equal states go on alike.

All that the checker of `ordered` will ever look at again is written down, so that it does not depend on how much came
before. What has settled for good (an old phase, a use of a CTA's memory that is sure to be over) is left out.
docs/any-shape.md says why this is enough.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from .barrier_run import BarrierRun
from .clocks import Stamp, reached
from .mbarrier import Fault
from .ops import Access, AwaitOwn, Barrier, Launch, Operation, Slot, Touch, Wait
from .ordered import Run, Use
from .program import Protocol, Thread
from .slot_run import Past

__all__ = ["Moment", "divergence", "go_on_alike", "moment"]

_RECENT = 2  # phases behind the open one that can still be asked about: a later wait for an older one is a finding
State: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a run stands: no thread can go on without passing its cut, and nothing is wrong so far."""

    at: tuple[int, ...]  # operations that each thread has done
    state: State
    phases: dict[Barrier, int]
    versions: dict[Slot, int]


def moment(protocol: Protocol, cuts: Sequence[int]) -> Moment | None:
    """Run each thread as far as it can go, but not past its cut. None if something is wrong by then."""
    run = Run(protocol)
    run.threads = tuple(
        Thread(who.role, who.operations[:cut], who.cta) for who, cut in zip(run.threads, cuts, strict=True)
    )
    try:
        run.go()
    except Fault:
        return None
    run.check_laps()
    if run.findings:
        return None
    by_state = {
        (number, one.barrier)
        for number, who in enumerate(protocol.threads)
        for one in who.operations
        if isinstance(one, AwaitOwn)
    }
    phases = {barrier: state.value.phase for barrier, state in run.barriers.items()}
    versions = {slot: past.versions for slot, past in run.slots.items()}
    return Moment(tuple(run.at), _Writer(run, by_state).state(), phases, versions)


def divergence(one: Protocol, other: Protocol) -> tuple[int, ...]:
    """For each thread, how many operations the two protocols have in common from the start."""
    return tuple(
        next((at for at, (a, b) in enumerate(zip(x.operations, y.operations, strict=False)) if a != b), _shorter(x, y))
        for x, y in zip(one.threads, other.threads, strict=True)
    )


def _shorter(one: Thread, other: Thread) -> int:
    return min(len(one.operations), len(other.operations))


def go_on_alike(one: Protocol, at_one: Moment, other: Protocol, at_other: Moment) -> bool:
    """Whether the states are equal, and all operations that are left are the same but for the shift between them."""
    known = at_one.phases.keys() <= at_other.phases.keys() and at_one.versions.keys() <= at_other.versions.keys()
    if not known or at_one.state != at_other.state:
        return False
    phases = {barrier: at_other.phases[barrier] - phase for barrier, phase in at_one.phases.items()}
    versions = {slot: at_other.versions[slot] - version for slot, version in at_one.versions.items()}
    for x, y, i, j in zip(one.threads, other.threads, at_one.at, at_other.at, strict=True):
        ahead, ahead_other = x.operations[i:], y.operations[j:]
        if len(ahead) != len(ahead_other):
            return False
        if any(_shifted(a, phases, versions) != _shifted(b, {}, {}) for a, b in zip(ahead, ahead_other, strict=True)):
            return False
    return True


def _shifted(operation: Operation, phases: dict[Barrier, int], versions: dict[Slot, int]) -> Operation:
    """The operation that many phases and versions on; names of engines' work are texts and do not count."""
    match operation:
        case Wait(barrier, phase, parity):
            by = phases.get(barrier, 0)
            return replace(operation, phase=phase + by, parity=parity ^ (by & 1)) if by else operation
        case Touch(access):
            return Touch(_shifted_access(access, versions))
        case Launch(agent):
            accesses = tuple(_shifted_access(access, versions) for access in agent.accesses)
            return Launch(replace(agent, name="", accesses=accesses))
    return operation


def _shifted_access(access: Access, versions: dict[Slot, int]) -> Access:
    by = versions.get(access.slot, 0)
    return access if access.version is None or not by else replace(access, version=access.version + by)


class _Writer:
    """Writes a run's state down. Of clocks and stamps only the order counts, by component: they are never added to, and
    what is to come is later than all that is there. So each becomes a rank among the values that will be asked about.
    """

    def __init__(self, run: Run, by_state: set[tuple[int, Barrier]]) -> None:
        self.run = run
        self.by_state = by_state  # which thread waits by state for which barrier, at any time
        self.components = len(run.clocks[0])
        self.asked: list[list[int]] | None = None  # by component, sorted; None while they are gathered
        self.gathered: list[set[int]] = [set() for _ in range(self.components)]
        self.shared: dict[int, int] = {}
        self.uses = self.open_uses()

    def open_uses(self) -> list[Use]:
        """The uses of a CTA's memory that no thread of the CTA is sure to come after yet: the end of those that one is
        sure to come after is settled, whatever follows."""
        seen = {
            cta: [max(values) for values in zip(*clocks, strict=True)]
            for cta, clocks in self.run.clocks_by_cta().items()
        }
        return [use for use in self.run.uses if use.cta not in seen or not reached(seen[use.cta], use.stamps)]

    def state(self) -> State:
        for state in self.run.barriers.values():
            # Waits, arrivals and signals to come ask about these (a wait for an older phase is a finding).
            self.gathered[state.component].update(state.value.phase + by for by in range(-_RECENT, 2))
        self.write()
        self.asked = [sorted(values) for values in self.gathered]
        return self.write()

    def rank(self, component: int, value: int) -> int:
        """How many of the values that are asked about are not above this one."""
        return 0 if self.asked is None else bisect_right(self.asked[component], value)

    def clock(self, clock: Sequence[int]) -> State:
        return tuple(self.rank(component, value) for component, value in enumerate(clock))

    def stamp(self, stamp: Stamp | None) -> object:
        if stamp is None:
            return None
        component, value = stamp
        self.gathered[component].add(value)
        return component, self.rank(component, value)

    def stamps(self, stamps: list[Stamp]) -> State:
        """With the number of the list if it is that of a group, which grows when the group is joined."""
        return (self.shared.get(id(stamps)), *sorted((self.stamp(stamp) for stamp in stamps), key=repr))

    def groups(self) -> State:
        lists = [(key, one) for key, lists in sorted(self.run.groups.items()) for one in lists]
        self.shared = {id(stamps): number for number, (_, stamps) in enumerate(lists)}
        return tuple((key, self.stamps(stamps)) for key, stamps in lists)

    def pasts(self, pasts: list[Past]) -> State:
        return tuple((past.access.mode, self.stamps(past.stamps)) for past in pasts)

    def write(self) -> State:
        run = self.run
        groups = self.groups()
        slots = tuple(
            (slot.read, slot.versions > 0, self.pasts(slot.writes), self.pasts(slot.reads))
            for slot in run.slots.values()
        )
        uses = tuple(sorted({(use.cta, use.kind, self.stamps(use.stamps)) for use in self.uses}, key=repr))
        clocks = tuple(self.clock(clock) for clock in run.clocks)
        return clocks, tuple(self.barrier(barrier) for barrier in run.barriers), groups, slots, uses, self.lives()

    def barrier(self, barrier: Barrier) -> State:
        state = self.run.barriers[barrier]
        phase = state.value.phase
        recent = range(max(0, phase - _RECENT), phase)
        own = sorted((who, self.run.own.get((who, which), 0)) for who, which in self.by_state if which == barrier)
        return (
            (state.value.expected, state.value.pending, state.value.size, state.value.tx, min(phase, _RECENT)),
            tuple((self.clock(one.clock), self.stamp(one.stamp), one.operation) for one in state.open),
            tuple((self.clock(state.ended[at]), self.all_stamps(state, at)) for at in recent),
            tuple(
                tuple(self.stamp(wait) for wait, _ in state.waits.get(at, ())) for at in range(phase - _RECENT, phase)
            ),
            tuple((who, *self.awaited(state, at)) for who, at in own),
        )

    def all_stamps(self, state: BarrierRun, at: int) -> State:
        """Those of all that made an ended phase."""
        return tuple(self.stamp(one.stamp) for one in state.made_by[at])

    def lives(self) -> State:
        """Which barrier objects are there, and what their ends must come after."""
        lives = self.run.lives
        return tuple(
            (
                self.stamp(lives.inits.get(barrier)),
                self.stamp(lives.invals.get(barrier)),
                tuple(self.stamps(stamps) for stamps in lives.open_uses(barrier, self.run.clocks)),
            )
            for barrier in self.run.barriers
        )

    def awaited(self, state: BarrierRun, at: int) -> State:
        """The phase that a thread may wait for by state, however old: its distance, and what its end comes after."""
        self.gathered[state.component].add(at)
        behind = state.value.phase - at
        return (behind, self.clock(state.ended[at])) if behind else (behind,)
