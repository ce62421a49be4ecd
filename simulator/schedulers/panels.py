"""What schedulers that walk panels share: decoding a walk, and a schedule made of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..findings import Finding, Severity
from ..problem import MAX_INT32, Problem
from ..raster import IntArray, RasterOrder, padded_decode, panel_decode
from ..schedule import BoolArray, Decode, PhaseClock, StridedSchedule
from ..structure import PanelWalk, panel_structure
from .spec import RemarkKind

__all__ = ["ALL_EMITTED", "decided_at_run_time", "grid_remarks", "padding_cause", "panel_schedule", "walk_decode"]

ALL_EMITTED: BoolArray = np.array(True)

_MAX_GRID = (MAX_INT32, 65535, 65535)
"""CTAs in x, y and z that CUDA launches (CUDA C++ Programming Guide, table of technical specifications)."""


def walk_decode(walk: PanelWalk, num_ids: int, *, guard: bool = False) -> Decode:
    """The tiles of the walk's ids below `num_ids`; with `guard` those past the axis `across` are not emitted.

    Ids of a walk that is not padded may not lie past it.
    """
    along_m = walk.order is RasterOrder.PANEL_N
    rows, columns = (walk.along, walk.across) if along_m else (walk.across, walk.along)

    def decode(linear: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
        if walk.padded:
            m, n = padded_decode(linear, walk.along, walk.width, walk.order, num_ids)
        else:
            m, n = panel_decode(linear, rows, columns, walk.width, walk.order)
        fast, slow = (m, n) if along_m else (n, m)
        if walk.serpentine:
            fast = np.where(slow // walk.width % 2 == 1, walk.along - 1 - fast, fast)
            m, n = (fast, slow) if along_m else (slow, fast)
        return m, n, slow < walk.across if guard else ALL_EMITTED

    return decode


def panel_schedule(
    name: str,
    problem: Problem,
    walk: PanelWalk,
    *,
    params: Mapping[str, int | str],
    workers: int,
    launched: int | None = None,
    num_ids: int | None = None,
    guard: bool = False,
    padded: tuple[int, int] | None = None,
    clock: PhaseClock = PhaseClock.TILE,
    cause: str = "",
    remarks: Sequence[Finding] = (),
    id_bits: int = 32,
) -> StridedSchedule:
    """The ids of a walk (of all its tiles, or `num_ids`), dealt out to `workers` at a stride of as many.

    `launched`: workers in the grid, if not as many. `guard`: ids past the axis `across` are skipped. `padded`: cluster
    tiles up to which ghosts are meant, those of the problem if not given.
    """
    ids = walk.num_ids if num_ids is None else num_ids
    rows, columns = padded or (problem.clusters_m, problem.clusters_n)
    return StridedSchedule(
        name=name,
        problem=problem,
        num_workers=workers if launched is None else launched,
        params=params,
        padded_m=rows * problem.cluster_m,
        padded_n=columns * problem.cluster_n,
        clock=clock,
        cause=cause,
        remarks=remarks,
        stride=workers,
        num_ids=ids,
        decode=walk_decode(walk, ids, guard=guard),
        structure=panel_structure(walk, ids, guard=guard),
        id_bits=id_bits,
    )


def padding_cause(problem: Problem, rows: int, columns: int) -> str:
    """Why there are ghosts where the grid is padded to rows × columns cluster tiles; empty without padding."""
    m, n = rows * problem.cluster_m, columns * problem.cluster_n
    if (m, n) == (problem.tiles_m, problem.tiles_n):
        return ""
    return (
        f"{problem.tiles_m} × {problem.tiles_n} tiles are padded to {m} × {n}, and all of them are handed out: "
        "the kernel must clip or predicate its ghost tiles"
    )


def decided_at_run_time(what: str) -> Finding:
    """A note: the assignment to workers that is shown is one of many, which coverage does not depend on."""
    message = (
        f"{what}: which worker computes which tile is decided at run time, and each id is taken once whatever the "
        "order; the workers' tiles are shown as if all tiles took the same time"
    )
    return Finding(kind=RemarkKind.DYNAMIC, severity=Severity.NOTE, message=message)


def grid_remarks(problem: Problem, *grid: int) -> list[Finding]:
    """What CUDA says to a grid of so many CTAs in x, y and z: too large, or no multiple of the cluster."""
    remarks = []
    for axis, length, most in zip("xyz", grid, _MAX_GRID, strict=False):
        if not 1 <= length <= most:
            message = f"the grid has {length} CTAs in {axis}, outside [1, {most}]: CUDA refuses the launch"
            remarks.append(Finding(kind=RemarkKind.LAUNCH, message=message, facts={"grid": list(grid)}))
    for axis, length, cluster in zip("xy", grid, (problem.cluster_m, problem.cluster_n), strict=False):
        if length % cluster:
            message = f"the grid of {length} CTAs in {axis} is not a multiple of the cluster {cluster}"
            message += ": CUDA refuses the launch"
            remarks.append(Finding(kind=RemarkKind.LAUNCH, message=message, facts={"grid": list(grid)}))
    return remarks
