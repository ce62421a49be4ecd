"""One run, and what it says of all: happens-before over one execution of a protocol (docs/protocol.md, the theorem).

The run takes every wait by the phase that it means and lets engines end at once. Clocks say what each event is sure to
come after. If every arrival, announcement and delivery is sure to land in the phase where it landed, every wait sure to
look while its phase or the next one is open, and every two conflicting accesses ordered, then every interleaving
behaves as this one did. What is not sure is a finding: some interleaving does otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..findings import Finding
from .barrier_run import BarrierRun
from .clocks import Clock, Stamp, reached
from .kinds import ProtocolKind
from .lifetime import Lifetimes
from .mbarrier import Fault, Mbarrier
from .ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Expect,
    Fence,
    Init,
    Inval,
    Join,
    Launch,
    Mode,
    Operation,
    Signal,
    Touch,
    Wait,
)
from .program import Protocol
from .slot_run import Past, SlotRun
from .stuck import stuck_threads

__all__ = ["Run", "Use", "check_ordered"]


def check_ordered(protocol: Protocol) -> list[Finding]:
    """What is wrong with a protocol in any interleaving: the first finding of each kind and barrier or slot.

    Most telling kinds first. After a fault (a transition that is undefined) nothing more is looked for.
    """
    order = list(ProtocolKind)
    return sorted(Run(protocol).judge(), key=lambda finding: order.index(ProtocolKind(finding.kind)))


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a CTA's memory that must be over before the CTA ends."""

    cta: int
    kind: ProtocolKind
    who: str
    what: Operation | Signal | Access
    stamps: list[Stamp]

    def __str__(self) -> str:
        if isinstance(self.what, Access):
            return f"{self.who} {self.what.mode.value} {self.what.slot.name}"
        return f"{self.who}: {type(self.what).__name__.lower()}"


class _Findings:
    """The first finding of each kind about each barrier or slot. An object of its own, so that barriers that report to
    it do not keep their run: runs are large, and in a cycle they would stay until the next collection."""

    def __init__(self) -> None:
        self._first: dict[tuple[ProtocolKind, str], Finding] = {}

    def report(self, kind: ProtocolKind, about: str, message: str, **facts: object) -> None:
        """Keep the first finding of a kind about a barrier or slot."""
        self._first.setdefault((kind, about), Finding(kind=kind, message=message, facts={"about": about, **facts}))

    def all(self) -> list[Finding]:
        """In the order in which they were found."""
        return list(self._first.values())


class Run:
    """A run, and all that it knows; `recur` compares the moments of runs."""

    def __init__(self, protocol: Protocol) -> None:
        self._findings = _Findings()
        self.report = self._findings.report
        self.threads = protocol.threads
        self.names = [str(who) for who in self.threads]
        self.barriers = {
            barrier: BarrierRun(barrier, len(self.threads) + index, self.report, Mbarrier.init(barrier.count))
            for index, barrier in enumerate(protocol.barriers)
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
        self.slots = {slot: SlotRun(slot) for slot in protocol.slots}
        self.lives = Lifetimes(protocol, self.report)
        self.clocks: list[Clock] = [[0] * (first + len(self.queues)) for _ in self.threads]
        self.at = [0] * len(self.threads)
        self.blocked: dict[int, tuple[BarrierRun, int]] = {}  # by thread, what it waits for and in which phase
        self.own: dict[tuple[int, Barrier], int] = {}
        self.groups: dict[tuple[int, str], list[list[Stamp]]] = {}
        self.uses: list[Use] = []

    @property
    def findings(self) -> list[Finding]:
        """What is wrong so far."""
        return self._findings.all()

    def go(self) -> None:
        """Let every thread go as far as it can. Raises Fault at an undefined step, which is a finding by then."""
        while any(self._advance(thread) for thread in range(len(self.threads))):
            pass

    def clocks_by_cta(self) -> dict[int, list[Clock]]:
        """The clocks of the threads of each CTA that has any."""
        clocks: dict[int, list[Clock]] = {}
        for who, clock in zip(self.threads, self.clocks, strict=True):
            clocks.setdefault(who.cta, []).append(clock)
        return clocks

    def judge(self) -> list[Finding]:
        """Run to the end, a deadlock or a fault, and look at what that leaves."""
        try:
            self.go()
        except Fault:
            self.check_laps()
            return self.findings  # what comes after an undefined step means nothing
        stuck = [thread for thread, who in enumerate(self.threads) if self.at[thread] < len(who.operations)]
        if stuck:
            self._deadlock(stuck)
        for barrier, state in self.barriers.items():
            if not self.lives.is_over(barrier):
                state.check_bytes()
        self.check_laps()
        if not stuck:
            self._check_ends()
        return self.findings

    # -- one thread -----------------------------------------------------------------------------------------------

    def _advance(self, thread: int) -> bool:
        """Run a thread as far as it goes; whether it went at all."""
        if thread in self.blocked:
            barrier, phase = self.blocked[thread]
            if barrier.value.phase <= phase:
                return False
            del self.blocked[thread]
        operations = self.threads[thread].operations
        begin = self.at[thread]
        while self.at[thread] < len(operations) and self._step(thread, operations[self.at[thread]]):
            self.at[thread] += 1
            self.clocks[thread][thread] = self.at[thread]
        return self.at[thread] > begin

    def _step(self, thread: int, operation: Operation) -> bool:
        """Do an operation, or say that it has to wait."""
        clock, who = self.clocks[thread], self.names[thread]
        stamp = (thread, self.at[thread] + 1)
        match operation:
            case Wait(barrier, phase, parity):
                return self._wait(clock, who, stamp, barrier, phase, parity)
            case Launch(agent):
                self._launch(thread, who, list(clock), agent)
            case Arrive() | Expect():
                self._arrive(thread, who, stamp, operation)
            case Fence():
                pass
            case AwaitOwn(barrier):
                return self._wait(clock, who, stamp, barrier, self.own.get((thread, barrier), 0), None)
            case Init(barrier):
                before = self.slots[barrier.storage].conflicts(Mode.WRITE) if barrier.storage in self.slots else []
                self.lives.init(barrier, who, clock, stamp, before)
            case Inval(barrier):
                self.lives.inval(barrier, who, clock, stamp)
            case Touch(access):
                self._access([Past(who, access, [stamp], stamp)], clock)
                self._use_outside(self.threads[thread].cta, access.slot.cta, who, operation, [stamp])
            case Join(groups):
                self._join(thread, stamp, groups)
        return True

    def _arrive(self, thread: int, who: str, stamp: Stamp, operation: Arrive | Expect) -> None:
        barrier = operation.barrier
        if isinstance(operation, Arrive):
            phase = self.barriers[barrier].value.phase
            if barrier.kind is BarrierKind.HARDWARE and self.own.get((thread, barrier)) == phase:
                self.report(
                    ProtocolKind.DOUBLE_ARRIVAL,
                    barrier.name,
                    f"{who} arrives on {barrier.name} for the second time in phase {phase}: its {barrier.count} "
                    "arrivals can be there without those of the others",
                    role=who,
                    phase=phase,
                )
            self.own[thread, barrier] = phase
        event = list(self.clocks[thread])
        event[thread] = stamp[1]
        self.lives.use(barrier, who, event, [stamp])
        self.barriers[barrier].land(who, event, stamp, operation)
        if barrier.kind is BarrierKind.MBARRIER:
            self._use_outside(self.threads[thread].cta, barrier.cta, who, operation, [stamp])

    def _join(self, thread: int, stamp: Stamp, groups: tuple[str, ...]) -> None:
        clock = self.clocks[thread]
        for group in groups:
            for stamps in self.groups.pop((thread, group), []):
                for component, value in stamps:
                    if component >= self.first_queue:  # a queue ends its work in order
                        clock[component] = max(clock[component], value)
                stamps.append(stamp)

    def _wait(self, clock: Clock, who: str, stamp: Stamp, barrier: Barrier, phase: int, parity: int | None) -> bool:
        self.lives.begin(barrier, who, clock)  # before the wait tells of what came before the end of the phase
        if not self.barriers[barrier].wait(clock, who, stamp, phase, parity):
            self.blocked[stamp[0]] = self.barriers[barrier], phase
            return False
        self.lives.passed(barrier, who, stamp)
        return True

    def _use_outside(self, home: int, cta: int, who: str, operation: Operation | Signal, stamps: list[Stamp]) -> None:
        if cta != home:
            self.uses.append(Use(cta, ProtocolKind.PEER_EXIT, who, operation, stamps))

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
        begun = (thread, self.at[thread] + 1)
        self._access([Past(who, access, stamps, begun, agent) for access in agent.accesses], clock)
        for access in agent.accesses:
            kind = ProtocolKind.IN_FLIGHT if access.slot.cta == home else ProtocolKind.PEER_EXIT
            self.uses.append(Use(access.slot.cta, kind, who, access, stamps))
        if agent.queue is not None:
            clock[self.queues[thread, agent.queue]] += 1  # signals come after the agent's end
        for signal in agent.signals:
            state = self.barriers[signal.barrier]
            landed = state.component, state.value.phase + 1
            self.lives.use(signal.barrier, who, clock, [landed])
            state.land(who, clock, None, signal)
            stamps.append(landed)
            self._use_outside(home, signal.barrier.cta, who, signal, [landed])

    def _access(self, pasts: list[Past], clock: Clock) -> None:
        """Accesses that are made as one."""
        for past in pasts:
            self.lives.touch(past.access.slot, past.who, clock)
            self.slots[past.access.slot].check_order(past, clock, self.report)
        for past in pasts:
            self.slots[past.access.slot].record(past, self.report)

    # -- the end --------------------------------------------------------------------------------------------------

    def _deadlock(self, stuck: list[int]) -> None:
        waiting = stuck_threads(
            self.threads,
            self.at,
            {barrier: state.value for barrier, state in self.barriers.items()},
            lambda thread, barrier: self.own.get((thread, barrier), 0),
        )
        shown = "; ".join(one.text for one in waiting)
        self.report(
            ProtocolKind.DEADLOCK,
            "",
            f"{len(stuck)} of {len(self.threads)} threads wait for ever: {shown}",
            waiting=[one.facts for one in waiting],
        )

    def check_laps(self) -> None:
        """Report waits that their barrier can lap; final for every phase that has ended."""
        for state in self.barriers.values():
            state.check_laps()

    def _check_ends(self) -> None:
        for barrier, state in self.barriers.items():
            if not self.lives.is_over(barrier):
                state.check_begun()
        for slot in self.slots.values():
            slot.check_read(self.report)
        clocks = self.clocks_by_cta()
        for use in self.uses:
            if use.cta in clocks and not any(reached(clock, use.stamps) for clock in clocks[use.cta]):
                self.report(use.kind, f"CTA{use.cta}", f"CTA {use.cta} can have ended when {use}")
