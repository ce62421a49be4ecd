"""The schedule that a kernel shows by its stores: which CTA wrote which tile of the output, in what order."""

from __future__ import annotations

import numpy as np

from ..problem import Problem
from ..trace import Trace, TraceHeader
from .launch import DTYPES_BY_NAME, Observe
from .memory import Region
from .slots import Array

__all__ = ["Observer"]


class Observer:
    """Watches the stores to a row-major matrix of M × N elements.

    A tile is recorded for the CTA that is the first to write an element of it, and again when an element is written
    once more than any was before: a tile that is computed twice stands twice in the trace.
    """

    def __init__(self, observe: Observe, region: Region, dtype: str, ctas: int) -> None:
        self._observe = observe
        self._problem = observe.problem
        self._ctas = ctas
        self._itemsize = int(DTYPES_BY_NAME[dtype].itemsize)
        self._times = np.zeros(observe.problem.m * observe.problem.n, np.uint8)
        self._visits = np.zeros((observe.problem.tiles_m, observe.problem.tiles_n), np.int64)
        self._records: list[tuple[int, int, int]] = []
        region.observer = self.stored

    def stored(self, cta: int, offsets: Array, width: int) -> None:
        """A CTA stored `width` bytes at each of `offsets`."""
        problem: Problem = self._problem
        elements = offsets // self._itemsize
        count = width // self._itemsize
        if count > 1:
            elements = (elements[:, None] + np.arange(count)).reshape(-1)
        rows, columns = np.divmod(elements, problem.n)
        tiles = rows // problem.block_m * problem.tiles_n + columns // problem.block_n
        times = np.minimum(self._times[elements], 254) + np.uint8(1)
        self._times[elements] = times  # an element that stands there twice counts once
        alone = int(tiles[0]) == int(tiles[-1]) and (tiles == tiles[0]).all()
        for tile in [int(tiles[0])] if alone else np.unique(tiles).tolist():
            m, n = divmod(tile, problem.tiles_n)
            most = int(times.max() if alone else times[tiles == tile].max())
            while self._visits[m, n] < most:
                self._visits[m, n] += 1
                self._records.append((cta, m, n))

    def trace(self, kernel: str, provenance: str) -> Trace:
        """What was seen, as a trace with the one role `store`."""
        table = np.array(self._records, np.int64).reshape(-1, 3)
        header = TraceHeader(
            kernel=kernel,
            source="PTX machine",
            roles=("store",),
            ctas=self._ctas,
            problem=self._problem,
            scheduler=self._observe.scheduler,
            params=dict(self._observe.params),
            provenance=provenance,
        )
        columns = {"cta": table[:, 0], "role": np.zeros(len(table), np.int64), "m": table[:, 1], "n": table[:, 2]}
        return Trace(header=header, columns=columns)
