"""When a barrier object is there, in the one run: after its init, before its inval, alone in its bytes (rule 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .clocks import Clock, Stamp, reached
from .kinds import ProtocolKind
from .ops import Barrier, Init, Inval, Slot
from .program import Protocol
from .slot_run import Past, Report

__all__ = ["Lifetimes"]


class Lifetimes:
    """The lives of all barriers of a protocol; those without `Init` are there from the start."""

    def __init__(self, protocol: Protocol, report: Report) -> None:
        self.report = report
        operations = [operation for who in protocol.threads for operation in who.operations]
        self.made = {operation.barrier for operation in operations if isinstance(operation, Init)}
        self.ends: dict[Barrier, set[int]] = {}  # the threads that have an inval
        for thread, who in enumerate(protocol.threads):
            for operation in who.operations:
                if isinstance(operation, Inval):
                    self.ends.setdefault(operation.barrier, set()).add(thread)
        self.sharing: dict[Slot, list[Barrier]] = {}
        for barrier in protocol.barriers:
            if barrier.storage is not None:
                self.sharing.setdefault(barrier.storage, []).append(barrier)
        self.inits: dict[Barrier, Stamp] = {}
        self.invals: dict[Barrier, Stamp] = {}
        self.uses: dict[Barrier, list[tuple[str, list[Stamp]]]] = {barrier: [] for barrier in self.ends}

    def use(self, barrier: Barrier, who: str, clock: Clock, stamps: list[Stamp]) -> None:
        """An arrival, announcement, delivery or inval, begun with `clock`; past when one of `stamps` is reached."""
        self.begin(barrier, who, clock)
        if barrier in self.ends:
            self.uses[barrier].append((who, stamps))

    def passed(self, barrier: Barrier, who: str, stamp: Stamp) -> None:
        """A wait that has begun has passed."""
        if barrier in self.ends:
            self.uses[barrier].append((who, [stamp]))

    def begin(self, barrier: Barrier, who: str, clock: Clock) -> None:
        """Its begin alone: a wait that has not passed yet needs the object, too."""
        if self.made and barrier in self.made and not self._past(self.inits.get(barrier), clock):
            self._dead(barrier, f"{who} can use {barrier.name} before its mbarrier.init")
        if self.invals and barrier in self.invals:
            self._dead(barrier, f"{who} can use {barrier.name} after its mbarrier.inval")

    def init(self, barrier: Barrier, who: str, clock: Clock, stamp: Stamp, before: Iterable[Past]) -> None:
        """mbarrier.init; `before`: the accesses to its storage so far."""
        if barrier in self.inits:
            self._live(barrier, f"{who} initialises {barrier.name}, which was initialised before")
        for other in self.sharing.get(barrier.storage, []) if barrier.storage else []:
            there = other in self.inits or other not in self.made
            if other != barrier and there and not self._past(self.invals.get(other), clock):
                self._live(barrier, f"{who} can initialise {barrier.name} while {other.name} is in the same bytes")
        for past in before:
            if not reached(clock, past.stamps):
                self._live(
                    barrier,
                    f"{past.who} {past.access.mode.value} {past.access.slot.name}, and {who} makes {barrier.name} of "
                    "these bytes: nothing orders the two",
                )
        self.inits.setdefault(barrier, stamp)

    def inval(self, barrier: Barrier, who: str, clock: Clock, stamp: Stamp) -> None:
        """mbarrier.inval."""
        self.use(barrier, f"{who}'s inval", clock, [stamp])
        for user, stamps in self.uses[barrier][:-1]:
            if not reached(clock, stamps):
                self._dead(barrier, f"{who} can invalidate {barrier.name} before {user} is done with it")
        self.invals.setdefault(barrier, stamp)

    def touch(self, slot: Slot, who: str, clock: Clock) -> None:
        """An access to a slot, which must not hold a barrier."""
        for barrier in self.sharing.get(slot, ()):
            there = barrier in self.inits or barrier not in self.made
            if there and not self._past(self.invals.get(barrier), clock):
                self._live(barrier, f"{who} can access {slot.name} while {barrier.name} is in these bytes")

    def open_uses(self, barrier: Barrier, clocks: Sequence[Clock]) -> list[list[Stamp]]:
        """The uses that a thread with an inval of the barrier is not sure to come after yet."""
        ending = [clocks[thread] for thread in self.ends.get(barrier, ())]
        uses = (stamps for _, stamps in self.uses.get(barrier, ()))
        return [stamps for stamps in uses if not all(reached(clock, stamps) for clock in ending)]

    def is_over(self, barrier: Barrier) -> bool:
        """Whether the run has seen its inval: what is left in it does not matter."""
        return barrier in self.invals

    def _past(self, stamp: Stamp | None, clock: Clock) -> bool:
        return stamp is not None and reached(clock, [stamp])

    def _dead(self, barrier: Barrier, text: str) -> None:
        self.report(ProtocolKind.DEAD_BARRIER, barrier.name, f"{text} (docs/protocol.md rule 3)")

    def _live(self, barrier: Barrier, text: str) -> None:
        self.report(ProtocolKind.LIVE_BARRIER, barrier.name, f"{text} (docs/protocol.md rule 3)")
