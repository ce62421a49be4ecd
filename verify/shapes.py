"""Many shapes: ranges and lists of every parameter, and the table of what is found for each of their combinations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import gcd, prod
from random import Random
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import InputError, NoScheduleError
from tilesched.simulator.findings import Finding, Severity, verdict_of
from tilesched.simulator.problem import Problem
from tilesched.simulator.schedule import Schedule
from tilesched.simulator.schedulers import SCHEDULERS, Options

from .schedule_report import check_schedule

__all__ = [
    "COLUMNS",
    "REFUSED",
    "UNDECIDED",
    "Builder",
    "Shape",
    "Space",
    "Table",
    "build_from_file",
    "build_registered",
    "evaluate",
    "join",
]

Shape: TypeAlias = Mapping[str, Any]
"""A value for each axis. `cluster` is a pair, `scheduler` a name, `raster` a RasterOrder, all others are integers."""

Table: TypeAlias = dict[str, npt.NDArray[Any]]
"""Columns of one length and one type each, by name; `pyarrow.table` and `pandas.DataFrame` take it as it is."""

Builder: TypeAlias = Callable[[str, Problem, Options], Schedule]
"""From a scheduler's name, a problem and options to a schedule."""

REFUSED, UNDECIDED = "refused", "undecided"
"""Verdicts beside those of reports: the scheduler does not take the shape; it has too many tiles to look at each."""

_SIZES = ("m", "n", "k", "block_m", "block_n", "block_k", "sm_count")
_OPTIONS: Mapping[str, npt.DTypeLike] = {
    field.name: np.int64 if str(field.type).startswith("int") else np.str_ for field in fields(Options)
}
COLUMNS: Mapping[str, npt.DTypeLike] = {
    "index": np.int64,
    "scheduler": np.str_,
    **dict.fromkeys((*_SIZES, "cluster_m", "cluster_n"), np.int64),
    **_OPTIONS,
    **dict.fromkeys(("tiles_m", "tiles_n", "k_blocks", "workers", "idle_workers", "waves"), np.int64),
    "last_wave_utilisation": np.float64,
    **dict.fromkeys(("work_tiles", "work_tiles_min", "work_tiles_max"), np.int64),
    **dict.fromkeys(("missing", "repeated", "out_of_range", "ghosts", "holes"), np.int64),
    "certified": np.bool_,
    "verdict": np.str_,
    "kinds": np.str_,
    "reason": np.str_,
}
"""Columns of a table. `kinds`: kinds of errors, joined by +; options that a scheduler does not have are 0 or empty."""


@dataclass(frozen=True, slots=True)
class Space:
    """All combinations of the axes' values; a `range` may be drawn from beyond its end, other lists may not."""

    axes: Mapping[str, Sequence[Any]]

    @property
    def size(self) -> int:
        """Shapes."""
        return prod(len(values) for values in self.axes.values())

    def shape(self, index: int) -> Shape:
        """The shape of that number in [0, size); the last axis changes fastest."""
        chosen: dict[str, Any] = {}
        for name, values in reversed(list(self.axes.items())):
            index, place = divmod(index, len(values))
            chosen[name] = values[place]
        return dict(reversed(chosen.items()))

    def spread(self) -> Iterator[tuple[int, Shape]]:
        """All shapes with their numbers, in an order of which every beginning is spread over the whole space."""
        size = self.size
        step = max(1, int(size * 0.618))
        while gcd(step, size) != 1:
            step += 1
        return ((index, self.shape(index)) for index in (place * step % size for place in range(size)))

    def random(self, draw: Random, reach: int) -> Shape:
        """A random shape, with ranges `reach` times as long."""
        return {
            name: values.start + values.step * draw.randrange(reach * len(values))
            if isinstance(values, range) and len(values) > 1
            else draw.choice(values)
            for name, values in self.axes.items()
        }


def evaluate(build: Builder, batch: Sequence[tuple[int, Shape]]) -> Table:
    """The rows of some shapes, in their order. Runs in a process of a sweep."""
    rows = [_row(build, index, shape) for index, shape in batch]
    return {name: np.array([row[name] for row in rows], dtype) for name, dtype in COLUMNS.items()}


def join(tables: Sequence[Table]) -> Table:
    """The rows of all tables, ordered by their numbers."""
    joined = {name: np.concatenate([table[name] for table in tables]) for name in COLUMNS} if tables else _EMPTY
    order = np.argsort(joined["index"], kind="stable")
    return {name: column[order] for name, column in joined.items()}


_EMPTY: Table = {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}
_BLANK: Mapping[str, Any] = {name: "" if dtype is np.str_ else 0 for name, dtype in COLUMNS.items()}


def build_registered(name: str, problem: Problem, options: Options) -> Schedule:
    """The schedule of a registered scheduler."""
    return SCHEDULERS[name].build(problem, options)


def build_from_file(reference: str, problem: Problem, options: Options, **limits: Any) -> Schedule:
    """The schedule of a user's own scheduler, `path.py:function`."""
    from .user_scheduler import run_user_scheduler

    return run_user_scheduler(reference, problem, options, **limits)


def _row(build: Builder, index: int, shape: Shape) -> dict[str, Any]:
    row = {**_BLANK, "index": index, **{name: value for name, value in shape.items() if name != "cluster"}}
    options = {name: shape[name] for name in _OPTIONS if name in shape}
    row.update({name: _plain(name, value) for name, value in options.items()})
    row["cluster_m"], row["cluster_n"] = cluster = _cluster(shape)
    try:
        problem = Problem(**{name: shape[name] for name in _SIZES}, cluster_m=cluster[0], cluster_n=cluster[1])
        schedule = build(shape["scheduler"], problem, Options(**options))
    except InputError as error:
        return {**row, "verdict": REFUSED, "reason": str(error)}
    except NoScheduleError as fault:
        return {**row, **_grid(problem), **_judged([fault.finding])}
    row.update({name: _plain(name, value) for name, value in schedule.params.items() if name in _OPTIONS})
    row.update(_grid(problem), workers=schedule.num_workers, waves=schedule.num_waves)
    try:
        report = check_schedule(schedule, limit=0)
    except InputError as error:
        return {**row, "verdict": UNDECIDED, "reason": str(error)}
    coverage = report.coverage
    return {
        **row,
        **_judged(report.findings),
        "idle_workers": coverage.idle_workers,
        "last_wave_utilisation": report.last_wave_utilisation,
        **{name: getattr(coverage, name) for name in ("work_tiles", "work_tiles_min", "work_tiles_max")},
        **{name: getattr(coverage, name).count for name in ("missing", "repeated", "out_of_range", "ghosts", "holes")},
        "certified": report.certified,
    }


def _cluster(shape: Shape) -> tuple[int, int]:
    """The cluster that the shape names, or the scheduler's own."""
    if "cluster" in shape:
        return shape["cluster"]  # type: ignore[no-any-return]
    spec = SCHEDULERS.get(shape["scheduler"])
    return spec.cluster if spec else (1, 1)


def _plain(name: str, value: Any) -> int | str:
    """An option as its column holds it; a word where a number is usual, such as a default's, is 0."""
    if _OPTIONS[name] is np.str_:
        return str(value)
    return value if isinstance(value, int) else 0


def _grid(problem: Problem) -> dict[str, int]:
    return {"tiles_m": problem.tiles_m, "tiles_n": problem.tiles_n, "k_blocks": problem.k_blocks}


def _judged(findings: Sequence[Finding]) -> dict[str, str]:
    kinds = dict.fromkeys(str(finding.kind) for finding in findings if finding.severity is Severity.ERROR)
    return {"verdict": verdict_of(findings).name.lower(), "kinds": "+".join(kinds)}
