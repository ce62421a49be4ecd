"""The coverage certificate against enumeration, on every registered scheduler and on walks that none of them has."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.errors import InputError, NoScheduleError
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import IntArray, RasterOrder
from tilesched.simulator.schedule import BoolArray, PhaseClock, Schedule, StridedSchedule
from tilesched.simulator.schedulers import SCHEDULERS, Options
from tilesched.simulator.structure import Box, PanelWalk, Run, Structure, panel_structure
from tilesched.verify.certificate import certify
from tilesched.verify.coverage import Coverage, check_coverage

ALL = 10**6


def same(schedule: Schedule, certificate: Coverage) -> None:
    """Every count, and every tile, visit and hole that is listed."""
    truth = check_coverage(schedule, limit=ALL)
    for name in ("tiles", "work_tiles", "idle_workers", "work_tiles_min", "work_tiles_max", "last_wave_work_tiles"):
        assert getattr(certificate, name) == getattr(truth, name), name
    for name in ("missing", "repeated", "ghosts", "out_of_range", "holes"):
        ours, theirs = getattr(certificate, name), getattr(truth, name)
        assert ours.count == theirs.count, name
        assert len(ours.first) == len(theirs.first), name
        assert set(map(repr, ours.first)) == set(map(repr, theirs.first)), name


def grid(m: int, n: int, cluster: tuple[int, int] = (1, 1), sms: int = 8) -> Problem:
    cluster_m, cluster_n = cluster
    return Problem(
        m=m, n=n, k=1, block_m=1, block_n=1, block_k=1, cluster_m=cluster_m, cluster_n=cluster_n, sm_count=sms
    )


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_small_grid_of_every_scheduler(name: str) -> None:
    spec = SCHEDULERS[name]
    certified = 0
    for m, n, width, sms in itertools.product(range(1, 7), range(1, 7), (1, 2, 3, 5, 8), (2, 3, 4, 7)):
        try:
            schedule = spec.build(grid(m, n, spec.cluster, sms), Options(panel_width=width))
        except (InputError, NoScheduleError):
            continue
        certificate = certify(schedule, limit=ALL)
        if certificate is not None:
            certified += 1
            same(schedule, certificate)
    assert certified or getattr(schedule, "structure", None) is None


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    spec = SCHEDULERS[draw(st.sampled_from(sorted(SCHEDULERS)))]
    small = st.integers(1, 12)
    names = {param.name for param in spec.params}
    cluster = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)])) if "cluster" in names else spec.cluster
    options = Options(
        panel_width=draw(small) if "panel_width" in names else None,
        raster=draw(st.sampled_from([None, *RasterOrder])) if "raster" in names else None,
        num_workers=draw(st.none() | small) if "num_workers" in names else None,
        launched=draw(st.none() | small) if "launched" in names else None,
    )
    try:
        return spec.build(grid(draw(st.integers(1, 20)), draw(st.integers(1, 20)), cluster, draw(small) + 2), options)
    except (InputError, NoScheduleError):
        return SCHEDULERS["tilelang.persistent"].build(grid(1, 1), Options())


@given(schedules())
def test_the_certificate_is_what_enumeration_finds(schedule: Schedule) -> None:
    certificate = certify(schedule, limit=ALL)
    if certificate is not None:
        same(schedule, certificate)


@st.composite
def walks(draw: st.DrawFn) -> StridedSchedule:
    """Padded, guarded, serpentine and cut-off walks, decoded id by id, on a grid that need not be theirs."""
    cluster = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 3)]))
    problem = grid(draw(st.integers(1, 9)), draw(st.integers(1, 9)), cluster)
    order = draw(st.sampled_from(list(RasterOrder)))
    sizes = problem.clusters_m, problem.clusters_n
    along, across = sizes if order is RasterOrder.PANEL_N else sizes[::-1]
    walk = PanelWalk(
        along + draw(st.integers(0, 2)),
        across + draw(st.integers(0, 2)),
        draw(st.integers(1, 6)),
        order,
        padded=draw(st.booleans()),
        serpentine=draw(st.booleans()),
    )
    guard = draw(st.booleans())
    num_ids = draw(st.integers(0, walk.num_ids + (9 if guard else 0)))
    stride = draw(st.integers(1, 9))
    tiles = {}
    linear = 0
    for panel in range(-(-walk.across // walk.width)):
        first = panel * walk.width
        width = walk.width if walk.padded else min(walk.width, walk.across - first)
        steps = range(walk.along)
        for step in reversed(steps) if walk.serpentine and panel % 2 else steps:
            for place in range(first, first + width):
                tiles[linear] = (step, place) if order is RasterOrder.PANEL_N else (place, step)
                linear += 1

    def decode(ids: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        found = [tiles.get(int(i), (0, 0)) for i in ids.ravel()]
        m, n = (np.array([tile[axis] for tile in found]).reshape(ids.shape) for axis in (0, 1))
        slow = n if order is RasterOrder.PANEL_N else m
        inside = np.isin(ids, list(tiles)) & (slow < walk.across) if guard else np.array(True)
        return m, n, inside

    return StridedSchedule(
        name="walk",
        problem=problem,
        num_workers=draw(st.just(stride) | st.integers(1, 12)),
        params={},
        padded_m=draw(st.integers(problem.tiles_m, problem.tiles_m + 3)),
        padded_n=draw(st.integers(problem.tiles_n, problem.tiles_n + 3)),
        clock=PhaseClock.WAVE,
        stride=stride,
        num_ids=num_ids,
        decode=decode,
        structure=panel_structure(walk, num_ids, guard=guard),
    )


@given(walks())
def test_walks_of_every_kind(schedule: StridedSchedule) -> None:
    certificate = certify(schedule, limit=ALL)
    if certificate is not None:
        same(schedule, certificate)


def test_ids_that_are_taken_twice_or_never_are_not_certified() -> None:
    spec = SCHEDULERS["tilelang.persistent"]
    for launched in (7, 9):
        assert certify(spec.build(grid(4, 4), Options(launched=launched))) is None
    assert certify(spec.build(grid(4, 4), Options(launched=8))) is not None
    assert certify(spec.build(grid(2, 4), Options(launched=9))) is not None  # no id is at or past the stride


def test_nothing_is_certified_where_boxes_overlap_or_ids_run_past_the_walk() -> None:
    walk = PanelWalk(2, 2, 1, RasterOrder.PANEL_N)
    assert panel_structure(walk, 5) is None
    schedule = SCHEDULERS["tilelang.persistent"].build(grid(2, 2), Options())
    assert isinstance(schedule, StridedSchedule)
    twice = Structure((Box(range(2), range(1)), Box(range(2), range(1))), (Run(range(4)),), walk)
    object.__setattr__(schedule, "structure", twice)
    assert certify(schedule) is None


def test_a_structure_whose_boxes_and_runs_disagree_is_refused() -> None:
    with pytest.raises(ValueError, match="boxes hold 4 tiles, but 3 ids are emitted"):
        Structure((Box(range(2), range(2)),), (Run(range(3)),), PanelWalk(2, 2, 1, RasterOrder.PANEL_N))


BOXES = st.builds(
    lambda a, b, c, d: Box(range(a, a + b), range(c, c + d)), *[st.integers(-3, 5), st.integers(0, 4)] * 2
)


@given(BOXES, BOXES)
def test_boxes_are_sets_of_tiles(one: Box, other: Box) -> None:
    def tiles(box: Box) -> list[tuple[int, int]]:
        return list(itertools.product(box.m, box.n))

    left = [tile for piece in one.minus(other) for tile in tiles(piece)]
    assert len(left) == len(set(left))
    assert set(left) == set(tiles(one)) - set(tiles(other))
    assert set(tiles(one.meet(other))) == set(tiles(one)) & set(tiles(other))
