"""Golden vectors: work tiles written down from originals, held against the registry.

A vector is {"scheduler", "params", "workers", ...}: the scheduler's name (ours or an alias), its parameters
(likewise), and per worker the ordered [m, n]. Optional: `cta_tiles` (per CTA), `ghosts`, `lost` (CTA tiles).
Those of originals have the entries that `Original.entry` names, and whatever else the original decides (its grid).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from reprlib import repr as shorten

import numpy as np

from tilesched.simulator.errors import InputError, TileschedError
from tilesched.simulator.originals import ORIGINALS
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedule import Schedule, cta_tiles
from tilesched.simulator.schedulers import Options, SchedulerSpec, get

from .coverage import check_coverage
from .listings import check_listing

__all__ = ["VectorResult", "VectorStatus", "check_vectors"]

_PROBLEM_PARAMS = ("tiles_m", "tiles_n", "cluster_m", "sm_count")
_OPTION_PARAMS = ("panel_width", "num_workers", "launched")

_MAX_VECTOR_SIZE = 2**20

Tiles = list[list[list[int]]]


class VectorStatus(StrEnum):
    """What became of a vector."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNKNOWN = "unknown"  # the registry does not know the scheduler yet


@dataclass(frozen=True, slots=True)
class VectorResult:
    """One vector's outcome; `difference` names the first difference of a mismatch."""

    index: int
    scheduler: str
    status: VectorStatus
    difference: str = ""


def check_vectors(vectors: object) -> list[VectorResult]:
    """Hold parsed vectors against the registry. Raises InputError if they are not of the form above."""
    if not isinstance(vectors, list):
        raise InputError(f"golden file holds a {type(vectors).__name__}, not a list of vectors")
    return [_check(index, vector) for index, vector in enumerate(vectors)]


def _check(index: int, vector: object) -> VectorResult:
    if not isinstance(vector, dict):
        raise InputError(f"vector {index} is a {type(vector).__name__}, not an object")
    name, params = vector.get("scheduler"), vector.get("params")
    if isinstance(name, str) and not name.isprintable():
        raise InputError(f"vector {index}: scheduler={name[:40]!r} is not printable text")
    if not isinstance(name, str) or not isinstance(params, dict) or "workers" not in vector:
        raise InputError(f"vector {index} lacks one of scheduler (text), params (object), workers (list)")
    try:
        spec = None if name in ORIGINALS else get(name)
    except InputError:
        return VectorResult(index, name, VectorStatus.UNKNOWN)
    try:
        if spec is None:
            difference = check_listing(ORIGINALS[name], params, vector)
        else:
            difference = _difference(spec, build_vector(spec, params), vector)
    except TileschedError as error:
        difference = f"cannot be built: {error}"
    return VectorResult(index, name, VectorStatus.MISMATCH if difference else VectorStatus.MATCH, difference)


def build_vector(spec: SchedulerSpec, params: Mapping[str, object]) -> Schedule:
    """The schedule of a vector's parameters, on tiles of one element. Raises InputError."""
    values = {spec.param_aliases.get(name, name): value for name, value in params.items()}
    raster = values.pop("raster", None)
    for name, value in values.items():
        if name not in _PROBLEM_PARAMS + _OPTION_PARAMS:
            raise InputError(f"params: {name[:40]!r} is not a parameter of {spec.name}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"params: {name}={shorten(value)} is not an integer")
    if "tiles_m" not in values or "tiles_n" not in values:
        raise InputError("params: tiles_m and tiles_n are needed")
    sizes = {name: value for name, value in values.items() if isinstance(value, int)}
    cluster_m, cluster_n = sizes.get("cluster_m", spec.cluster[0]), spec.cluster[1]
    problem = Problem(
        m=sizes["tiles_m"],
        n=sizes["tiles_n"],
        k=1,
        block_m=1,
        block_n=1,
        block_k=1,
        cluster_m=cluster_m,
        cluster_n=cluster_n,
        sm_count=sizes.get("sm_count", sizes.get("num_workers", 1) * cluster_m * cluster_n),
    )
    options = {name: sizes[name] for name in _OPTION_PARAMS if name in sizes}
    schedule = spec.build(problem, Options(raster=_raster(raster), **options))
    if max(problem.tiles, schedule.num_workers) > _MAX_VECTOR_SIZE:
        raise InputError(f"params: more than {_MAX_VECTOR_SIZE} tiles or workers are not written out")
    return schedule


def _raster(value: object) -> RasterOrder | None:
    if isinstance(value, bool):  # TileLang's column_major
        return RasterOrder.PANEL_N if value else RasterOrder.PANEL_M
    return None if value is None else RasterOrder.parse(str(value))


def _difference(spec: SchedulerSpec, schedule: Schedule, vector: Mapping[str, object]) -> str:
    """The first way in which a schedule differs from a vector, or nothing."""
    work, ctas = _work_tiles(schedule), _cta_tiles(schedule)
    expected = {"workers": ctas if spec.golden_per_cta else work, "cta_tiles": ctas}
    for field, tiles in expected.items():
        if field in vector and (difference := _first_difference(field, tiles, vector[field])):
            return difference
    problem = schedule.problem
    handed = schedule.num_workers * schedule.num_waves * problem.cluster_size  # CTA tiles at most: none is left out
    coverage = check_coverage(schedule, limit=problem.tiles + handed)
    sets = {
        "lost": [[tile.m, tile.n] for tile in coverage.missing.first],
        "ghosts": [[visit.tile.m, visit.tile.n] for visit in coverage.ghosts.first],
    }
    for field, found in sets.items():
        given = vector.get(field, found)
        if not isinstance(given, list) or not _same_set(given, found):
            return f"{field}: the vector has {shorten(given)}, the model {shorten(sorted(found))}"
    return ""


def _same_set(given: Sequence[object], found: Sequence[Sequence[int]]) -> bool:
    """Whether both hold the same tiles, in any order; what is no tile is in no set of tiles."""
    tiles = [tuple(one) for one in given if isinstance(one, list) and all(type(number) is int for number in one)]
    return len(tiles) == len(given) and sorted(tiles) == sorted(map(tuple, found))


def _work_tiles(schedule: Schedule) -> Tiles:
    workers = (schedule.worker(worker) for worker in range(schedule.num_workers))
    return [[[m, n] for m, n in zip(rows.m.tolist(), rows.n.tolist(), strict=True)] for rows in workers]


def _cta_tiles(schedule: Schedule) -> Tiles:
    """Per CTA, cluster after cluster."""
    rows = [schedule.worker(worker) for worker in range(schedule.num_workers)]
    ranks = (tiles for each in rows for tiles in cta_tiles(schedule.problem, each.m, each.n))
    return [np.stack(tiles, axis=1).tolist() for tiles in ranks]


def _first_difference(field: str, model: Tiles, given: object) -> str:
    if not isinstance(given, list):
        return f"{field}: the vector has a {type(given).__name__}, not a list"
    for worker, (ours, theirs) in enumerate(zip(model, given, strict=False)):
        if ours == theirs:
            continue
        if isinstance(theirs, Sequence):
            for position, (tile, other) in enumerate(zip(ours, theirs, strict=False)):
                if tile != other:
                    return f"{field}[{worker}][{position}]: the vector has {shorten(other)}, the model {tile}"
            return f"{field}[{worker}]: the vector has {len(theirs)} tiles, the model {len(ours)}"
        return f"{field}[{worker}]: the vector has {shorten(theirs)}, not a list"
    if len(model) != len(given):
        return f"{field}: the vector has {len(given)} workers, the model {len(model)}"
    return ""
