"""A protocol on the tile lists that a schedule gives its workers: holes, empty workers and ghosts as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Finding, Severity
from tilesched.simulator.protocol.builtin import BuiltIn, Loop, Work, role_mismatch
from tilesched.simulator.protocol.kinds import ProtocolKind
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol
from tilesched.simulator.schedule import PhaseClock, Schedule

__all__ = ["ROLES", "ProtocolCheck", "check_protocol"]

ROLES = ("load", "mma", "epilogue")

_MAX_ROWS = 2**24  # waves x workers that are looked at
_MAX_LISTS = 64  # different tile lists that are judged
_MAX_ROLE_ROWS = 2**20  # where roles have schedulers of their own: rows are compared one by one

Waves: TypeAlias = tuple[int | None, ...]
"""A worker's waves: the k-blocks of its tile, or None for a wave that it skips before a later tile."""


@dataclass(frozen=True, slots=True)
class ProtocolCheck:
    """What was judged: the protocol's name, how many workers and different tile lists, and what is wrong."""

    name: str
    workers: int
    lists: int
    findings: tuple[Finding, ...]


def check_protocol(
    one: BuiltIn, params: Mapping[str, int], schedule: Schedule, others: Mapping[str, Schedule]
) -> ProtocolCheck:
    """Judge a built-in on every worker's tile list. `others`: schedules that roles of ROLES have instead.

    Raises InputError if the protocol takes no tile lists, is for another cluster, or a list is beyond its bounds.
    """
    problem = schedule.problem
    if one.on_work is None:
        raise InputError(f"protocol={one.name!r} takes no tile lists: what it does depends on answers")
    if (problem.cluster_m, problem.cluster_n) != one.cluster:
        raise InputError(
            f"protocol={one.name!r} is for clusters of {one.cluster[0]}x{one.cluster[1]} CTAs, the problem has "
            f"{problem.cluster_m}x{problem.cluster_n}"
        )
    loop = Loop.WAVE if schedule.clock is PhaseClock.WAVE and one.counts_waves else Loop.TILE
    if others:
        return _check_roles(one, params, schedule, others, loop)
    lists = _lists(schedule)
    if lists is None:
        rows = schedule.num_waves * schedule.busy_workers
        return _result(one, schedule, 0, [_left_out(one, f"{rows} waves of workers are more than {_MAX_ROWS}")])
    findings: list[Finding] = []
    for waves, worker in list(lists.items())[:_MAX_LISTS]:
        entries = waves if loop is Loop.WAVE else [k for k in waves if k is not None]  # tiles alone are counted
        work = Work.same([None if k is None else number for number, k in enumerate(entries)])
        findings += _judge(one.on_work(work, _k_blocks(waves, loop), loop, params), worker)
    if len(lists) > _MAX_LISTS:
        findings.append(_left_out(one, f"{len(lists)} different tile lists are more than {_MAX_LISTS}"))
    return _result(one, schedule, len(lists), findings)


def _result(one: BuiltIn, schedule: Schedule, lists: int, findings: Sequence[Finding]) -> ProtocolCheck:
    first: dict[tuple[str, object], Finding] = {}
    for finding in findings:
        first.setdefault((str(finding.kind), finding.facts.get("about")), finding)
    return ProtocolCheck(one.name, schedule.num_workers, lists, tuple(first.values()))


def _left_out(one: BuiltIn, why: str) -> Finding:
    return Finding(
        kind=ProtocolKind.UNDECIDED,
        message=f"{one.name} is not judged on every worker: {why}; `tilesched-sim protocol {one.name}` decides all",
        severity=Severity.INCOMPLETE,
        facts={"about": one.name},
    )


def _judge(protocol: Protocol, worker: int) -> list[Finding]:
    """The findings for one tile list, with the first worker that has it."""
    return _of_worker(check_ordered(protocol), worker)


def _of_worker(findings: Sequence[Finding], worker: int) -> list[Finding]:
    return [
        replace(finding, message=f"worker {worker}: {finding.message}", facts={**finding.facts, "worker": worker})
        for finding in findings
    ]


def _lists(schedule: Schedule) -> dict[Waves, int] | None:
    """Every tile list, with the first worker that has it; None if there are too many rows to look at."""
    waves, busy = schedule.num_waves, schedule.busy_workers
    if waves * busy > _MAX_ROWS:
        return None
    found: dict[Waves, int] = {}
    for workers in schedule.worker_blocks() if waves else ():
        rows = schedule.block(workers, range(waves))
        shape = (waves, len(workers))
        k_blocks = np.broadcast_to(rows.k_end - rows.k_begin, shape)
        table = np.where(np.broadcast_to(rows.emitted, shape), k_blocks, -1)
        columns, first = np.unique(table, axis=1, return_index=True)
        for column, place in zip(columns.T, first, strict=True):
            found.setdefault(_waves(column.tolist()), workers.start + int(place))
    if busy < schedule.num_workers or not found:
        found.setdefault((), busy)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _waves(column: Sequence[int]) -> Waves:
    """-1 is a wave without a tile; those after the last tile are not there at all."""
    last = max((place for place, k in enumerate(column) if k >= 0), default=-1)
    return tuple(None if k < 0 else k for k in column[: last + 1])


def _k_blocks(waves: Waves, loop: Loop) -> int | tuple[int, ...]:
    """As the protocol takes it: one number where all tiles have the same, which a clock of waves needs."""
    taken = [k for k in waves if k is not None]
    if len(set(taken)) <= 1:
        return taken[0] if taken else 1
    if loop is Loop.WAVE:
        raise InputError("a clock of waves needs the same number of k-blocks in every tile")
    return tuple(taken)


def _check_roles(
    one: BuiltIn, params: Mapping[str, int], schedule: Schedule, others: Mapping[str, Schedule], loop: Loop
) -> ProtocolCheck:
    """Roles that take their tiles from schedulers of their own: every worker is compared and judged."""
    schedules = [others.get(role, schedule) for role in ROLES]
    rows = sum(each.num_waves * each.num_workers for each in schedules)
    if rows > _MAX_ROLE_ROWS:
        raise InputError(f"waves*workers={rows} of all roles is outside [0, {_MAX_ROLE_ROWS}]")
    findings: list[Finding] = []
    judged: set[tuple[Waves, ...]] = set()
    assert one.on_work is not None
    make = one.on_work
    for worker in range(max(each.num_workers for each in schedules)):
        work = Work(*(_tiles(each, worker) for each in schedules))
        findings += _of_worker(role_mismatch(work), worker)
        shape = tuple(tuple(None if tile is None else 1 for tile in tiles) for tiles in work.lists())
        if shape not in judged and len(judged) < _MAX_LISTS:
            findings += _judge(make(work, schedule.problem.k_blocks, loop, params), worker)
        elif shape not in judged:
            findings.append(_left_out(one, f"there are more than {_MAX_LISTS} different tile lists"))
        judged.add(shape)
    return _result(one, schedule, len(judged), findings)


def _tiles(schedule: Schedule, worker: int) -> tuple[int | None, ...]:
    """A worker's tiles as numbers, wave by wave."""
    if worker >= schedule.busy_workers or not schedule.num_waves:
        return ()
    rows = schedule.block(range(worker, worker + 1), range(schedule.num_waves))
    shape = (schedule.num_waves, 1)
    numbers = np.where(np.broadcast_to(rows.emitted, shape), rows.m * (schedule.padded_n + 1) + rows.n, -1)
    flat = numbers.ravel().tolist()
    last = max((place for place, number in enumerate(flat) if number >= 0), default=-1)
    return tuple(None if number < 0 else number for number in flat[: last + 1])
