"""Vector clocks: what an event is sure to come after, in every interleaving."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Clock", "Stamp", "merge", "reached"]

Clock: TypeAlias = list[int]
"""By component: operations of a thread, ended phases of a barrier, ended agents of a queue that are sure to be past."""

Stamp: TypeAlias = tuple[int, int]
"""A component and a value: who has reached it comes after the event."""


def reached(clock: Clock, stamps: Iterable[Stamp]) -> bool:
    """Whether any of the stamps, each of which is enough, is sure to be past."""
    # Asked more often than anything else, and `any` of a generator takes twice as long.
    for component, value in stamps:  # noqa: SIM110
        if clock[component] >= value:
            return True
    return False


def merge(clock: Clock, other: Clock) -> None:
    """What is sure to be past of `other` is sure to be past of `clock`, too."""
    for index, value in enumerate(other):
        if value > clock[index]:
            clock[index] = value
