"""The kinds of findings about a run of a kernel, and the exception that ends a run with one."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from .illegal import Illegal, Unsupported

__all__ = ["Fault", "MachineKind", "legal"]


class MachineKind(StrEnum):
    """What can be wrong with a run, or keep it from being judged."""

    DEADLOCK = "deadlock"  # every thread that is left waits for what cannot come any more
    LIVELOCK = "livelock"  # threads spin, and nothing they do can ever change
    NOT_RESIDENT = "not-resident"  # the same, while CTAs wait for room that the spinning ones hold
    OUT_OF_BOUNDS = "out-of-bounds"  # an address outside the object, or of no object
    MISALIGNED = "misaligned"  # an address that is not a multiple of the access's size
    UNWRITTEN = "never-written"  # a read of bytes that nothing was written to
    IN_FLIGHT = "in-flight"  # an access to bytes that an asynchronous copy still writes or reads
    BARRIER_ACCESS = "barrier-access"  # an ordinary access to a live mbarrier object
    NOT_A_BARRIER = "not-a-barrier"  # an mbarrier operation on bytes that hold none
    LIVE_BARRIER = "live-barrier"  # mbarrier.init on a live object, or another object over one
    BARRIER_COUNT = "barrier-count"  # a count outside the range of rule 2, or of a hardware barrier
    ARRIVE_OVERFLOW = "arrive-overflow"  # more arrivals than are pending (rule 9)
    TX_RANGE = "tx-range"  # the tx-count leaves its range (rule 2)
    DROP_ALL = "drop-all"  # arrive_drop leaves no participant (rule 11)
    COMPLETES = "no-complete"  # a .noComplete arrival completes the phase (rule 12)
    STATE_TOKEN = "state-token"  # a wait by the state of another phase than the current or the last (rule 18)
    LANES = "lanes"  # a warp operation by a lane outside its membermask
    PEER_EXIT = "peer-exit"  # shared memory of a CTA that has ended
    EXIT_IN_FLIGHT = "exit-in-flight"  # a CTA ends while a copy still uses its shared memory
    LEFTOVER = "leftover"  # a phase has begun and not ended when its CTA ends
    BARRIER_CTA = "barrier-cta"  # a copy that signals a barrier of another CTA than that of its data (rule 36)
    TENSOR_MAP = "tensor-map"  # not a tensor map, or one that the copy contradicts
    OVERWRITTEN = "overwritten"  # an accumulator begun anew in cells of which no thread has read the last one
    TENSOR_MEMORY = "tensor-memory"  # against the rules of allocation, or outside of what is allocated or reached
    CANCEL = "cancel"  # try_cancel after a failure was seen, or a query of what is no successful response (rule 52)
    DESCRIPTOR = "descriptor"  # a descriptor of the tensor core that is illegal, or contradicts the instruction
    BULK_SIZE = "bulk-size"  # a bulk copy whose size or address is no multiple of 16
    TRAP = "trap"  # the kernel executed trap
    UNSUPPORTED = "unsupported"  # an instruction that the machine does not know, where it can be reached
    LIMIT = "limit"  # the run was ended by a limit of steps, time or memory


class Fault(Exception):
    """An instruction did what is undefined or wrong; the run ends. `facts` are values by name."""

    def __init__(self, kind: MachineKind, text: str, **facts: object) -> None:
        super().__init__(text)
        self.kind = kind
        self.facts = facts


_Legal = TypeVar("_Legal")


def legal(value: _Legal | Illegal, kind: MachineKind) -> _Legal:
    """The value, unless it is Illegal: then a Fault of `kind`, or of what is not supported."""
    if isinstance(value, Illegal):
        kind = MachineKind.UNSUPPORTED if isinstance(value, Unsupported) else kind
        raise Fault(kind, value.message, field=value.field, value=value.value)
    return value
