"""A sweep: every shape of a space is judged, until all are done or somebody stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import islice

from .coverage import Progress
from .executors import Executor
from .shapes import Builder, Shape, Space, Table, evaluate, join

__all__ = ["Stopped", "Sweep", "run_sweep"]

_BATCH = 128
"""Shapes handed to a process at once: some ten milliseconds where structure decides, so that a stop is soon heard."""


class Stopped(StrEnum):
    """Why a sweep ended before all shapes were judged."""

    INTERRUPT = "interrupt"
    TIME = "max-seconds"
    COUNT = "max-shapes"


@dataclass(frozen=True, slots=True)
class Sweep:
    """A space, the table of the shapes that were judged, and why there are not more."""

    space: Space
    table: Table
    stopped: Stopped | None
    seconds: float


def run_sweep(
    space: Space,
    build: Builder,
    executor: Executor,
    *,
    max_shapes: int,
    max_seconds: float | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
) -> Sweep:
    """Judge the shapes of the space, spread over it from the first on.

    What has begun when time is up or `interrupted` answers True is finished. `progress` is called with shapes.
    """
    begin = time.monotonic()
    total = min(space.size, max_shapes)
    stopped = Stopped.COUNT if space.size > max_shapes else None

    def batches() -> Iterator[Sequence[tuple[int, Shape]]]:
        nonlocal stopped
        shapes = islice(space.spread(), total)
        while batch := tuple(islice(shapes, _BATCH)):
            if interrupted():
                stopped = Stopped.INTERRUPT
                return
            if max_seconds is not None and time.monotonic() - begin >= max_seconds:
                stopped = Stopped.TIME
                return
            yield batch

    tables: list[Table] = []
    done = 0
    for table in executor(partial(evaluate, build), batches()):
        tables.append(table)
        done += table["index"].size
        if progress is not None:
            progress(done, total)
    return Sweep(space, join(tables), stopped, time.monotonic() - begin)
