"""The grid of cluster tiles over the grid of CTA tiles, and indices into it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import IntArray
from tilesched.simulator.schedule import BoolArray, cta_tiles

from .tileset import TileSet

__all__ = ["ClusterGrid", "Tile"]


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """A CTA tile of the output."""

    m: int
    n: int


class ClusterGrid:
    """Cluster tiles of a problem, numbered along the axis that a schedule walks.

    A cluster tile is whole when all its CTA tiles are real, partial when the output's edge cuts it.
    """

    def __init__(self, problem: Problem, *, m_fastest: bool) -> None:
        self.problem = problem
        self.rows, self.columns = problem.clusters_m, problem.clusters_n
        self.size = self.rows * self.columns
        self._m_fastest = m_fastest

    def index(self, m: IntArray, n: IntArray) -> IntArray:
        """Numbers of cluster tiles inside the grid."""
        return m + n * self.rows if self._m_fastest else n + m * self.columns

    def coordinates(self, index: IntArray) -> tuple[IntArray, IntArray]:
        """Inverse of `index`."""
        if self._m_fastest:
            return index % self.rows, index // self.rows
        return index // self.columns, index % self.columns

    def inside(self, m: IntArray, n: IntArray) -> BoolArray:
        """Which cluster tiles lie in the grid, whole or partial."""
        return (m >= 0) & (m < self.rows) & (n >= 0) & (n < self.columns)

    def whole(self, m: IntArray, n: IntArray) -> BoolArray:
        """Which cluster tiles have only real CTA tiles."""
        rows = self.problem.tiles_m // self.problem.cluster_m
        columns = self.problem.tiles_n // self.problem.cluster_n
        return (m >= 0) & (m < rows) & (n >= 0) & (n < columns)

    def all_whole(self, m: IntArray, n: IntArray) -> bool:
        """Whether `whole` holds for all of a non-empty block, by its extremes."""
        corners = np.array([m.min(), m.max()]), np.array([n.min(), n.max()])
        return bool(self.whole(*corners).all())

    def real(self, tile_m: IntArray, tile_n: IntArray) -> BoolArray:
        """Which CTA tiles are tiles of the output."""
        inside_m = (tile_m >= 0) & (tile_m < self.problem.tiles_m)
        return inside_m & (tile_n >= 0) & (tile_n < self.problem.tiles_n)

    def count_real(self, tiles: TileSet) -> int:
        """CTA tiles of the output that the cluster tiles in `tiles` hold."""
        total = len(tiles) * self.problem.cluster_size
        for m, n in self._partial_edges():
            edge_m, edge_n = (axis[tiles.contains(self.index(m, n))] for axis in np.broadcast_arrays(m, n))
            total -= sum(int((~self.real(*tile)).sum()) for tile in cta_tiles(self.problem, edge_m, edge_n))
        return total

    def _partial_edges(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Every partial cluster tile once: the last row, then the last column above it."""
        cut_m = self.problem.tiles_m % self.problem.cluster_m != 0
        if cut_m:
            yield np.array([self.rows - 1]), np.arange(self.columns)
        if self.problem.tiles_n % self.problem.cluster_n:
            yield np.arange(self.rows - 1 if cut_m else self.rows), np.array([self.columns - 1])

    def real_tiles(self, indices: Iterable[int]) -> list[Tile]:
        """The CTA tiles of the output in the given cluster tiles, in order."""
        m, n = self.coordinates(np.fromiter(indices, np.int64))
        tiles: list[Tile] = []
        for tile_m, tile_n in cta_tiles(self.problem, m, n):
            real = self.real(tile_m, tile_n)
            tiles += map(Tile, tile_m[real].tolist(), tile_n[real].tolist())
        return sorted(tiles)
