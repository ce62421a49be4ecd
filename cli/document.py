"""How findings are shown: one document form for all commands, as text and Markdown, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tilesched.simulator.findings import Finding, Severity, Verdict, verdict_of

__all__ = ["document", "fault_document", "finding_json"]


def document(form: str, title: str, facts: Mapping[str, str], findings: Sequence[Finding], why: str) -> str:
    """A title, facts, findings, why, and the verdict, in `form`: text or markdown."""
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


def fault_document(finding: Finding, form: str) -> str:
    """What stands in place of a result when the work ended in a finding: text, markdown or json."""
    if form == "json":
        body = {"schema": "tilesched/fault/1", "verdict": "findings", "findings": [finding_json(finding)]}
        return json.dumps(body, indent=2)
    return document(form, "no result", {}, [finding], "")
