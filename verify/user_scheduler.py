"""A user's own scheduler: a Python function in a file, run in a process of its own and written out.

The function is one of
- `f(linear) -> (m, n) | None`: worker w takes the ids w, w + workers, ...; None skips the id;
- a generator function `f(worker)` that yields a worker's (m, n), or None for a wave that it skips.
(m, n) are cluster tiles. Further parameters are supplied by name: see SUPPLIED.

The process bounds what the function can do to us: time, memory, its own prints, and exits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import InputError, NoScheduleError
from tilesched.simulator.findings import Finding, Severity
from tilesched.simulator.intmath import ceil_div
from tilesched.simulator.problem import Problem, require_int32
from tilesched.simulator.schedule import PhaseClock, TableSchedule
from tilesched.simulator.schedulers import DEFAULT_PANEL_WIDTH, Options

from .user_child import COLUMNS, SUPPLIED, Outcome, Request

__all__ = ["SUPPLIED", "UserKind", "run_user_scheduler"]

_MAX_WORKERS = 2**20
_GRACE_S = 5.0  # beyond the child's own limit: for its start, and for a call that never lets go of Python


class UserKind(StrEnum):
    """Kinds of findings about a user's function, and about what had to be assumed of it."""

    RAISED = "raised"  # it raised an exception, or ended the process
    NONSENSE = "nonsense"  # it returned something that is neither a pair of integers nor None
    ENDLESS = "endless"  # it never stops handing out tiles, or does not return
    ASSUMED = "assumed"  # the ids that the kernel visits were taken from the function


def run_user_scheduler(
    reference: str,
    problem: Problem,
    options: Options,
    *,
    num_ids: int | None = None,
    clock: PhaseClock = PhaseClock.WAVE,
    time_limit_s: float = 60.0,
    jobs: int = 1,
) -> TableSchedule:
    """The schedule of `path.py:function` on a problem.

    `jobs`: processes that share the workers of the generator form, or the ids where `num_ids` is given.

    `num_ids`: ids that the kernel visits (linear form only); by default they end where the function has
    returned None for max(1024, 2 * (cluster tiles + workers)) ids in a row.
    Raises InputError if the reference is unusable, NoScheduleError if the function misbehaves.
    """
    path, _, function = reference.rpartition(":")
    if not path or not function.isidentifier():
        raise InputError(f"scheduler-file={reference!r} is not of the form FILE.py:FUNCTION")
    if not Path(path).is_file():
        raise InputError(f"scheduler-file={path!r} is not a file")
    if options.raster is not None or options.launched is not None:
        raise InputError("raster and launched are not parameters of a scheduler file")
    require_int32("tiles_m*tiles_n", problem.tiles)
    if num_ids is not None:
        require_int32("ids", num_ids)
    workers = options.num_workers or problem.sm_count // problem.cluster_size
    if workers > _MAX_WORKERS:
        raise InputError(f"num_workers={workers} is outside [1, {_MAX_WORKERS}] for a scheduler file")
    request = Request(
        path=str(Path(path).resolve()),
        function=function,
        supplied={
            "tiles_m": problem.tiles_m,
            "tiles_n": problem.tiles_n,
            "clusters_m": problem.clusters_m,
            "clusters_n": problem.clusters_n,
            "k_blocks": problem.k_blocks,
            "num_workers": workers,
            "panel_width": options.panel_width or DEFAULT_PANEL_WIDTH,
        },
        num_workers=workers,
        num_ids=num_ids,
        quiet_ids=max(1024, 2 * (problem.clusters_m * problem.clusters_n + workers)),
        max_tiles=4 * (problem.clusters_m * problem.clusters_n + workers) + 1024,
        time_limit_s=time_limit_s,
    )
    outcome, table = _run_children(request, jobs)
    _raise_for(outcome, reference)
    order = np.argsort(table["worker"], kind="stable")
    rows = np.bincount(table["worker"], minlength=workers)
    return TableSchedule(
        name=reference,
        problem=problem,
        num_workers=workers,
        params={
            "panel_width": request.supplied["panel_width"],
            "num_workers": workers,
            **({} if num_ids is None else {"ids": num_ids}),
        },
        padded_m=problem.clusters_m * problem.cluster_m,
        padded_n=problem.clusters_n * problem.cluster_n,
        clock=clock,
        remarks=_assumptions(problem, request, outcome, table),
        offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)]),
        linear=table["linear"][order],
        m=table["m"][order],
        n=table["n"][order],
        emitted=table["emitted"][order].astype(np.bool_),
    )


def _run_children(request: Request, jobs: int) -> tuple[Outcome, dict[str, npt.NDArray[np.int64]]]:
    """The first outcome that is not right, by ids or workers, or the rows of all processes in that order."""
    if jobs == 1:
        return _run_child(request)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(_run_child, (replace(request, part=part, parts=jobs) for part in range(jobs))))
    outcome = next((outcome for outcome, _ in found if outcome.status != "ok"), found[0][0])
    if outcome.status != "ok":
        return outcome, {}
    table = {name: np.concatenate([rows[name] for _, rows in found]) for name in COLUMNS}
    tiles = int(table["emitted"].sum())
    if tiles > request.max_tiles:
        return Outcome("endless", f"{request.function} has handed out {tiles} tiles, and has not ended"), {}
    return outcome, table


def _run_child(request: Request) -> tuple[Outcome, dict[str, npt.NDArray[np.int64]]]:
    command = [sys.executable, "-P", "-m", "tilesched.verify.user_child", json.dumps(vars(request))]
    limit_s = request.time_limit_s + _GRACE_S
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=limit_s)
    except subprocess.TimeoutExpired:
        text = f"{request.function} holds the interpreter and does not return within {limit_s:g} s"
        return Outcome("endless", text), {}
    line, _, data = done.stdout.partition(b"\n")
    if not line:
        return Outcome("raised", f"{request.function} ended its process with code {done.returncode}"), {}
    fields = json.loads(line)
    rows = fields.pop("rows")
    columns = np.frombuffer(data, np.int64).reshape(len(COLUMNS), rows)
    return Outcome(**fields), dict(zip(COLUMNS, columns, strict=True))


def _raise_for(outcome: Outcome, reference: str) -> None:
    if outcome.status == "unusable":
        raise InputError(f"scheduler-file={reference!r}: {outcome.text}")
    if outcome.status != "ok":
        raise NoScheduleError(
            Finding(kind=UserKind(outcome.status), message=outcome.text, facts={"scheduler": reference})
        )


def _assumptions(
    problem: Problem, request: Request, outcome: Outcome, table: dict[str, npt.NDArray[np.int64]]
) -> list[Finding]:
    """A note where the verdict rests on ids that the kernel's loop may not reach."""
    ids = len(table["linear"])
    waves = ceil_div(ids, request.num_workers)
    fewest = ceil_div(problem.clusters_m * problem.clusters_n, request.num_workers)
    if outcome.generator or request.num_ids is not None or waves <= fewest:
        return []
    message = (
        f"the kernel is taken to visit all {ids} ids up to the function's last tile, {waves} waves where "
        f"{fewest} could do; give --ids if its loop ends earlier"
    )
    facts = {"ids": ids, "waves": waves, "fewest_waves": fewest}
    return [Finding(kind=UserKind.ASSUMED, message=message, severity=Severity.NOTE, facts=facts)]
