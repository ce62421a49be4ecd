"""The operations of which protocols are made: what a warp does to mbarriers, to storage, and to asynchronous engines.

A role is a generator of these operations. Control must not depend on timing: no operation gives anything back, so a
role is the same list of operations in every interleaving. Rules cited are those of docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

__all__ = [
    "Access",
    "Agent",
    "Arrive",
    "AwaitOwn",
    "Barrier",
    "BarrierKind",
    "Complete",
    "Expect",
    "Join",
    "Launch",
    "Mode",
    "Operation",
    "Signal",
    "Slot",
    "Touch",
    "Wait",
]


class BarrierKind(Enum):
    """What a barrier object is."""

    MBARRIER = "mbarrier"  # waits by parity; a phase must be observed before an arrival of the next
    HARDWARE = "hardware"  # bar.sync, barrier.cluster: a waiter is released by the phase that it arrived in


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier object in the shared memory of a CTA; `count` arrivals complete a phase."""

    name: str
    count: int
    cta: int = 0
    kind: BarrierKind = BarrierKind.MBARRIER


@dataclass(frozen=True, slots=True)
class Slot:
    """Storage that is written and read as a whole: a stage, an accumulator stage, an epilogue buffer, a CLC answer."""

    name: str
    cta: int = 0


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


@dataclass(frozen=True, slots=True)
class Arrive:
    """Arrive `count` times; with `tx` bytes expected first (arrive.expect_tx), on a barrier of any CTA."""

    barrier: Barrier
    count: int = 1
    tx: int = 0


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
    """Wait for the end of the phase in which this thread last arrived on `barrier` (bar.sync; a wait by state)."""

    barrier: Barrier


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


Operation: TypeAlias = Wait | Arrive | Expect | AwaitOwn | Touch | Launch | Join
