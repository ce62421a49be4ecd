"""The coverage report as text, JSON (schema tilesched/coverage/1) and Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tilesched.simulator.findings import Finding, Severity, Verdict, verdict_of
from tilesched.simulator.schedule import Schedule
from tilesched.verify.schedule_report import ScheduleReport

__all__ = ["finding_json", "render", "render_fault"]

SCHEMA = "tilesched/coverage/1"


def render(report: ScheduleReport, form: str, *, only_findings: bool = False) -> str:
    """The report in `form`: text, json or markdown. `only_findings` leaves out what is as it should be."""
    if form == "json":
        return json.dumps(_as_json(report), indent=2)
    facts = {} if only_findings else _facts(report)
    title = _title(report.schedule)
    return _document(form, title, facts, report.findings, report.why)


def render_fault(finding: Finding, form: str) -> str:
    """A scheduler that yields no schedule, in `form`."""
    if form == "json":
        body = {"schema": SCHEMA, "verdict": "findings", "findings": [finding_json(finding)]}
        return json.dumps(body, indent=2)
    return _document(form, "no schedule", {}, [finding], "")


def _document(form: str, title: str, facts: Mapping[str, str], findings: Sequence[Finding], why: str) -> str:
    lines = [title] if form == "text" else [f"### {title}", ""]
    if form == "text":
        lines += [f"  {name:<13}{value}" for name, value in facts.items()]
        lines += [f"  {_mark(finding)}: {_sentence(finding)}" for finding in findings]
        lines += [f"  why: {why}"] if why else []
        lines.append(f"verdict: {_verdict_text(findings)}")
        return "\n".join(lines)
    if facts:
        lines += ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items()), ""]
    lines += [f"- **{_mark(finding)}**: {_sentence(finding)}" for finding in findings]
    lines += [f"- why: {why}"] if why else []
    lines += ["", f"**verdict: {_verdict_text(findings)}**"]
    return "\n".join(lines)


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
    parameters = ", ".join(f"{name} {value}" for name, value in schedule.params.items() if value is not None)
    right = coverage.tiles - coverage.missing.count - coverage.repeated.count
    return {
        "tiles": f"{coverage.tiles} = {problem.tiles_m} × {problem.tiles_n} (m × n), {problem.k_blocks} k-blocks each",
        "parameters": parameters,
        "workers": f"{schedule.num_workers} {unit}, {coverage.idle_workers} idle",
        "waves": f"{schedule.num_waves}, the last one {report.last_wave_utilisation:.1%} used "
        f"({coverage.last_wave_work_tiles} of {schedule.num_workers} workers)",
        "balance": f"{coverage.work_tiles_min} to {coverage.work_tiles_max} {work} a worker",
        "coverage": f"{right} of {coverage.tiles} tiles exactly once",
    }


def _mark(finding: Finding) -> str:
    return f"note ({finding.kind})" if finding.severity is Severity.NOTE else str(finding.kind)


def _sentence(finding: Finding) -> str:
    first = finding.facts.get("first")
    count = finding.facts.get("count")
    if not isinstance(first, list) or not isinstance(count, int):
        return finding.message
    more = f" … {count - len(first)} more" if count > len(first) else ""
    return f"{finding.message}: {' '.join(map(_place, first))}{more}"


def _place(place: Mapping[str, object]) -> str:
    """A listed tile, visit, repeat or hole, in a few characters."""
    if "m" not in place:
        return f"worker {place['worker']} wave {place['wave']} (id {place['linear']});"
    tile = f"({place['m']},{place['n']})"
    visits = place.get("visits")
    if isinstance(visits, list):
        by = ", ".join(f"worker {visit['worker']} wave {visit['wave']}" for visit in visits)
        return f"{tile} ×{place['times']} by {by};"
    return tile


def _verdict_text(findings: Sequence[Finding]) -> str:
    verdict = verdict_of(findings)
    if verdict is Verdict.CLEAN:
        return "clean"
    kinds = dict.fromkeys(str(f.kind) for f in findings if f.severity is not Severity.NOTE)
    return f"{verdict.name.lower()} ({', '.join(kinds)})"


def finding_json(finding: Finding) -> dict[str, object]:
    """A finding as JSON reports hold it."""
    return {
        "kind": str(finding.kind),
        "severity": finding.severity.value,
        "message": finding.message,
        **finding.facts,
    }


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
        "findings": [finding_json(finding) for finding in report.findings],
        "why": report.why,
    }
