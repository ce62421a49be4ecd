"""A barrier in the one run: what landed in which phase, who waits for what, and whether that is sure to be so."""

from __future__ import annotations

from dataclasses import dataclass, field

from .clocks import Clock, Stamp, merge, reached
from .kinds import ProtocolKind
from .mbarrier import Fault, FaultKind, Mbarrier
from .ops import Arrive, Barrier, BarrierKind, Complete, Expect, Signal, apply
from .slot_run import Report

__all__ = ["BarrierRun", "Contribution"]


@dataclass(slots=True)
class Contribution:
    """An arrival, announcement or delivery of a phase; `stamp` is None for an engine, whose progress is not counted."""

    who: str
    clock: Clock
    stamp: Stamp | None
    operation: Arrive | Expect | Signal

    @property
    def arrives(self) -> bool:
        return isinstance(self.operation, Arrive)

    @property
    def expects(self) -> bool:
        return self.operation.tx > 0 and not isinstance(self.operation, Complete)

    @property
    def must_not_complete(self) -> bool:
        return isinstance(self.operation, Arrive) and self.operation.no_complete

    def keeps_open(self) -> bool:
        """Whether the phase cannot end before it: it arrives, or brings bytes that are announced."""
        return self.arrives or (isinstance(self.operation, Complete) and self.operation.tx > 0)


@dataclass(slots=True)
class BarrierRun:
    """A barrier, and what the run knows of its phases."""

    barrier: Barrier
    component: int
    report: Report
    value: Mbarrier
    open: list[Contribution] = field(default_factory=list)
    ended: list[Clock] = field(default_factory=list)  # by phase, what its end is sure to come after
    made_by: list[list[Contribution]] = field(default_factory=list)  # by phase, what was part of it
    waits: dict[int, list[tuple[Stamp, str]]] = field(default_factory=dict)  # by phase meant, those that have passed

    def surely_ended(self, clock: Clock, phases: int) -> bool:
        """Whether that many phases are sure to be past: it was seen, or all that makes the last of them is past."""
        if clock[self.component] >= phases or phases <= 0:
            return True
        if phases > len(self.made_by):
            return False
        return all(one.stamp is not None and reached(clock, (one.stamp,)) for one in self.made_by[phases - 1])

    # -- waits ----------------------------------------------------------------------------------------------------

    def wait(self, clock: Clock, who: str, stamp: Stamp, phase: int, parity: int | None) -> bool:
        """Pass a wait for the end of `phase`, by parity or (None) by state; False if the phase is open."""
        if parity is not None:
            self._check_wait(clock, who, phase, parity)
        if self.value.phase <= phase:
            return False
        if phase >= 0:
            merge(clock, self.ended[phase])
        self.waits.setdefault(phase, []).append((stamp, who))
        return True

    def _check_wait(self, clock: Clock, who: str, phase: int, parity: int) -> None:
        name = self.barrier.name
        if parity != phase & 1:
            self.report(
                ProtocolKind.WRONG_PARITY,
                name,
                f"{who} waits on {name} with parity {parity}, but means phase {phase}, whose parity is {phase & 1}: it "
                f"passes at once while phase {phase} is open, and not when it has ended (docs/protocol.md rule 19)",
                role=who,
                meant=phase,
                parity=parity,
            )
        if not self.surely_ended(clock, phase):
            self.report(
                ProtocolKind.EARLY_WAIT,
                name,
                f"{who} can look at {name} for phase {phase} while phase {phase - 1} is open: the parity is the same "
                "as that of the phase before, so the wait passes at once (docs/protocol.md rule 17)",
                role=who,
                meant=phase,
            )

    def check_laps(self) -> None:
        """Report waits that the barrier can lap; final for every phase that has ended."""
        if self.barrier.kind is not BarrierKind.MBARRIER:
            return
        for phase, waits in self.waits.items():
            for stamp, who in waits:
                if phase + 1 < len(self.ended) and not reached(self.ended[phase + 1], [stamp]):
                    self._lapped(phase, who)

    def _lapped(self, phase: int, who: str) -> None:
        name = self.barrier.name
        made = list(dict.fromkeys(one.who for one in self.made_by[phase + 1]))
        self.report(
            ProtocolKind.LAPPED,
            name,
            f"{name} can end phase {phase + 1} before {who} has looked for the end of phase {phase}: the parity is "
            f"then as if phase {phase} were open, and the wait does not pass; nothing leads from the wait to what ends "
            f"phase {phase + 1} ({', '.join(made)}) (docs/protocol.md rule 20)",
            role=who,
            meant=phase,
            made_by=made,
        )

    # -- what lands -----------------------------------------------------------------------------------------------

    def land(self, who: str, clock: Clock, stamp: Stamp | None, operation: Arrive | Expect | Signal) -> None:
        """An arrival, announcement or delivery. Raises Fault where it is undefined, which is a finding by then."""
        phase = self.value.phase
        one = Contribution(who, clock, stamp, operation)
        if not self.surely_ended(clock, phase):
            self._wrong_phase(one, phase)
        if one.arrives and phase and self.barrier.kind is BarrierKind.MBARRIER:
            self._check_observed(one, phase)
        try:
            value = apply(self.value, operation)
        except Fault as fault:
            self.report(
                ProtocolKind(str(fault.kind)),
                self.barrier.name,
                f"{who} on {self.barrier.name}, phase {phase}: {fault}{self._who_arrived(fault)}",
                role=who,
                phase=phase,
            )
            raise
        self.open.append(one)
        self.value = value
        if value.phase > phase:
            self._end_phase()

    def _who_arrived(self, fault: Fault) -> str:
        if fault.kind is not FaultKind.ARRIVE_OVERFLOW:
            return ""
        made = list(dict.fromkeys(one.who for one in self.open if one.arrives))
        return f" (its count is {self.barrier.count}; arrived before: {', '.join(made) or 'nobody'})"

    def _wrong_phase(self, one: Contribution, phase: int) -> None:
        name = self.barrier.name
        article, what = "an", "arrival"
        if not one.arrives:
            article, what = ("an", "announcement of bytes") if isinstance(one.operation, Expect) else ("a", "delivery")
        made = [other.who for other in self.made_by[phase - 1]]
        often = {who: f" {made.count(who)} times" if made.count(who) > 1 else "" for who in made}
        shown = ", ".join(who + times for who, times in often.items())
        self.report(
            ProtocolKind.WRONG_PHASE,
            name,
            f"{article} {what} of {one.who} on {name} can land in phase {phase - 1} or in phase {phase}: nothing "
            f"orders it after what ends phase {phase - 1} in one run ({shown}) (docs/protocol.md rule 9)",
            role=one.who,
            phase=phase,
            made_by=made,
        )

    def _check_observed(self, one: Contribution, phase: int) -> None:
        if reached(one.clock, (wait for wait, _ in self.waits.get(phase - 1, ()))):
            return
        name = self.barrier.name
        self.report(
            ProtocolKind.UNOBSERVED,
            name,
            f"an arrival of {one.who} on {name} for phase {phase} can come before any wait has seen the end of phase "
            f"{phase - 1} (docs/protocol.md rule 15)",
            role=one.who,
            phase=phase,
        )

    def _end_phase(self) -> None:
        name, phase = self.barrier.name, len(self.ended)
        for one in self.open:
            if not one.expects and not one.must_not_complete:
                continue
            after = [other for other in self.open if one.stamp and reached(other.clock, [one.stamp])]
            if one.expects and one.stamp and not any(other.arrives for other in after):
                self.report(
                    ProtocolKind.EARLY_TX,
                    name,
                    f"{one.who} announces bytes on {name} that no arrival of phase {phase} is sure to come after: the "
                    "phase can end before they are announced (docs/protocol.md rule 14)",
                    role=one.who,
                    phase=phase,
                )
            if one.must_not_complete and not any(other.keeps_open() for other in after if other is not one):
                self.report(
                    ProtocolKind.COMPLETES,
                    name,
                    f"a .noComplete arrival of {one.who} on {name} can be what ends phase {phase}: no other part of "
                    "the phase is sure to come after it (docs/protocol.md rule 12)",
                    role=one.who,
                    phase=phase,
                )
        clock = [max(values) for values in zip(*(one.clock for one in self.open), strict=True)]
        if self.ended:
            merge(clock, self.ended[-1])
        clock[self.component] = phase + 1
        self.ended.append(clock)
        self.made_by.append(self.open)
        self.open = []

    # -- the end --------------------------------------------------------------------------------------------------

    def check_bytes(self) -> None:
        """Bytes that were announced and not delivered, or the other way round, for good."""
        name, tx = self.barrier.name, self.value.tx
        if tx:
            text = f"{tx} bytes announced and never delivered" if tx > 0 else f"{-tx} bytes delivered, not announced"
            self.report(ProtocolKind.WRONG_BYTES, name, f"{name}, phase {self.value.phase}: {text}", tx=tx)

    def check_begun(self) -> None:
        """A phase that has begun must have ended."""
        value, name = self.value, self.barrier.name
        if value.begun and not value.tx:
            text = f"{value.size - value.pending} of {value.size} arrivals of phase {value.phase}"
            self.report(ProtocolKind.LEFTOVER, name, f"{name}: {text} are left over at the end")
