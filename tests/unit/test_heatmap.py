"""The heatmap: its data against a naive loop, and that every size draws with its marks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.errors import InputError
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import IntArray
from tilesched.simulator.schedule import BoolArray, Schedule, StridedSchedule
from tilesched.simulator.schedulers import Options, get
from tilesched.viz import tilemap
from tilesched.viz.heatmap import draw_heatmap, heatmap_figure
from tilesched.viz.tilemap import TileMap, tile_map


def schedule(
    tiles_m: int,
    tiles_n: int,
    workers: int = 5,
    launched: int | None = None,
    cluster: int = 1,
    name: str = "persistent",
) -> Schedule:
    problem = Problem(m=tiles_m, n=tiles_n, k=1, block_m=1, block_n=1, block_k=1, cluster_m=cluster)
    options = Options(panel_width=4, num_workers=workers, launched=launched)
    return get(f"tilelang.{name}").build(problem, options)


def one_tile_moved(tiles_m: int, tiles_n: int) -> Schedule:
    """Tile (1, 1) is not computed, tile (0, 0) twice."""
    right = schedule(tiles_m, tiles_n)
    assert isinstance(right, StridedSchedule)

    def decode(linear: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        m, n, emitted = right.decode(linear)
        moved = (m == 1) & (n == 1)
        return np.where(moved, 0, m), np.where(moved, 0, n), emitted

    return dataclasses.replace(right, decode=decode)


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 4),
)
def test_the_data_equals_a_naive_loop(m: int, n: int, workers: int, launched: int, cluster: int, cells: int) -> None:
    plan = schedule(m, n, workers, launched, cluster)
    visits: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for worker in range(plan.num_workers):
        rows = plan.worker(worker)
        for wave, row_m, row_n in zip(rows.wave.tolist(), rows.m.tolist(), rows.n.tolist(), strict=True):
            for rank in range(cluster):
                visits.setdefault((row_m * cluster + rank, row_n), []).append((wave, worker))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tilemap, "MAX_CELLS", cells)
        found = tile_map(plan)
    for row in range(found.worker.shape[0]):
        for column in range(found.worker.shape[1]):
            inside = [
                (i, j)
                for i in range(row * found.cell_m, min((row + 1) * found.cell_m, m))
                for j in range(column * found.cell_n, min((column + 1) * found.cell_n, n))
            ]
            assert inside
            assert found.missing[row, column] == any(tile not in visits for tile in inside)
            assert found.repeated[row, column] == any(len(visits.get(tile, ())) > 1 for tile in inside)
            first = min(visits.get(inside[0], [(-1, -1)]))
            assert (found.wave[row, column], found.worker[row, column]) == first
    real = [(i, j) for i in range(m) for j in range(n)]
    assert found.missing_tiles == sum(tile not in visits for tile in real)
    assert found.repeated_tiles == sum(len(visits.get(tile, ())) > 1 for tile in real)
    assert max(found.worker.shape) <= cells


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 3), (64, 32), (1, 1000), (1000, 1), (600, 700)])
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_every_size_draws(shape: tuple[int, int], suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"map{suffix}"
    draw_heatmap(tile_map(schedule(*shape)), str(path))
    head = path.read_bytes()[:200]
    assert head.startswith(b"\x89PNG") if suffix == ".png" else b"<?xml" in head


@pytest.mark.parametrize("shape", [(2, 2), (600, 700)])
def test_a_missing_and_a_repeated_tile_are_marked(shape: tuple[int, int]) -> None:
    found = tile_map(one_tile_moved(*shape))
    assert (found.missing_tiles, found.repeated_tiles) == (1, 1)
    figure = heatmap_figure(found)
    for axes in figure.axes[:2]:
        assert len(axes.collections) == 4  # a disc and a symbol for each of the two
    assert figure.get_suptitle().splitlines()[1].endswith("1 missing, 1 computed more than once")
    assert ("one cell = 2 × 2 tiles" in figure.get_suptitle()) == (shape == (600, 700))
    clean = heatmap_figure(tile_map(schedule(*shape)))
    assert not any(axes.collections for axes in clean.axes[:2])
    assert clean.get_suptitle().splitlines()[1].endswith("each exactly once")


@pytest.mark.parametrize("shape", [(2, 2), (600, 700)])
def test_no_mark_hides_another_or_is_cut(shape: tuple[int, int]) -> None:
    """In the larger grid the two tiles share a cell, in its corner."""
    for axes in heatmap_figure(tile_map(one_tile_moved(*shape))).axes[:2]:
        places = [mark.get_offset_transform().transform(mark.get_offsets())[0] for mark in axes.collections]
        missing, _, repeated, _ = places
        radius = np.sqrt(70) / 2 / 72 * axes.get_figure().dpi  # of a mark of 70 square points
        assert np.linalg.norm(missing - repeated) > 2 * radius
        assert not any(mark.get_clip_on() for mark in axes.collections)


def test_the_same_schedule_gives_the_same_file(tmp_path: Path) -> None:
    found: TileMap = tile_map(schedule(4, 9, 3, name="manual_1cta"))
    for suffix in (".png", ".svg"):
        paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
        for path in paths:
            draw_heatmap(found, str(path))
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_what_cannot_be_drawn_is_said() -> None:
    found = tile_map(schedule(2, 2))
    for path in ("map", "map.pdf", "/no/such/place/map.png"):
        with pytest.raises(InputError, match="heatmap="):
            draw_heatmap(found, path)
    with pytest.raises(InputError, match="heatmap of 67125249 tiles is outside"):
        tile_map(schedule(8193, 8193))
