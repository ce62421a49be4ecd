"""Safe-shape rules: from the table of a sweep, which shapes have an error of a kind, as the shortest rule that fits.

Sizes are those of the tile grid, as no schedule depends on more. What follows from the parameters is offered to the
rule finder under the names in DERIVED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from .executors import Executor
from .rules import Case, RuleReport, explain_failures, find_rule
from .shapes import REFUSED, UNDECIDED, Builder, Space, Table, evaluate, join
from .sweep import Sweep

__all__ = ["ANY", "DERIVED", "ShapeRule", "shape_rules", "smallest"]

ANY = "any error"
"""The kind of the rule for shapes that fail in whatever way."""

DERIVED: Mapping[str, str] = {
    "clusters_m": "cluster tile rows",
    "clusters_n": "cluster tile columns",
    "pad_m": "-clusters_m % panel_width: rows that the last panel lacks",
    "pad_n": "-clusters_n % panel_width: columns that the last panel lacks",
    "waves": "waves that the kernel loops over",
    "slack": "waves * workers - clusters_m * clusters_n",
}
"""What follows from the parameters, and what it is."""

_AXES: Mapping[str, Sequence[str]] = {
    "m": ("tiles_m",),
    "block_m": ("tiles_m",),
    "n": ("tiles_n",),
    "block_n": ("tiles_n",),
    "k": ("k_blocks",),
    "block_k": ("k_blocks",),
    "cluster": ("cluster_m", "cluster_n"),
    "scheduler": (),
    "raster": (),
}
"""The columns of an axis that stand in rules; any other axis stands there itself."""

_REACH = 3  # times the length of each range, that the second sample is drawn from
_SAMPLES = 3  # that a rule is fitted to and tested on, at most
_MORE = 1000  # shapes that a second sample has more than the first, but not more than ten times as many
_SEED = 20261  # a run repeats exactly
_BATCH = 128


@dataclass(frozen=True, slots=True)
class ShapeRule:
    """When shapes of a scheduler have errors of a kind.

    `report.rule` is None where no short rule fits; `failing` are the row numbers of shapes that fail, smallest first.
    `report.tested` is 0 where the space has no range, so that there is nothing beyond it to test a rule on.
    """

    scheduler: str
    raster: str
    kind: str
    report: RuleReport
    failing: npt.NDArray[np.int64]


def shape_rules(sweep: Sweep, build: Builder, executor: Executor) -> list[ShapeRule]:
    """The rules of each scheduler and chosen raster order of a sweep, for each kind of error and for any."""
    table, axes = sweep.table, sweep.space.axes
    judged = _judged(table)
    rules: list[ShapeRule] = []
    for scheduler, raster in product(axes["scheduler"], axes.get("raster", (None,))):
        rows = judged & (table["scheduler"] == scheduler)
        fixed = {"scheduler": scheduler}
        if raster is not None:
            rows &= table["raster"] == str(raster)
            fixed["raster"] = raster
        if rows.any():
            samples = _Samples(sweep.space, partial(executor, partial(evaluate, build)), fixed, int(rows.sum()))
            rules += _group_rules(table, np.flatnonzero(rows), samples)
    return rules


def smallest(table: Table, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Rows of a table ordered by size: by tiles, then by tiles along an axis, panel width and workers."""
    m, n = table["tiles_m"][rows], table["tiles_n"][rows]
    return rows[np.lexsort((table["workers"][rows], table["panel_width"][rows], np.maximum(m, n), m * n))]


def _group_rules(table: Table, rows: npt.NDArray[np.int64], samples: _Samples) -> Iterator[ShapeRule]:
    group = {name: column[rows] for name, column in table.items()}
    kinds = [kind for kind in dict.fromkeys("+".join(group["kinds"].tolist()).split("+")) if kind]
    for kind in kinds if len(kinds) < 2 else [*kinds, ANY]:
        first = _cases(group, samples.names, kind)
        if samples.beyond:
            later = (_cases(sample, samples.names, kind) for sample in samples.tables())
            report = explain_failures(first, later, DERIVED)
        else:
            rule = find_rule(first, DERIVED)
            report = RuleReport(rule, rule, len(first), 0)
        raster = str(samples.fixed.get("raster", ""))
        failing = smallest(table, rows[_fails(group, kind)])
        yield ShapeRule(samples.fixed["scheduler"], raster, kind, report, failing)


class _Samples:
    """Random shapes of one scheduler and raster order, with longer ranges; each table is made when it is asked for.

    `names`: the parameters that vary, as rules name them. `beyond`: whether any range can be made longer.
    """

    def __init__(
        self, space: Space, run: Callable[[Iterable[Any]], Iterator[Table]], fixed: dict[str, Any], first: int
    ) -> None:
        self.names = list(dict.fromkeys(name for axis in space.axes for name in _AXES.get(axis, (axis,))))
        self.beyond = any(isinstance(values, range) and len(values) > 1 for values in space.axes.values())
        self.fixed = fixed
        self._space, self._run = space, run
        self._size = first + first // 10 + min(_MORE, 10 * first)
        self._draw = Random(_SEED)
        self._made: list[Table] = []

    def tables(self) -> Iterator[Table]:
        """At most _SAMPLES, the same ones each time."""
        for number in range(_SAMPLES):
            if number == len(self._made):
                self._made.append(self._make())
            yield self._made[number]

    def _make(self) -> Table:
        shapes = [(at, {**self._space.random(self._draw, _REACH), **self.fixed}) for at in range(self._size)]
        table = join(list(self._run(shapes[at : at + _BATCH] for at in range(0, self._size, _BATCH))))
        return {name: column[_judged(table)] for name, column in table.items()}


def _judged(table: Table) -> npt.NDArray[np.bool_]:
    return ~np.isin(table["verdict"], (REFUSED, UNDECIDED))


def _fails(table: Table, kind: str) -> npt.NDArray[np.bool_]:
    if kind == ANY:
        return np.asarray(table["kinds"] != "", np.bool_)
    return np.array([kind in kinds.split("+") for kinds in table["kinds"].tolist()], np.bool_)


def _cases(table: Table, names: Sequence[str], kind: str) -> list[Case]:
    """The shapes of a table as the rule finder takes them, without those that have no schedule to have the error."""
    failed = _fails(table, kind)
    none = table["workers"] == 0
    keep = np.ones_like(none) if (failed & none).any() else ~none
    rows = {name: table[name] for name in names}
    clusters_m, clusters_n = -(-table["tiles_m"] // table["cluster_m"]), -(-table["tiles_n"] // table["cluster_n"])
    width = np.maximum(table["panel_width"], 1)
    rows |= {
        "clusters_m": clusters_m,
        "clusters_n": clusters_n,
        "pad_m": -clusters_m % width,
        "pad_n": -clusters_n % width,
        "waves": table["waves"],
        "slack": table["waves"] * table["workers"] - clusters_m * clusters_n,
    }
    columns = [column[keep].tolist() for column in rows.values()]
    cases = (dict(zip(rows, values, strict=True)) for values in zip(*columns, strict=True))
    return list(zip(cases, failed[keep].tolist(), strict=True))
