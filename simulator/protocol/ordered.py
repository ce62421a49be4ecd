"""One run, and what it says of all: happens-before over one execution of a protocol (docs/protocol.md, the theorem).

The run takes every wait by the phase that it means and lets engines end at once. Clocks say what each event is sure to
come after. If every arrival, announcement and delivery is sure to land in the phase where it landed, every wait sure to
look while its phase or the next one is open, and every two conflicting accesses ordered, then every interleaving
behaves as this one did. What is not sure is a finding: some interleaving does otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..findings import Facts, Finding
from .kinds import ProtocolKind
from .mbarrier import Fault, Mbarrier
from .ops import (
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
    Touch,
    Wait,
)
from .program import Protocol

__all__ = ["BarrierState", "Past", "Run", "Stamp", "check_ordered"]

Clock: TypeAlias = list[int]
"""By component: operations of a thread, ended phases of a barrier, ended agents of a queue that are sure to be past."""

Stamp: TypeAlias = tuple[int, int]
"""A component and a value: who has reached it comes after the event."""


def check_ordered(protocol: Protocol) -> list[Finding]:
    """What is wrong with a protocol in any interleaving: the first finding of each kind and barrier or slot.

    Most telling kinds first. After a fault (a transition that is undefined) nothing more is looked for.
    """
    order = list(ProtocolKind)
    return sorted(Run(protocol).judge(), key=lambda finding: order.index(ProtocolKind(finding.kind)))


def _reached(clock: Clock, stamps: Iterable[Stamp]) -> bool:
    return any(clock[component] >= value for component, value in stamps)


@dataclass(slots=True)
class _Contribution:
    """An arrival, announcement or delivery of a phase; `stamp` is None for an engine, whose progress is not counted."""

    who: str
    clock: Clock
    stamp: Stamp | None
    arrives: bool
    expects: bool


@dataclass(slots=True)
class BarrierState:
    """A barrier, and what the run knows of its phases."""

    barrier: Barrier
    component: int
    value: Mbarrier
    open: list[_Contribution] = field(default_factory=list)
    ended: list[Clock] = field(default_factory=list)  # by phase, what its end is sure to come after
    made_by: list[list[Stamp | None]] = field(default_factory=list)  # by phase, its contributions
    waits: dict[int, list[tuple[Stamp, str]]] = field(default_factory=dict)  # by phase meant, those that have passed

    def surely_ended(self, clock: Clock, phases: int) -> bool:
        """Whether that many phases are sure to be past: it was seen, or all that makes the last of them is past."""
        if clock[self.component] >= phases or phases <= 0:
            return True
        if phases > len(self.made_by):
            return False
        return all(stamp is not None and _reached(clock, [stamp]) for stamp in self.made_by[phases - 1])


@dataclass(slots=True)
class Past:
    """An access that was made; its stamps grow as the run learns what follows its end."""

    who: str
    access: Access
    stamps: list[Stamp]


@dataclass(slots=True)
class _SlotState:
    versions: int = 0
    read: bool = True
    writes: list[Past] = field(default_factory=list)  # the last write, and what was accumulated since
    reads: list[Past] = field(default_factory=list)  # since the last write


@dataclass(frozen=True, slots=True)
class _Use:
    """A use of a CTA's memory that must be over before the CTA ends."""

    cta: int
    kind: ProtocolKind
    what: str
    stamps: list[Stamp]


class Run:
    """A run, and all that it knows; `recur` compares the moments of runs."""

    def __init__(self, protocol: Protocol) -> None:
        self.threads = protocol.threads
        self.barriers = {
            barrier: BarrierState(barrier, len(self.threads) + index, Mbarrier.init(barrier.count))
            for index, barrier in enumerate(protocol.barriers())
        }
        names = {
            (thread, operation.agent.queue): None
            for thread, who in enumerate(self.threads)
            for operation in who.operations
            if isinstance(operation, Launch) and operation.agent.queue is not None
        }
        first = self.first_queue = len(self.threads) + len(self.barriers)
        self.queues = {name: first + index for index, name in enumerate(names)}
        self.queue_length = dict.fromkeys(self.queues, 0)
        self.slots = {slot: _SlotState() for slot in protocol.slots()}
        self.clocks: list[Clock] = [[0] * (first + len(self.queues)) for _ in self.threads]
        self.at = [0] * len(self.threads)
        self.own: dict[tuple[int, Barrier], int] = {}
        self.groups: dict[tuple[int, str], list[list[Stamp]]] = {}
        self.uses: list[_Use] = []
        self.findings: dict[tuple[ProtocolKind, str], Finding] = {}

    def go(self) -> None:
        """Let every thread go as far as it can. Raises Fault at an undefined step, which is a finding by then."""
        while any(self._advance(thread) for thread in range(len(self.threads))):
            pass

    def judge(self) -> list[Finding]:
        """Run to the end, a deadlock or a fault, and look at what that leaves."""
        try:
            self.go()
        except Fault:
            return list(self.findings.values())  # what comes after an undefined step means nothing
        stuck = [thread for thread, who in enumerate(self.threads) if self.at[thread] < len(who.operations)]
        if stuck:
            self._deadlock(stuck)
        self._check_bytes()
        self.check_laps()
        if not stuck:
            self._check_ends()
        return list(self.findings.values())

    def report(self, kind: ProtocolKind, about: str, message: str, **facts: object) -> None:
        """Keep the first finding of a kind about a barrier or slot."""
        self.findings.setdefault((kind, about), Finding(kind=kind, message=message, facts={"about": about, **facts}))

    # -- one thread -----------------------------------------------------------------------------------------------

    def _advance(self, thread: int) -> bool:
        """Run a thread as far as it goes; whether it went at all."""
        operations = self.threads[thread].operations
        begin = self.at[thread]
        while self.at[thread] < len(operations) and self._step(thread, operations[self.at[thread]]):
            self.at[thread] += 1
            self.clocks[thread][thread] = self.at[thread]
        return self.at[thread] > begin

    def _step(self, thread: int, operation: Operation) -> bool:
        """Do an operation, or say that it has to wait."""
        clock, who = self.clocks[thread], str(self.threads[thread])
        stamp = (thread, self.at[thread] + 1)
        match operation:
            case Wait(barrier, phase, parity):
                return self._wait(clock, who, stamp, barrier, phase, parity)
            case AwaitOwn(barrier):
                return self._wait(clock, who, stamp, barrier, self.own.get((thread, barrier), 0), None)
            case Arrive(barrier) | Expect(barrier):
                if isinstance(operation, Arrive):
                    self.own[thread, barrier] = self.barriers[barrier].value.phase
                event = list(clock)
                event[thread] = stamp[1]
                self._land(who, event, stamp, operation)
                if barrier.kind is BarrierKind.MBARRIER:
                    self._use_outside(self.threads[thread].cta, barrier.cta, who, operation, [stamp])
            case Touch(access):
                self._access(who, clock, [access], [stamp])
                self._use_outside(self.threads[thread].cta, access.slot.cta, who, operation, [stamp])
            case Launch(agent):
                self._launch(thread, who, list(clock), agent)
            case Join(groups):
                for group in groups:
                    for stamps in self.groups.pop((thread, group), []):
                        for component, value in stamps:
                            if component >= self.first_queue:  # a queue ends its work in order
                                clock[component] = max(clock[component], value)
                        stamps.append(stamp)
        return True

    def _wait(self, clock: Clock, who: str, stamp: Stamp, barrier: Barrier, phase: int, parity: int | None) -> bool:
        state = self.barriers[barrier]
        if parity is not None and parity != phase & 1:
            self.report(
                ProtocolKind.WRONG_PARITY,
                barrier.name,
                f"{who} waits on {barrier.name} with parity {parity}, but means phase {phase}, whose parity is "
                f"{phase & 1}",
                role=who,
                meant=phase,
                parity=parity,
            )
        if parity is not None and not state.surely_ended(clock, phase):
            self.report(
                ProtocolKind.EARLY_WAIT,
                barrier.name,
                f"{who} can look at {barrier.name} for phase {phase} while phase {phase - 1} is open: the parity is "
                "the same as that of the phase before, so the wait passes at once",
                role=who,
                meant=phase,
            )
        if state.value.phase <= phase:
            return False
        if phase >= 0:
            _merge(clock, state.ended[phase])
        state.waits.setdefault(phase, []).append((stamp, who))
        return True

    def _use_outside(self, home: int, cta: int, who: str, operation: Operation | Signal, stamps: list[Stamp]) -> None:
        if cta != home:
            what = f"{who}: {type(operation).__name__.lower()}"
            self.uses.append(_Use(cta, ProtocolKind.PEER_EXIT, what, stamps))

    # -- engines --------------------------------------------------------------------------------------------------

    def _launch(self, thread: int, who: str, clock: Clock, agent: Agent) -> None:
        """The run lets an engine's work end at once; clocks keep what is sure."""
        who = f"{who}'s {agent.name}"
        stamps: list[Stamp] = []
        clock[thread] = self.at[thread] + 1
        if agent.queue is not None:
            queue = thread, agent.queue
            clock[self.queues[queue]] = self.queue_length[queue]
            self.queue_length[queue] += 1
            stamps.append((self.queues[queue], self.queue_length[queue]))
        if agent.group is not None:
            self.groups.setdefault((thread, agent.group), []).append(stamps)
        home = self.threads[thread].cta
        self._access(who, clock, agent.accesses, stamps)
        for access in agent.accesses:
            kind = ProtocolKind.IN_FLIGHT if access.slot.cta == home else ProtocolKind.PEER_EXIT
            self.uses.append(_Use(access.slot.cta, kind, f"{who} {access.mode.value} {access.slot.name}", stamps))
        if agent.queue is not None:
            clock[self.queues[thread, agent.queue]] += 1  # signals come after the agent's end
        for signal in agent.signals:
            state = self.barriers[signal.barrier]
            landed = state.component, state.value.phase + 1
            self._land(who, clock, None, signal)
            stamps.append(landed)
            self._use_outside(home, signal.barrier.cta, who, signal, [landed])

    # -- barriers -------------------------------------------------------------------------------------------------

    def _land(self, who: str, clock: Clock, stamp: Stamp | None, operation: Arrive | Expect | Signal) -> None:
        state = self.barriers[operation.barrier]
        name, phase = state.barrier.name, state.value.phase
        arrives = isinstance(operation, Arrive)
        if not state.surely_ended(clock, phase):
            what = "arrival" if arrives else "announcement of bytes" if isinstance(operation, Expect) else "delivery"
            self.report(
                ProtocolKind.WRONG_PHASE,
                name,
                f"an {what} of {who} on {name} is for phase {phase} but can come while phase {phase - 1} is open"
                if what != "delivery"
                else f"a delivery of {who} to {name} is for phase {phase} but can come while phase {phase - 1} is open",
                role=who,
                phase=phase,
            )
        if arrives and phase and state.barrier.kind is BarrierKind.MBARRIER:
            seen = state.waits.get(phase - 1, ())
            if not _reached(clock, (wait for wait, _ in seen)):
                self.report(
                    ProtocolKind.UNOBSERVED,
                    name,
                    f"an arrival of {who} on {name} for phase {phase} can come before any wait has seen the end of "
                    f"phase {phase - 1} (docs/protocol.md rule 15)",
                    role=who,
                    phase=phase,
                )
        try:
            value = _apply(state.value, operation)
        except Fault as fault:
            self.report(ProtocolKind(str(fault.kind)), name, f"{who} on {name}, phase {phase}: {fault}", role=who)
            raise
        expects = isinstance(operation, Expect) or (isinstance(operation, Arrive) and operation.tx > 0)
        state.open.append(_Contribution(who, clock, stamp, arrives, expects))
        state.value = value
        if value.phase > phase:
            self._end_phase(state)

    def _end_phase(self, state: BarrierState) -> None:
        arrivals = [one for one in state.open if one.arrives]
        for one in state.open:
            if one.expects and one.stamp and not any(_reached(other.clock, [one.stamp]) for other in arrivals):
                self.report(
                    ProtocolKind.EARLY_TX,
                    state.barrier.name,
                    f"{one.who} announces bytes on {state.barrier.name} that no arrival of phase {len(state.ended)} is "
                    "sure to come after: the phase can end before they are announced (docs/protocol.md rule 14)",
                    role=one.who,
                    phase=len(state.ended),
                )
        clock = [max(values) for values in zip(*(one.clock for one in state.open), strict=True)]
        if state.ended:
            _merge(clock, state.ended[-1])
        clock[state.component] = len(state.ended) + 1
        state.ended.append(clock)
        state.made_by.append([one.stamp for one in state.open])
        state.open = []

    # -- slots ----------------------------------------------------------------------------------------------------

    def _access(self, who: str, clock: Clock, accesses: Iterable[Access], stamps: list[Stamp]) -> None:
        made = [(access, self.slots[access.slot], Past(who, access, stamps)) for access in accesses]
        for access, slot, _ in made:
            before = slot.writes if access.mode is Mode.READ else [*slot.writes, *slot.reads]
            for past in before:
                if not _reached(clock, past.stamps):
                    name = access.slot.name
                    self.report(
                        ProtocolKind.RACE,
                        name,
                        f"{who} {access.mode.value} {name}, and {past.who} {past.access.mode.value} it: nothing orders "
                        "the two",
                        roles=[who, past.who],
                    )
        for access, slot, past in made:
            self._version(who, access, slot)
            if access.mode is Mode.WRITE:
                slot.versions, slot.read = slot.versions + 1, False
                slot.writes, slot.reads = [past], []
            elif access.mode is Mode.UPDATE:
                slot.writes, slot.reads = [past], []  # it comes after them all, and so does what comes after it
            else:
                slot.read = True
                slot.reads.append(past)

    def _version(self, who: str, access: Access, slot: _SlotState) -> None:
        name, writes = access.slot.name, access.mode is Mode.WRITE
        there = slot.versions if writes else slot.versions - 1
        if not writes and slot.versions == 0:
            self.report(ProtocolKind.UNWRITTEN, name, f"{who} {access.mode.value} {name}, which was never written")
        elif access.version is not None and access.version != there:
            self.report(
                ProtocolKind.STALE,
                name,
                f"{who} {access.mode.value} {name} and means version {access.version}, but it is version {there}",
                role=who,
                meant=access.version,
                actual=there,
            )
        elif writes and not slot.read:
            last = slot.writes[-1].who
            self.report(
                ProtocolKind.OVERWRITTEN,
                name,
                f"{who} writes {name} again before anyone read what {last} wrote",
                role=who,
            )

    # -- the end --------------------------------------------------------------------------------------------------

    def _deadlock(self, stuck: list[int]) -> None:
        waiting = []
        for thread in stuck:
            operation = self.threads[thread].operations[self.at[thread]]
            assert isinstance(operation, (Wait, AwaitOwn))  # nothing else blocks once engines end at once
            value = self.barriers[operation.barrier].value
            phase = operation.phase if isinstance(operation, Wait) else self.own.get((thread, operation.barrier), 0)
            waiting.append(
                {
                    "role": str(self.threads[thread]),
                    "operation": self.at[thread],
                    "barrier": operation.barrier.name,
                    "meant": phase,
                    "parity": phase & 1,
                    "phase": value.phase,
                    "pending": value.pending,
                    "tx": value.tx,
                    "could_arrive": self._could_arrive(operation.barrier, stuck),
                }
            )
        shown = "; ".join(_show_waiting(facts) for facts in waiting)
        self.report(
            ProtocolKind.DEADLOCK,
            "",
            f"{len(stuck)} of {len(self.threads)} threads wait for ever: {shown}",
            waiting=waiting,
        )

    def _could_arrive(self, barrier: Barrier, stuck: list[int]) -> list[str]:
        """Stuck threads that would still arrive on, or deliver to, the barrier if they went on."""
        names = []
        for thread in stuck:
            for operation in self.threads[thread].operations[self.at[thread] :]:
                signals = operation.agent.signals if isinstance(operation, Launch) else (operation,)
                if any(isinstance(one, (Arrive, Complete)) and one.barrier == barrier for one in signals):
                    names.append(str(self.threads[thread]))
                    break
        return names

    def _check_bytes(self) -> None:
        for state in self.barriers.values():
            name, tx = state.barrier.name, state.value.tx
            if tx:
                text = (
                    f"{tx} bytes announced and never delivered" if tx > 0 else f"{-tx} bytes delivered, not announced"
                )
                self.report(ProtocolKind.WRONG_BYTES, name, f"{name}, phase {state.value.phase}: {text}", tx=tx)

    def check_laps(self) -> None:
        """Report waits that their barrier can lap; final for every phase that has ended."""
        for state in self.barriers.values():
            if state.barrier.kind is not BarrierKind.MBARRIER:
                continue
            for phase, waits in state.waits.items():
                for stamp, who in waits:
                    if phase + 1 < len(state.ended) and not _reached(state.ended[phase + 1], [stamp]):
                        self.report(
                            ProtocolKind.LAPPED,
                            state.barrier.name,
                            f"{state.barrier.name} can end phase {phase + 1} before {who} has looked for the end of "
                            f"phase {phase}: the parity is then as if phase {phase} were open, and the wait does not "
                            "pass",
                            role=who,
                            meant=phase,
                        )

    def _check_ends(self) -> None:
        for state in self.barriers.values():
            value = state.value
            if value.pending != value.expected and not value.tx:
                text = f"{value.expected - value.pending} of {value.expected} arrivals of phase {value.phase}"
                name = state.barrier.name
                self.report(ProtocolKind.LEFTOVER, name, f"{name}: {text} are left over at the end")
        for slot, past in self.slots.items():
            if not past.read:
                who = past.writes[0].who
                self.report(ProtocolKind.UNREAD, slot.name, f"what {who} wrote to {slot.name} is never read", role=who)
        for use in self.uses:
            clocks = [self.clocks[thread] for thread, who in enumerate(self.threads) if who.cta == use.cta]
            if clocks and not any(_reached(clock, use.stamps) for clock in clocks):
                self.report(use.kind, f"CTA{use.cta}", f"CTA {use.cta} can have ended when {use.what}")


def _apply(value: Mbarrier, operation: Arrive | Expect | Signal) -> Mbarrier:
    if isinstance(operation, Arrive):
        return value.arrive(operation.count, tx=operation.tx)
    return value.expect(operation.tx) if isinstance(operation, Expect) else value.complete(operation.tx)


def _merge(clock: Clock, other: Clock) -> None:
    for index, value in enumerate(other):
        if value > clock[index]:
            clock[index] = value


def _show_waiting(facts: Facts) -> str:
    could = facts["could_arrive"]
    return (
        f"{facts['role']} waits on {facts['barrier']} for phase {facts['meant']} (parity {facts['parity']}), which is "
        f"at phase {facts['phase']} with {facts['pending']} arrivals and {facts['tx']} bytes pending; "
        + (f"still to arrive: {', '.join(could)}" if isinstance(could, list) and could else "nobody is left to arrive")
    )
