"""The mbarrier object as a value, and its transitions: rules 2 to 20 of docs/protocol.md, with what an H200 settled.

Phases are absolute counts; hardware keeps the low bit. A transition returns the next value or raises Fault where
the hardware traps or the text says undefined. Hardware barriers (bar.sync) are the same object without bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["MAX_COUNT", "Fault", "FaultKind", "Mbarrier"]

MAX_COUNT = 2**20 - 1
"""Largest arrival count, and largest tx-count in either direction, in bytes (rule 2)."""


class FaultKind(StrEnum):
    """What a transition can do that is undefined, or traps."""

    ARRIVE_OVERFLOW = "arrive-overflow"  # more arrivals than are pending (rule 9; an H200 fails the launch)
    TX_RANGE = "tx-range"  # the tx-count leaves its range (rule 2; an H200 fails the launch)
    DROP_ALL = "drop-all"  # arrive_drop leaves an expected count below 1 (rule 11)
    COMPLETES = "no-complete"  # a .noComplete arrival completes the phase (rule 12)


class Fault(Exception):
    """A transition that the rules do not define; `kind` says which."""

    def __init__(self, kind: FaultKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Mbarrier:
    """State: phase (completed phases), pending arrivals, expected arrivals of the next phase, tx-count in bytes.

    `size`, which hardware does not keep: the arrivals that the open phase takes in all.
    """

    expected: int
    pending: int
    tx: int = 0
    phase: int = 0
    size: int = 0

    @staticmethod
    def init(count: int) -> Mbarrier:
        """mbarrier.init; count in [1, 2^20 - 1] (rule 3), which the caller has checked."""
        return Mbarrier(expected=count, pending=count, size=count)

    def arrive(self, count: int = 1, *, tx: int = 0, drop: bool = False, no_complete: bool = False) -> Mbarrier:
        """Expect `tx` bytes, then arrive (rules 9 to 12); `drop` lowers the expected count of later phases."""
        bytes_due, expected = _in_range(self.tx + tx), self.expected
        if drop:
            if expected - count < 1:
                raise Fault(FaultKind.DROP_ALL, f"expected count {expected} - {count} is below 1")
            expected -= count
        if count > self.pending:
            raise Fault(FaultKind.ARRIVE_OVERFLOW, f"{count} arrivals with {self.pending} pending")
        settled = self._settled(expected, self.pending - count, bytes_due)
        if no_complete and settled.phase != self.phase:
            raise Fault(FaultKind.COMPLETES, "an arrival with .noComplete completes the phase")
        return settled

    def expect(self, tx: int) -> Mbarrier:
        """expect_tx. It completes the phase when it brings T to 0 with none pending (rule 7, settled on an H200)."""
        return self._settled(self.expected, self.pending, _in_range(self.tx + tx))

    def complete(self, tx: int) -> Mbarrier:
        """complete_tx (rule 8); T may be negative for a while (rule 14)."""
        return self._settled(self.expected, self.pending, _in_range(self.tx - tx))

    @property
    def begun(self) -> bool:
        """Whether anything of the open phase has come."""
        return self.pending != self.size or self.tx != 0

    def answer(self, parity: int) -> bool:
        """What try_wait says on this parity, at last: true iff it is not that of the phase that is open (rule 19)."""
        return parity != self.phase & 1

    def _settled(self, expected: int, pending: int, tx: int) -> Mbarrier:
        """Rule 6: with none pending and no bytes outstanding the phase ends."""
        if pending or tx:
            return type(self)(expected, pending, tx, self.phase, self.size)
        return type(self)(expected, expected, 0, self.phase + 1, expected)


def _in_range(tx: int) -> int:
    if not -MAX_COUNT <= tx <= MAX_COUNT:
        raise Fault(FaultKind.TX_RANGE, f"tx-count {tx} is outside ±{MAX_COUNT}")
    return tx
