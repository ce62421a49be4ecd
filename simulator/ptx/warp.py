"""Threads: clusters of CTAs, CTAs of warps, and a warp's fragments: lanes that are at the same instruction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ..protocol.mbarrier import Mbarrier
from .memory import Region
from .slots import LANES, Array, Regs

if TYPE_CHECKING:
    from .engines import Agent
    from .machine import Machine
    from .tensorcore import TensorMemory
    from .tmem import Cells

__all__ = ["BulkGroups", "Cluster", "Cta", "Fragment", "LiveBarrier", "NamedBarrier", "Reason", "Waiting", "Warp"]

_LOOPS = 256  # backward jumps of a fragment before another one of its warp has its turn


class Reason(Enum):
    """What a fragment waits for."""

    CONVERGE = "other lanes of its warp"
    MBARRIER = "an mbarrier"
    NAMED = "a barrier of its CTA"
    CLUSTER = "the barrier of its cluster"
    GROUP = "its copies, or its wgmma"
    COLUMNS = "columns of tensor memory"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a fragment is blocked; `facts` are for a report of a hang."""

    reason: Reason
    text: str
    facts: Mapping[str, object] = field(default_factory=dict)
    suspended: bool = False  # a try_wait, which may give up after a time and answer false


@dataclass(slots=True, eq=False)
class Fragment:
    """Lanes of a warp that go on together from instruction `pc`."""

    pc: int
    mask: Array
    count: int
    blocked: Waiting | None = None
    token: Any = None  # what a barrier gave to a fragment that has arrived and waits
    expired: bool = False  # a suspended wait has run into its time limit
    refused: bool = False  # its wait was answered false at once, as the late ordering does the first time
    loops: int = 0


class Warp:
    """32 lanes with registers; `live` are those that have not ended."""

    def __init__(self, machine: Machine, cta: Cta, index: int, regs: Regs, live: Array) -> None:
        self.machine = machine
        self.cta = cta
        self.index = index
        self.regs = regs
        regs[0] = self
        self.live = live
        self.live_count = int(np.count_nonzero(live))
        self.fragments = [Fragment(0, live, self.live_count)]
        self.queued = False
        self.cluster_phase = np.full(LANES, -1, np.int64)  # the phase of the cluster barrier each lane arrived in
        self.meant: dict[LiveBarrier, int] = {}  # by barrier, the phase of the last wait
        self.groups: dict[int, BulkGroups] = {}  # by lane
        self.wgmma = BulkGroups()
        self.tmem_loads: list[Cells] = []  # without wait::ld so far
        self.idle = 0
        self.effects = -1
        self.saved = b""
        self.looping = False

    def pick(self) -> Fragment | None:
        """The fragment to go on with: the least instruction, so that lanes meet again; spinning ones take turns."""
        if len(self.fragments) > 1:
            self._merge()
        runnable = [one for one in self.fragments if one.blocked is None]
        if not runnable:
            return None
        best = min(runnable, key=lambda one: one.pc)
        if best.loops >= _LOOPS and len(runnable) > 1:
            best.loops = 0
            return min((one for one in runnable if one is not best), key=lambda one: one.pc)
        return best

    def split(self, fragment: Fragment, chosen: Array, pc: int, other_pc: int) -> None:
        """Send the lanes `chosen` to `pc` and the rest of the fragment to `other_pc`."""
        rest = fragment.mask & ~chosen
        count = int(np.count_nonzero(chosen))
        self.fragments.append(Fragment(pc, chosen, count, loops=fragment.loops))
        fragment.mask, fragment.count, fragment.pc = rest, fragment.count - count, other_pc

    def end(self, fragment: Fragment) -> None:
        """The lanes of a fragment have ended."""
        self.fragments.remove(fragment)
        self.live = self.live & ~fragment.mask
        self.live_count -= fragment.count
        for other in self.fragments:  # what they wait for has become less
            if other.blocked is not None and other.blocked.reason is Reason.CONVERGE:
                other.blocked = None
        self.machine.lanes_ended(self)

    def signature(self) -> bytes:
        """What the warp's next steps depend on, apart from memory and barriers."""
        digest = hashlib.blake2b(digest_size=16)
        for value in self.regs[1 : 1 + self.machine.registers]:
            if value is not None:
                digest.update(value.tobytes())
        several = sum(one.blocked is None for one in self.fragments) > 1
        for one in self.fragments:
            loops = min(one.loops, _LOOPS) if several else 0  # else it decides nothing
            digest.update(f"{one.pc} {one.blocked is None} {loops}".encode() + one.mask.tobytes())
        return digest.digest()

    def group(self, lane: int) -> BulkGroups:
        """The bulk groups of a lane's thread."""
        return self.groups.setdefault(lane, BulkGroups())

    def _merge(self) -> None:
        """Join fragments that are at the same instruction and do not wait for anything but each other."""
        at: dict[int, Fragment] = {}
        for one in list(self.fragments):
            if one.token is not None or not (one.blocked is None or one.blocked.reason is Reason.CONVERGE):
                continue
            first = at.setdefault(one.pc, one)
            if first is not one:
                first.mask, first.count = first.mask | one.mask, first.count + one.count
                first.loops = max(first.loops, one.loops)
                first.blocked = None
                self.fragments.remove(one)


@dataclass(slots=True, eq=False)
class BulkGroups:
    """Copies of a thread, or wgmma of a warp: those not committed yet, and groups in the order of their commits."""

    open: list[Agent] = field(default_factory=list)
    committed: list[list[Agent]] = field(default_factory=list)

    def commit(self) -> None:
        """Make a group of those that are open."""
        self.committed.append(self.open)
        self.open = []


@dataclass(slots=True, eq=False)
class LiveBarrier:
    """An mbarrier object in the shared memory of a CTA."""

    cta: Cta
    offset: int
    name: str
    value: Mbarrier
    waiters: list[tuple[Warp, Fragment]] = field(default_factory=list)

    @property
    def address(self) -> int:
        """Its address in the shared window."""
        return self.cta.shared.base + self.offset


@dataclass(slots=True, eq=False)
class NamedBarrier:
    """One of the 16 barriers of a CTA; `arrived` and `expected` count threads, by warps of 32."""

    arrived: int = 0
    expected: int | None = None
    everybody: bool = False  # no thread count was given
    generation: int = 0
    partial: dict[int, Array] = field(default_factory=dict)
    waiters: list[tuple[Warp, Fragment]] = field(default_factory=list)
    counted: int = 0  # true predicates of bar.red in this generation, and threads that gave one
    voters: int = 0
    result: tuple[int, int] = (0, 0)  # both, of the last generation


@dataclass(slots=True, eq=False)
class Cta:
    """A CTA that is resident, or has been."""

    machine: Machine
    index: int
    ctaid: tuple[int, int, int]
    rank: int
    cluster: Cluster
    shared: Region
    warps: list[Warp] = field(default_factory=list)
    live_warps: int = 0
    mbarriers: dict[int, LiveBarrier] = field(default_factory=dict)
    named: dict[int, NamedBarrier] = field(default_factory=dict)
    tmem: TensorMemory | None = None
    declined: bool = False  # it has seen that a request of cluster launch control failed

    def __str__(self) -> str:
        return f"CTA {self.index}"


@dataclass(slots=True, eq=False)
class Cluster:
    """CTAs that started together, and their barrier."""

    index: int
    ctas: list[Cta] = field(default_factory=list)
    phase: int = 0
    waiters: list[tuple[Warp, Fragment]] = field(default_factory=list)
