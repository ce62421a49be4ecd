"""Protocols: barriers, and threads that are lists of operations. A thread stands for the warps that act as one."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from ..errors import InputError
from .mbarrier import MAX_COUNT
from .operation_types import OperationTypes
from .ops import (
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Expect,
    Init,
    Inval,
    Launch,
    Operation,
    Slot,
    Touch,
    Wait,
)

__all__ = ["MAX_OPERATIONS", "Protocol", "Thread", "thread"]

MAX_OPERATIONS = 1_000_000
"""Operations of all threads of a protocol; more are refused rather than judged in part."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A role's warp (or warps that act as one), in a CTA, with all that it does in order."""

    role: str
    operations: tuple[Operation, ...]
    cta: int = 0

    def __str__(self) -> str:
        return f"{self.role}@CTA{self.cta}"


def thread(role: str, operations: Iterable[Operation], cta: int = 0) -> Thread:
    """Run a role's generator to its end. Raises InputError if that is not within MAX_OPERATIONS."""
    taken = tuple(islice(operations, MAX_OPERATIONS + 1))
    if len(taken) > MAX_OPERATIONS:
        raise InputError(f"role={role!r} has more than {MAX_OPERATIONS} operations")
    return Thread(role, taken, cta)


@dataclass(frozen=True)
class Protocol:
    """A kernel's synchronisation for one problem. Raises InputError when a count or size is out of its range."""

    name: str
    threads: tuple[Thread, ...]

    def __post_init__(self) -> None:
        total = sum(len(item.operations) for item in self.threads)
        if total > MAX_OPERATIONS:
            raise InputError(f"operations={total} is outside [0, {MAX_OPERATIONS}]")
        types = OperationTypes()
        for item in self.threads:
            _check_thread(item, types)
        names: dict[tuple[str, int], Barrier] = {}
        for barrier in self.barriers:
            if not 1 <= barrier.count <= MAX_COUNT:
                raise InputError(f"barrier {barrier.name}: count={barrier.count} is outside [1, {MAX_COUNT}]")
            if names.setdefault((barrier.name, barrier.cta), barrier) != barrier:
                raise InputError(f"barrier {barrier.name} of CTA {barrier.cta} is used with two counts or kinds")
        self._check_shared_bytes()
        if not self.threads:
            raise InputError(f"protocol={self.name!r} has no threads")

    def _check_shared_bytes(self) -> None:
        """Of barriers in the same bytes all but one must be made by `Init`: the others are there from the start."""
        made = {one.barrier for who in self.threads for one in who.operations if isinstance(one, Init)}
        first: dict[Slot, Barrier] = {}
        for barrier in self.barriers:
            if barrier.storage is None:
                continue
            if barrier.storage.cta != barrier.cta:
                raise InputError(
                    f"barrier {barrier.name} of CTA {barrier.cta} is in bytes of CTA {barrier.storage.cta}"
                )
            if barrier not in made and first.setdefault(barrier.storage, barrier) != barrier:
                other = first[barrier.storage]
                raise InputError(f"barriers {other.name} and {barrier.name} are in the same bytes and have no Init")

    @cached_property
    def barriers(self) -> tuple[Barrier, ...]:
        """All barriers that any thread or engine touches, in order of first use."""
        found: dict[Barrier, None] = {}
        for item in self.threads:
            for operation in item.operations:
                if isinstance(operation, Launch):
                    found.update((signal.barrier, None) for signal in operation.agent.signals)
                elif isinstance(operation, (Wait, Arrive, Expect, AwaitOwn, Init, Inval)):
                    found[operation.barrier] = None
        return tuple(found)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """All slots that any thread or engine touches, in order of first use."""
        found: dict[Slot, None] = {}
        for item in self.threads:
            for operation in item.operations:
                if isinstance(operation, Touch):
                    found[operation.access.slot] = None
                elif isinstance(operation, Launch):
                    found.update((access.slot, None) for access in operation.agent.accesses)
        return tuple(found)


def _check_thread(who: Thread, types: OperationTypes) -> None:
    """Raise InputError for what is no operation, and for an operation that has no meaning."""
    arrived = set[Barrier]()
    for place, operation in enumerate(who.operations):
        if not types.is_operation(operation):
            shown = f"{type(operation).__name__} {reprlib.repr(operation)}"
            raise InputError(f"{who}: number {place} of what it yields is no operation, but {shown}")
        match operation:
            case Arrive(barrier, count, tx, drop, no_complete):
                arrived.add(barrier)
                _require(who, barrier, count, tx)
                if barrier.kind is BarrierKind.HARDWARE and (tx or drop or no_complete):
                    raise InputError(f"{who} on {barrier.name}: a hardware barrier takes neither bytes nor drops")
            case Expect(barrier, tx):
                _require(who, barrier, 1, tx, least_tx=1)
                _require_mbarrier(who, barrier, "bytes")
            case Launch(agent):
                _check_signals(who, agent)
            case AwaitOwn(barrier):
                if barrier not in arrived:
                    raise InputError(f"{who} waits for its own arrival on {barrier.name} before it has arrived")
                if barrier.kind is BarrierKind.MBARRIER:
                    _require_own_cta(who, barrier)
            case Wait(barrier, phase):
                if phase < -1:
                    raise InputError(f"{who} waits on {barrier.name}: phase={phase} is below -1")
                _require_mbarrier(who, barrier, "waits by parity")
                _require_own_cta(who, barrier)
            case Init(barrier) | Inval(barrier):
                _require_mbarrier(who, barrier, "init or inval")
                _require_own_cta(who, barrier)


def _check_signals(who: Thread, agent: Agent) -> None:
    for signal in agent.signals:
        if isinstance(signal, Arrive):
            _require(who, signal.barrier, signal.count, signal.tx)
            if signal.drop or signal.no_complete:
                raise InputError(f"{who}: {agent.name} arrives on {signal.barrier.name}: no engine has that form")
        else:
            _require(who, signal.barrier, 1, signal.tx, least_tx=1)
            _require_mbarrier(who, signal.barrier, "bytes")


def _require_mbarrier(who: Thread, barrier: Barrier, what: str) -> None:
    if barrier.kind is not BarrierKind.MBARRIER:
        raise InputError(f"{who}: {barrier.name} is no mbarrier: it has no {what}")


def _require(who: Thread, barrier: Barrier, count: int, tx: int, *, least_tx: int = 0) -> None:
    if not 1 <= count <= MAX_COUNT:
        raise InputError(f"{who} on {barrier.name}: count={count} is outside [1, {MAX_COUNT}]")
    if not least_tx <= tx <= MAX_COUNT:
        raise InputError(f"{who} on {barrier.name}: tx={tx} is outside [{least_tx}, {MAX_COUNT}]")


def _require_own_cta(who: Thread, barrier: Barrier) -> None:
    if barrier.cta != who.cta:
        raise InputError(
            f"{who} waits on, makes or ends {barrier.name} of CTA {barrier.cta}: that is for barriers of the own CTA "
            "(docs/protocol.md rule 21)"
        )
