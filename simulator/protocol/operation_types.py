"""Whether a value that a user's role yields is an operation, with operands of the right types.

Dataclasses check nothing, and a forgotten `yield from` or tuple would go by unseen.
"""

from __future__ import annotations

from collections.abc import Callable

from .ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Complete,
    Expect,
    Fence,
    FenceKind,
    Init,
    Inval,
    Join,
    Launch,
    Mode,
    Scope,
    Slot,
    Space,
    Touch,
    Wait,
)

__all__ = ["is_operation"]


def is_operation(value: object) -> bool:
    """Whether it is an operation through and through; names must be printable, since they are printed."""
    match value:
        case Wait(barrier, phase, parity, scope):
            return _is_barrier(barrier) and _integers(phase, parity) and parity in (0, 1) and _is_a(scope, Scope)
        case Arrive(barrier, count, tx, drop, no_complete, scope):
            flags = _is_a(drop, bool) and _is_a(no_complete, bool) and _is_a(scope, Scope)
            return _is_barrier(barrier) and _integers(count, tx) and flags
        case Expect(barrier, tx):
            return _is_barrier(barrier) and _integers(tx)
        case AwaitOwn(barrier, scope):
            return _is_barrier(barrier) and _is_a(scope, Scope)
        case Init(barrier) | Inval(barrier):
            return _is_barrier(barrier)
        case Touch(access):
            return _is_access(access)
        case Launch(agent):
            return _is_agent(agent)
        case Join(groups):
            return _is_tuple(groups, _is_name)
        case Fence(kind):
            return _is_a(kind, FenceKind)
    return False


def _is_agent(value: object) -> bool:
    if not isinstance(value, Agent):
        return False
    names = [name for name in (value.name, value.queue, value.group) if name is not None]
    return all(map(_is_name, names)) and _is_tuple(value.accesses, _is_access) and _is_tuple(value.signals, _is_signal)


def _is_tuple(value: object, of: Callable[[object], bool]) -> bool:
    return isinstance(value, tuple) and all(map(of, value))


def _is_signal(value: object) -> bool:
    if isinstance(value, Complete):
        return _is_barrier(value.barrier) and _integers(value.tx)
    return isinstance(value, Arrive) and is_operation(value)


def _is_access(value: object) -> bool:
    if not isinstance(value, Access) or not _is_a(value.mode, Mode):
        return False
    return _is_slot(value.slot) and (value.version is None or _integers(value.version))


def _is_barrier(value: object) -> bool:
    if not isinstance(value, Barrier) or not _is_a(value.kind, BarrierKind):
        return False
    in_slot = value.storage is None or _is_slot(value.storage)
    return in_slot and _is_name(value.name) and _integers(value.count, value.cta)


def _is_slot(value: object) -> bool:
    if not isinstance(value, Slot):
        return False
    return _is_name(value.name) and _integers(value.cta) and _is_a(value.space, Space)


def _is_a(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def _integers(*values: object) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()
