"""The coverage report as text, JSON (schema tilesched/coverage/1) and Markdown."""

from __future__ import annotations

import json

from tilesched.simulator.findings import verdict_of
from tilesched.simulator.schedule import Schedule
from tilesched.verify.schedule_protocol import ProtocolCheck
from tilesched.verify.schedule_report import ScheduleReport

from .document import document, finding_json

__all__ = ["render"]

SCHEMA = "tilesched/coverage/1"


def render(report: ScheduleReport, form: str, *, only_findings: bool = False) -> str:
    """The report in `form`: text, json or markdown. `only_findings` leaves out what is as it should be."""
    if form == "json":
        return json.dumps(_as_json(report), indent=2)
    facts = {} if only_findings else _facts(report)
    title = _title(report.schedule)
    findings = [*report.findings, *(report.protocol.findings if report.protocol else ())]
    return document(form, title, facts, findings, report.why)


def _title(schedule: Schedule) -> str:
    problem = schedule.problem
    return (
        f"{schedule.name}: M={problem.m} N={problem.n} K={problem.k}, "
        f"tiles {problem.block_m} × {problem.block_n} × {problem.block_k}"
    )


def _facts(report: ScheduleReport) -> dict[str, str]:
    schedule, coverage = report.schedule, report.coverage
    problem = schedule.problem
    clustered = problem.cluster_size > 1
    unit = f"clusters of {problem.cluster_m}x{problem.cluster_n} CTAs" if clustered else "CTAs"
    work = "cluster tiles" if clustered else "tiles"
    parameters = ", ".join(f"{name} {value}" for name, value in schedule.params.items())
    right = coverage.tiles - coverage.missing.count - coverage.repeated.count
    protocol = {} if report.protocol is None else {"protocol": _protocol_line(report.protocol)}
    return {
        "tiles": f"{coverage.tiles} = {problem.tiles_m} × {problem.tiles_n} (m × n), {problem.k_blocks} k-blocks each",
        "parameters": parameters,
        "workers": f"{schedule.num_workers} {unit}, {coverage.idle_workers} idle",
        "waves": f"{schedule.num_waves}, the last one {report.last_wave_utilisation:.1%} used "
        f"({coverage.last_wave_work_tiles} of {schedule.num_workers} workers)",
        "balance": f"{coverage.work_tiles_min} to {coverage.work_tiles_max} {work} a worker",
        "coverage": f"{right} of {coverage.tiles} tiles exactly once, "
        + ("by the structure of the mapping" if report.certified else "each looked at"),
        **protocol,
    }


def _protocol_line(check: ProtocolCheck) -> str:
    verdict = verdict_of(check.findings).name.lower()
    lists = f"{check.lists} different tile list{'s' if check.lists != 1 else ''} of {check.workers} workers"
    return f"{check.name}: {verdict} on {lists}, every interleaving"


def _as_json(report: ScheduleReport) -> dict[str, object]:
    schedule, coverage, problem = report.schedule, report.coverage, report.schedule.problem
    return {
        "schema": SCHEMA,
        "verdict": report.verdict.name.lower(),
        "scheduler": schedule.name,
        "params": dict(schedule.params),
        "problem": {name: getattr(problem, name) for name in type(problem).__slots__},
        "tiles_m": problem.tiles_m,
        "tiles_n": problem.tiles_n,
        "k_blocks": problem.k_blocks,
        "tiles": coverage.tiles,
        "workers": schedule.num_workers,
        "idle_workers": coverage.idle_workers,
        "waves": schedule.num_waves,
        "last_wave_utilisation": report.last_wave_utilisation,
        "work_tiles": coverage.work_tiles,
        "work_tiles_min": coverage.work_tiles_min,
        "work_tiles_max": coverage.work_tiles_max,
        "missing": coverage.missing.count,
        "repeated": coverage.repeated.count,
        "out_of_range": coverage.out_of_range.count,
        "ghosts": coverage.ghosts.count,
        "holes": coverage.holes.count,
        "certified": report.certified,
        "findings": [finding_json(finding) for finding in report.findings],
        "why": report.why,
        "protocol": None
        if report.protocol is None
        else {
            "name": report.protocol.name,
            "verdict": verdict_of(report.protocol.findings).name.lower(),
            "tile_lists": report.protocol.lists,
            "findings": [finding_json(finding) for finding in report.protocol.findings],
        },
    }
