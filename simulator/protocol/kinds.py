"""The kinds of findings about a protocol."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ProtocolKind"]


class ProtocolKind(StrEnum):
    """What can be wrong with a protocol, most telling first; the rules are those of docs/protocol.md."""

    DEADLOCK = "deadlock"  # threads wait for what cannot come any more
    ARRIVE_OVERFLOW = "arrive-overflow"  # more arrivals than are pending (rule 9)
    TX_RANGE = "tx-range"  # the tx-count leaves its range (rule 2)
    DROP_ALL = "drop-all"  # arrive_drop leaves no arrival to expect (rule 11)
    COMPLETES = "no-complete"  # a .noComplete arrival can complete the phase (rule 12)
    DEAD_BARRIER = "dead-barrier"  # a barrier can be used before its init or after its inval (rule 3)
    LIVE_BARRIER = "live-barrier"  # the bytes of a barrier can be taken for something else while it is in use (rule 3)
    WRONG_BYTES = "wrong-bytes"  # bytes that are announced and bytes that are delivered differ, for good
    WRONG_PARITY = "wrong-parity"  # a wait's parity is not that of the phase that it means (rule 19)
    STALE = "stale"  # a slot is accessed in another version than is meant
    RACE = "race"  # two accesses to a slot, one of them a write, in no order
    UNWRITTEN = "read-before-written"  # a slot is read that nothing was written to
    OVERWRITTEN = "overwritten"  # a slot is written again before anyone read it
    LAPPED = "lapped"  # the phase after the one that is meant can end before the wait looks (rule 20)
    EARLY_WAIT = "early-wait"  # a wait can look while an earlier phase than it means is open, and pass (rule 17)
    DOUBLE_ARRIVAL = "double-arrival"  # a thread arrives on a hardware barrier twice in a phase
    EARLY_TX = "early-tx"  # the phase can end before all its bytes are announced (rule 14)
    WRONG_PHASE = "wrong-phase"  # an arrival, or bytes, can land in an earlier phase than meant (rule 9)
    UNOBSERVED = "unobserved"  # an arrival can come before any wait saw the end of the phase before (rule 15)
    PEER_EXIT = "peer-exit"  # a CTA can be gone while its barriers or slots are still used from outside
    IN_FLIGHT = "in-flight"  # a CTA can be gone while an engine still works on its own slots
    UNREAD = "unread"  # a slot is written and never read: a result that is not stored
    LEFTOVER = "leftover"  # a phase has begun and not ended when all threads are done
    ROLE_MISMATCH = "role-mismatch"  # roles of one worker take different tiles
    UNDECIDED = "undecided"  # the state did not recur within the limit: no verdict for all shapes
