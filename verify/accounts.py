"""Accounts that are kept while a schedule is enumerated: who has how much, and which tiles are handed out."""

from __future__ import annotations

import numpy as np

from tilesched.simulator.raster import IntArray
from tilesched.simulator.schedule import BoolArray, Schedule, WorkTiles, cta_tiles

from .grid import ClusterGrid, Tile
from .tally import Tally, Visit
from .tileset import TileSet

__all__ = ["Balance", "Cover"]


class Balance:
    """Work tiles, idleness and holes of workers, one range of workers after the other."""

    def __init__(self, idle: int) -> None:
        self.idle = idle
        self.total = self.most = self.last_wave = self.holes = 0
        self._least = 0 if idle else None

    @property
    def least(self) -> int:
        return self._least or 0

    def enter(self, width: int) -> None:
        self._tiles = np.zeros(width, np.int64)
        self._skipped = np.zeros(width, np.int64)  # waves skipped since the worker's last tile

    def add(self, chunk: WorkTiles, last_wave: int) -> None:
        waves = chunk.linear.shape[0]
        emitted = np.broadcast_to(chunk.emitted, chunk.linear.shape)
        if chunk.all_emitted:
            self._tiles += waves
            self.holes += int(self._skipped.sum())
            self._skipped[:] = 0
        else:
            tiles = emitted.sum(axis=0)
            after = np.argmax(emitted[::-1], axis=0)  # waves after the last tile, if there is one
            self._tiles += tiles
            self.holes += int((self._skipped + waves - tiles - after)[tiles > 0].sum())
            self._skipped = np.where(tiles > 0, after, self._skipped + waves)
        if int(chunk.wave[-1, 0]) == last_wave:
            self.last_wave += int(emitted[-1].sum())

    def join(self, other: Balance) -> None:
        """Add what another has of other workers."""
        self.idle += other.idle
        self.total += other.total
        self.most = max(self.most, other.most)
        self.last_wave += other.last_wave
        self.holes += other.holes
        self._found_least(other.least)

    def _found_least(self, least: int) -> None:
        self._least = least if self._least is None else min(self._least, least)

    def leave(self) -> None:
        self._found_least(int(self._tiles.min()))
        self.most = max(self.most, int(self._tiles.max()))
        self.idle += int((self._tiles == 0).sum())
        self.total += int(self._tiles.sum())


class Cover:
    """The cluster tiles that are handed out, with the CTA tiles outside the output set apart."""

    def __init__(self, schedule: Schedule, grid: ClusterGrid, limit: int) -> None:
        self.schedule, self.grid = schedule, grid
        self.seen = TileSet(grid.size)
        self.inside = 0  # work tiles handed out inside the grid, repeated ones as often as they are
        self.ghosts = _Visits(limit)
        self.out_of_range = _Visits(limit)

    def join(self, other: Cover) -> None:
        """Add what another has of other workers."""
        self.seen.join(other.seen)
        self.inside += other.inside
        self.ghosts.join(other.ghosts)
        self.out_of_range.join(other.out_of_range)

    def add(self, chunk: WorkTiles) -> None:
        m, n = chunk.m, chunk.n
        if not chunk.all_emitted:
            m, n = m[chunk.emitted], n[chunk.emitted]
        if not m.size:
            return
        if not self.grid.all_whole(m, n):
            rows = chunk.rows()
            self._set_apart(rows)
            inside = self.grid.inside(rows.m, rows.n)
            m, n = rows.m[inside], rows.n[inside]
        self.seen.add(self.grid.index(m, n))
        self.inside += m.size

    def _set_apart(self, rows: WorkTiles) -> None:
        padded_m, padded_n = self.schedule.padded_m, self.schedule.padded_n
        partial = ~self.grid.whole(rows.m, rows.n)
        worker, wave = rows.worker[partial], rows.wave[partial]
        for tile_m, tile_n in cta_tiles(self.schedule.problem, rows.m[partial], rows.n[partial]):
            outside = ~self.grid.real(tile_m, tile_n)
            padding = (tile_m >= 0) & (tile_m < padded_m) & (tile_n >= 0) & (tile_n < padded_n)
            self.ghosts.add(tile_m, tile_n, worker, wave, outside & padding)
            self.out_of_range.add(tile_m, tile_n, worker, wave, outside & ~padding)


class _Visits:
    """A tally of visits that keeps the first `limit`."""

    def __init__(self, limit: int) -> None:
        self.count = 0
        self._first: list[Visit] = []
        self._limit = limit

    def add(self, m: IntArray, n: IntArray, worker: IntArray, wave: IntArray, which: BoolArray) -> None:
        self.count += int(which.sum())
        for row in np.flatnonzero(which)[: self._limit - len(self._first)]:
            self._first.append(Visit(Tile(int(m[row]), int(n[row])), int(worker[row]), int(wave[row])))

    def join(self, other: _Visits) -> None:
        self.count += other.count
        self._first += other._first[: self._limit - len(self._first)]

    def tally(self) -> Tally[Visit]:
        return Tally(self.count, self._first)
