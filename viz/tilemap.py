"""The data of a heatmap: per cell of the tile grid the worker and wave, and where tiles are missing or repeated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import InputError
from tilesched.simulator.intmath import ceil_div
from tilesched.simulator.problem import Problem
from tilesched.simulator.schedule import Schedule, cta_tiles

__all__ = ["MAX_CELLS", "MAX_TILES", "TileMap", "require_drawable", "tile_map"]

MAX_CELLS = 512
"""Cells along an axis; larger grids are aggregated."""
MAX_TILES = 2**26
"""Tiles of the largest grid that is drawn: one byte each is held."""


@dataclass(frozen=True, slots=True, eq=False)
class TileMap:
    """A grid of cells, each of `cell_m` × `cell_n` CTA tiles (1 × 1 unless the grid is large).

    `worker` and `wave` are those of the first visit to the first tile of the cell, -1 if it has none.
    `missing` and `repeated` tell whether any tile of the cell is.
    """

    title: str
    tiles_m: int
    tiles_n: int
    num_workers: int
    cell_m: int
    cell_n: int
    worker: npt.NDArray[np.int64]
    wave: npt.NDArray[np.int64]
    missing: npt.NDArray[np.bool_]
    repeated: npt.NDArray[np.bool_]
    missing_tiles: int
    repeated_tiles: int


def require_drawable(problem: Problem) -> None:
    """InputError if the output has more than MAX_TILES tiles."""
    if problem.tiles > MAX_TILES:
        raise InputError(f"heatmap of {problem.tiles} tiles is outside [1, {MAX_TILES}]")


def tile_map(schedule: Schedule) -> TileMap:
    """Run through a schedule and note who computes what. Raises InputError above MAX_TILES tiles."""
    problem = schedule.problem
    rows, columns = problem.tiles_m, problem.tiles_n
    require_drawable(problem)
    cell_m, cell_n = ceil_div(rows, MAX_CELLS), ceil_div(columns, MAX_CELLS)
    times = np.zeros((rows, columns), np.uint8)
    shape = ceil_div(rows, cell_m), ceil_div(columns, cell_n)
    worker, wave = np.full(shape[0] * shape[1], -1), np.full(shape[0] * shape[1], -1)
    for chunk in schedule.chunks():
        handed = chunk.rows()
        for m, n in cta_tiles(problem, handed.m, handed.n):
            real = (m >= 0) & (m < rows) & (n >= 0) & (n < columns)
            _count(times, m[real], n[real])
            corner = np.flatnonzero(real & (m % cell_m == 0) & (n % cell_n == 0))
            cell, visit = np.unique(m[corner] // cell_m * shape[1] + n[corner] // cell_n, return_index=True)
            new = worker[cell] < 0
            worker[cell[new]] = handed.worker[corner[visit[new]]]
            wave[cell[new]] = handed.wave[corner[visit[new]]]
    return TileMap(
        title=f"{schedule.name}   M={problem.m} N={problem.n} K={problem.k}   "
        f"tile {problem.block_m} × {problem.block_n} × {problem.block_k}",
        tiles_m=rows,
        tiles_n=columns,
        num_workers=schedule.num_workers,
        cell_m=cell_m,
        cell_n=cell_n,
        worker=worker.reshape(shape),
        wave=wave.reshape(shape),
        missing=_any(times == 0, cell_m, cell_n),
        repeated=_any(times > 1, cell_m, cell_n),
        missing_tiles=int((times == 0).sum()),
        repeated_tiles=int((times > 1).sum()),
    )


def _count(times: npt.NDArray[np.uint8], m: npt.NDArray[np.signedinteger], n: npt.NDArray[np.signedinteger]) -> None:
    """Add a visit to each tile; 2 stands for any larger number."""
    index, visits = np.unique(m.astype(np.int64) * times.shape[1] + n, return_counts=True)
    flat = times.reshape(-1)
    flat[index] = np.minimum(flat[index] + visits, 2)


def _any(flags: npt.NDArray[np.bool_], cell_m: int, cell_n: int) -> npt.NDArray[np.bool_]:
    """Whether any flag of a cell is set; cells at the far edges may be cut."""
    by_row = np.logical_or.reduceat(flags, np.arange(0, flags.shape[0], cell_m), axis=0)
    return np.logical_or.reduceat(by_row, np.arange(0, flags.shape[1], cell_n), axis=1)
