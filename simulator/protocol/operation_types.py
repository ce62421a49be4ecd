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

__all__ = ["OperationTypes"]


class OperationTypes:
    """Checks what the threads of one protocol yield. Barriers and slots come again with every operation, and are looked
    at once: what was found right is kept, so that no other object can have its identity meanwhile."""

    def __init__(self) -> None:
        self._right: dict[int, object] = {}

    def is_operation(self, value: object) -> bool:
        """Whether it is an operation through and through; names must be printable, since they are printed."""
        match value:
            case Wait(barrier, phase, parity, scope):
                integers = _is_integer(phase) and _is_integer(parity) and parity in (0, 1)
                return integers and self._is_barrier(barrier) and isinstance(scope, Scope)
            case Arrive(barrier, count, tx, drop, no_complete, scope):
                flags = _is_a(drop, bool) and _is_a(no_complete, bool) and _is_a(scope, Scope)
                return flags and _is_integer(count) and _is_integer(tx) and self._is_barrier(barrier)
            case Expect(barrier, tx):
                return _is_integer(tx) and self._is_barrier(barrier)
            case AwaitOwn(barrier, scope):
                return self._is_barrier(barrier) and isinstance(scope, Scope)
            case Init(barrier) | Inval(barrier):
                return self._is_barrier(barrier)
            case Touch(access):
                return self._is_access(access)
            case Launch(agent):
                return self._is_agent(agent)
            case Join(groups):
                return _is_tuple(groups, _is_name)
            case Fence(kind):
                return isinstance(kind, FenceKind)
        return False

    def _is_agent(self, value: object) -> bool:
        if not isinstance(value, Agent):
            return False
        names = [name for name in (value.name, value.queue, value.group) if name is not None]
        if not all(map(_is_name, names)):
            return False
        return _is_tuple(value.accesses, self._is_access) and _is_tuple(value.signals, self._is_signal)

    def _is_signal(self, value: object) -> bool:
        if isinstance(value, Complete):
            return _is_integer(value.tx) and self._is_barrier(value.barrier)
        return isinstance(value, Arrive) and self.is_operation(value)

    def _is_access(self, value: object) -> bool:
        if not isinstance(value, Access) or not isinstance(value.mode, Mode):
            return False
        return (value.version is None or _is_integer(value.version)) and self._is_slot(value.slot)

    def _is_barrier(self, value: object) -> bool:
        if id(value) in self._right:
            return isinstance(value, Barrier)
        if not isinstance(value, Barrier) or not isinstance(value.kind, BarrierKind):
            return False
        in_slot = value.storage is None or self._is_slot(value.storage)
        return self._keep(
            value, in_slot and _is_name(value.name) and _is_integer(value.count) and _is_integer(value.cta)
        )

    def _is_slot(self, value: object) -> bool:
        if id(value) in self._right:
            return isinstance(value, Slot)
        if not isinstance(value, Slot) or not isinstance(value.space, Space):
            return False
        return self._keep(value, _is_name(value.name) and _is_integer(value.cta))

    def _keep(self, value: object, right: bool) -> bool:
        if right:
            self._right[id(value)] = value
        return right


def _is_tuple(value: object, of: Callable[[object], bool]) -> bool:
    return isinstance(value, tuple) and all(map(of, value))


def _is_a(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()
