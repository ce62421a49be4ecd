"""A slot in the one run: who accessed it, in what order that is sure, and in which version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol as Interface

from .clocks import Clock, Stamp, reached
from .kinds import ProtocolKind
from .ops import Access, Agent, Mode, Slot

__all__ = ["Past", "Report", "SlotRun"]


class Report(Interface):
    """Takes a finding of a kind about a barrier, slot or CTA."""

    def __call__(self, kind: ProtocolKind, about: str, message: str, **facts: object) -> None: ...


@dataclass(slots=True)
class Past:
    """An access that was made, by a thread's operation or by the engine that this launched; its stamps grow as the run
    learns what follows its end."""

    who: str
    access: Access
    stamps: list[Stamp]
    begun: Stamp  # the operation of the thread
    engine: Agent | None = None

    @property
    def by_engine(self) -> bool:
        return self.engine is not None

    @property
    def told_by(self) -> list[str]:
        """What tells of the end of an engine's access."""
        if self.engine is None:
            return []
        signals = [f"{signal.barrier.name}@CTA{signal.barrier.cta}" for signal in self.engine.signals]
        joined = [f"its thread's wait for {self.engine.group}"] if self.engine.group is not None else []
        return [*signals, *joined, *([f"what follows it in {self.engine.queue}"] if self.engine.queue else [])]


@dataclass(slots=True)
class SlotRun:
    """A slot, and what the run knows of it."""

    slot: Slot
    versions: int = 0
    read: bool = True
    writes: list[Past] = field(default_factory=list)  # the last write, and what was accumulated since
    reads: list[Past] = field(default_factory=list)  # since the last write

    def conflicts(self, mode: Mode) -> list[Past]:
        """The accesses that one of this mode must come after."""
        return self.writes if mode is Mode.READ else [*self.writes, *self.reads]

    def check_order(self, past: Past, clock: Clock, report: Report) -> None:
        """Report a race with any earlier access that `past` conflicts with."""
        for other in self.conflicts(past.access.mode):
            if not reached(clock, other.stamps):
                name = self.slot.name
                report(
                    ProtocolKind.RACE,
                    name,
                    f"{past.who} {past.access.mode.value} {name}, and {other.who} {other.access.mode.value} it: "
                    f"nothing orders the two{_told(other) or _told(past)}",
                    roles=[past.who, other.who],
                    told_by=[*past.told_by, *other.told_by],
                )

    def record(self, past: Past, report: Report) -> None:
        """Make the access, and report what is wrong with the version that it finds."""
        self._check_version(past, report)
        if past.access.mode is Mode.WRITE:
            self.versions, self.read = self.versions + 1, False
            self.writes, self.reads = [past], []
        elif past.access.mode is Mode.UPDATE:
            self.writes, self.reads = [past], []  # it comes after them all, and so does what comes after it
            self.read = False
        else:
            self.read = True
            self.reads.append(past)

    def check_read(self, report: Report) -> None:
        """At the end: what was written last must have been read."""
        if not self.read:
            who = self.writes[0].who
            report(ProtocolKind.UNREAD, self.slot.name, f"what {who} wrote to {self.slot.name} is never read", role=who)

    def _check_version(self, past: Past, report: Report) -> None:
        who, access, name = past.who, past.access, self.slot.name
        writes = access.mode is Mode.WRITE
        there = self.versions if writes else self.versions - 1
        if not writes and self.versions == 0:
            report(ProtocolKind.UNWRITTEN, name, f"{who} {access.mode.value} {name}, which was never written", role=who)
        elif access.version is not None and access.version != there:
            report(
                ProtocolKind.STALE,
                name,
                f"{who} {access.mode.value} {name} and means version {access.version}, but it is version {there}",
                role=who,
                meant=access.version,
                actual=there,
            )
        elif writes and not self.read:
            last = self.writes[-1].who
            report(
                ProtocolKind.OVERWRITTEN,
                name,
                f"{who} writes {name} again before anyone read what {last} wrote",
                role=who,
            )


def _told(past: Past) -> str:
    """How one could know that an engine's access is over."""
    if not past.by_engine:
        return ""
    return f" (the end of {past.who} is told by {', '.join(past.told_by) or 'nothing'})"
