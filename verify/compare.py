"""All schedulers and parameters for one problem, ranked by what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tilesched.simulator.errors import InputError, NoScheduleError
from tilesched.simulator.findings import Finding, Severity, Verdict, verdict_of
from tilesched.simulator.locality import Traffic, device_waves, operand_traffic, resident_workers
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedule import Schedule
from tilesched.simulator.schedulers import Options, SchedulerSpec

from .schedule_report import ScheduleReport, check_schedule

__all__ = ["PANEL_WIDTHS", "Candidate", "Cost", "compare"]

PANEL_WIDTHS = (1, 2, 4, 8, 16)
"""Tried where a scheduler has panels and no width is chosen."""

_CLUSTERS = ((1, 1), (2, 1))


@dataclass(frozen=True, slots=True)
class Cost:
    """What a schedule costs on its device, one CTA an SM; shares are 0 to 1.

    `last_wave_utilisation`: of the SMs, those that compute a tile in the last device wave. `balance`: output tiles over
    SMs times device waves, the mean work of an SM over the time that all take, ghost tiles not counted.
    """

    waves: int
    last_wave_utilisation: float
    balance: float
    traffic: Traffic
    operands: float
    """Elements of A and B that a device wave reads for a k-block, each tile once."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scheduler with parameters: its cost, or findings alone where it yields no schedule."""

    scheduler: str
    params: Mapping[str, Any]
    findings: Sequence[Finding]
    cost: Cost | None

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.findings)

    @property
    def kinds(self) -> list[str]:
        """Kinds of errors, and of what could not be decided."""
        bad = (Severity.ERROR, Severity.INCOMPLETE)
        return list(dict.fromkeys(str(finding.kind) for finding in self.findings if finding.severity in bad))


def compare(
    specs: Sequence[SchedulerSpec],
    problem: Problem,
    chosen: Options,
    cluster: tuple[int, int] | None = None,
) -> list[Candidate]:
    """Every scheduler on the problem with every parameter that is not chosen, best first; faulty ones come last.

    Ranked by waves, then last-wave utilisation, balance, and operand traffic. What a scheduler does not take is left
    out. Raises InputError where a schedule has too many tiles to look at.
    """
    found = [
        candidate
        for spec in specs
        for options, shape in _variants(spec, chosen, cluster)
        if (candidate := _candidate(spec, problem, options, shape)) is not None
    ]
    return sorted(found, key=_rank)


def _rank(candidate: Candidate) -> tuple[float, ...]:
    cost = candidate.cost
    if cost is None:
        return (float("inf"),)
    return (
        candidate.verdict is not Verdict.CLEAN,
        cost.waves,
        -cost.last_wave_utilisation,
        -cost.balance,
        cost.operands,
    )


def _variants(
    spec: SchedulerSpec, chosen: Options, cluster: tuple[int, int] | None
) -> Iterator[tuple[Options, tuple[int, int]]]:
    names = {param.name for param in spec.params}
    clusters = [cluster] if cluster else list(dict.fromkeys((spec.cluster, *(_CLUSTERS if "cluster" in names else ()))))
    tried: dict[str, Sequence[Any]] = {"panel_width": PANEL_WIDTHS, "raster": tuple(RasterOrder)}
    open_names = [name for name in tried if name in names and getattr(chosen, name) is None]
    for shape, *values in product(clusters, *(tried[name] for name in open_names)):
        yield replace(chosen, **dict(zip(open_names, values, strict=True))), shape


def _candidate(spec: SchedulerSpec, problem: Problem, options: Options, cluster: tuple[int, int]) -> Candidate | None:
    try:
        schedule = spec.build(replace(problem, cluster_m=cluster[0], cluster_n=cluster[1]), options)
    except InputError:
        return None
    except NoScheduleError as fault:
        return Candidate(spec.name, {"cluster": "x".join(map(str, cluster))}, [fault.finding], None)
    report = check_schedule(schedule, limit=0)
    return Candidate(
        spec.name, {"cluster": "x".join(map(str, cluster)), **schedule.params}, report.findings, _cost(schedule, report)
    )


def _cost(schedule: Schedule, report: ScheduleReport) -> Cost:
    problem, coverage, waves = schedule.problem, report.coverage, device_waves(schedule)
    slots = resident_workers(schedule)
    last = coverage.last_wave_work_tiles if schedule.num_workers == slots else coverage.work_tiles - (waves - 1) * slots
    computed = coverage.tiles - coverage.missing.count
    traffic = operand_traffic(schedule)
    return Cost(
        waves=waves,
        last_wave_utilisation=last * problem.cluster_size / problem.sm_count,
        balance=computed / (waves * problem.sm_count),
        traffic=traffic,
        operands=(traffic.a_tiles * problem.block_m + traffic.b_tiles * problem.block_n) * problem.block_k,
    )
