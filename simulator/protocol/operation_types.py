"""Whether a value that a user's role yields is an operation, with operands of the right types.

Dataclasses check nothing, and a forgotten `yield from` or tuple would go by unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
        check = _CHECKS.get(type(value))  # a table: a `match` over ten classes would look at five of them on average
        return check is not None and check(self, value)

    def _wait(self, one: Wait) -> bool:
        integers = _is_integer(one.phase) and _is_integer(one.parity) and one.parity in (0, 1)
        return integers and self._is_barrier(one.barrier) and _is_a(one.scope, Scope)

    def _arrive(self, one: Arrive) -> bool:
        flags = _is_a(one.drop, bool) and _is_a(one.no_complete, bool) and _is_a(one.scope, Scope)
        return flags and _is_integer(one.count) and _is_integer(one.tx) and self._is_barrier(one.barrier)

    def _expect(self, one: Expect) -> bool:
        return _is_integer(one.tx) and self._is_barrier(one.barrier)

    def _await_own(self, one: AwaitOwn) -> bool:
        return self._is_barrier(one.barrier) and _is_a(one.scope, Scope)

    def _life(self, one: Init | Inval) -> bool:
        return self._is_barrier(one.barrier)

    def _touch(self, one: Touch) -> bool:
        return self._is_access(one.access)

    def _launch(self, one: Launch) -> bool:
        return self._is_agent(one.agent)

    def _join(self, one: Join) -> bool:
        return _is_tuple(one.groups, _is_name)

    def _fence(self, one: Fence) -> bool:
        return _is_a(one.kind, FenceKind)

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


_CHECKS: Mapping[type, Callable[[OperationTypes, Any], bool]] = {
    Wait: OperationTypes._wait,
    Arrive: OperationTypes._arrive,
    Expect: OperationTypes._expect,
    AwaitOwn: OperationTypes._await_own,
    Init: OperationTypes._life,
    Inval: OperationTypes._life,
    Touch: OperationTypes._touch,
    Launch: OperationTypes._launch,
    Join: OperationTypes._join,
    Fence: OperationTypes._fence,
}


def _is_tuple(value: object, of: Callable[[object], bool]) -> bool:
    return isinstance(value, tuple) and all(map(of, value))


def _is_a(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()
