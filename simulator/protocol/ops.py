"""The operations of which protocols are made: what a warp does to mbarriers, to storage, and to asynchronous engines.

A role is a generator of these operations. Control must not depend on timing: no operation gives anything back, so a
role is the same list of operations in every interleaving. Rules cited are those of docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .mbarrier import Mbarrier

__all__ = [
    "Access",
    "Agent",
    "Arrive",
    "AwaitOwn",
    "Barrier",
    "BarrierKind",
    "Complete",
    "Expect",
    "Fence",
    "FenceKind",
    "Init",
    "Inval",
    "Join",
    "Launch",
    "Mode",
    "Operation",
    "Scope",
    "Signal",
    "Slot",
    "Space",
    "Touch",
    "Wait",
    "apply",
]


class BarrierKind(Enum):
    """What a barrier object is."""

    MBARRIER = "mbarrier"  # waits by parity; a phase must be observed before an arrival of the next
    HARDWARE = "hardware"  # bar.sync, barrier.cluster: a waiter is released by the phase that it arrived in


class Space(Enum):
    """Where a slot lies: it decides which fence an order between two accesses needs (rules 27 to 30, 42)."""

    SHARED = "shared"  # threads by the generic proxy, engines by the async proxy
    TMEM = "tmem"  # tcgen05 only
    REGISTERS = "registers"  # of a warpgroup; wgmma and its own threads
    DESCRIPTOR = "descriptor"  # a tensor map that threads may change


class Scope(Enum):
    """The scope of an arrival's release or a wait's acquire (rule 22)."""

    CTA = "cta"  # PTX's default, also for arrivals on another CTA's barrier (rule 31)
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Slot:
    """Storage that is written and read as a whole: a stage, an accumulator stage, an epilogue buffer, a CLC answer."""

    name: str
    cta: int = 0
    space: Space = Space.SHARED

    def __hash__(self) -> int:
        return hash((self.name, self.cta))  # quick: it is a key everywhere


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier object in the shared memory of a CTA; `count` arrivals complete a phase.

    It is there from the start to the end, unless the protocol says otherwise with `Init` and `Inval`. `storage`: the
    slot whose bytes it takes, where these serve other purposes before or after; None for bytes of its own.
    """

    name: str
    count: int
    cta: int = 0
    kind: BarrierKind = BarrierKind.MBARRIER
    storage: Slot | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.cta))  # quick: it is a key everywhere


class Mode(Enum):
    """How a slot is accessed."""

    READ = "reads"
    WRITE = "writes"  # a new version; what was there must have been read
    UPDATE = "accumulates into"  # needs a version, keeps it


@dataclass(frozen=True, slots=True)
class Access:
    """An access to a slot; `version` is the write (0, 1, ...) that it means, or None for whatever is there."""

    slot: Slot
    mode: Mode
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A loop of try_wait on `parity` that means the end of `phase` (-1: the wait that a fresh barrier lets pass)."""

    barrier: Barrier
    phase: int
    parity: int
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class Arrive:
    """Arrive `count` times; with `tx` bytes expected first (arrive.expect_tx), on a barrier of any CTA.

    `drop`: arrive_drop, which lowers the count of later phases (rule 11). `no_complete`: .noComplete (rule 12).
    """

    barrier: Barrier
    count: int = 1
    tx: int = 0
    drop: bool = False
    no_complete: bool = False
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class Expect:
    """expect_tx: announce bytes without arriving."""

    barrier: Barrier
    tx: int


@dataclass(frozen=True, slots=True)
class Complete:
    """complete_tx: deliver bytes; what a copy does when its data are there."""

    barrier: Barrier
    tx: int


@dataclass(frozen=True, slots=True)
class AwaitOwn:
    """Wait for the end of the phase in which this thread last arrived on `barrier`: bar.sync, or a wait by state."""

    barrier: Barrier
    scope: Scope = Scope.CTA


@dataclass(frozen=True, slots=True)
class Init:
    """mbarrier.init with the barrier's count: before it there is no object, and no other operation on it (rule 3)."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Inval:
    """mbarrier.inval: the object is gone for good, and its storage is free. What is made of it next is another object,
    another `Barrier` (rule 3)."""

    barrier: Barrier


class FenceKind(Enum):
    """What a fence orders. Fences never change what a protocol does; their absence is a lint."""

    PROXY_ASYNC = "fence.proxy.async"  # rule 28
    MBARRIER_INIT = "fence.mbarrier_init"  # rule 4
    TCGEN05_BEFORE = "tcgen05.fence::before_thread_sync"  # rule 42
    TCGEN05_AFTER = "tcgen05.fence::after_thread_sync"  # rule 42
    WGMMA = "wgmma.fence"  # rule 28
    TENSORMAP_RELEASE = "fence.proxy.tensormap::generic.release"  # rule 30
    TENSORMAP_ACQUIRE = "fence.proxy.tensormap::generic.acquire"  # rule 30


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence of the executing thread."""

    kind: FenceKind


@dataclass(frozen=True, slots=True)
class Touch:
    """An ordinary access by the thread itself."""

    access: Access


Signal: TypeAlias = Arrive | Complete


@dataclass(frozen=True, slots=True)
class Agent:
    """Work of an asynchronous engine: it touches slots at any time from its launch to its end, then signals.

    Agents of one `queue` (a thread's tensor core pipe, in issue order) end one after another; others in any order.
    Signals of one agent may come in any order and at any time after its end.
    """

    name: str
    accesses: tuple[Access, ...] = ()
    signals: tuple[Signal, ...] = ()
    queue: str | None = None
    group: str | None = None
    """For `Join`: a bulk or wgmma group, or a batch of tcgen05.ld; signals do not count."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Hand work to an engine; the thread goes on at once."""

    agent: Agent


@dataclass(frozen=True, slots=True)
class Join:
    """Block until the thread's own agents of these groups have ended (wait_group, tcgen05.wait::ld)."""

    groups: tuple[str, ...]


Operation: TypeAlias = Wait | Arrive | Expect | AwaitOwn | Init | Inval | Fence | Touch | Launch | Join


def apply(value: Mbarrier, operation: Arrive | Expect | Signal) -> Mbarrier:
    """A barrier's value after an operation on it. Raises Fault."""
    match operation:
        case Arrive(_, count, tx, drop, no_complete):
            return value.arrive(count, tx=tx, drop=drop, no_complete=no_complete)
        case Expect(_, tx):
            return value.expect(tx)
        case Complete(_, tx):
            return value.complete(tx)
