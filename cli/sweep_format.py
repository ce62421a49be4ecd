"""The summary of a sweep as text and JSON (schema tilesched/sweep/1), and its table as CSV and JSON."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Verdict
from tilesched.verify.safe_shapes import ANY, DERIVED, ShapeRule, smallest
from tilesched.verify.shapes import REFUSED, UNDECIDED, Table
from tilesched.verify.sweep import Sweep

__all__ = ["FLAGS", "exit_code", "render", "require_table_path", "write_table"]

SCHEMA, TABLE_SCHEMA = "tilesched/sweep/1", "tilesched/sweep-table/1"
_LISTED = 20  # failing shapes
FLAGS = {"sm_count": "sms", "panel_width": "swizzle", "num_workers": "workers"}
"""Flags of the command that do not have the name of their axis."""


def exit_code(sweep: Sweep) -> Verdict:
    """Incomplete where shapes were not judged, whatever the others are: nothing partial is a verdict on the space."""
    verdicts = set(sweep.table["verdict"].tolist())
    if sweep.stopped is not None or verdicts & {UNDECIDED, "incomplete"}:
        return Verdict.INCOMPLETE
    return Verdict.FINDINGS if "findings" in verdicts else Verdict.CLEAN


def render(sweep: Sweep, rules: Sequence[ShapeRule] | None, form: str) -> str:
    """The summary in `form`: text or json. `rules` is None where none were looked for."""
    if form == "json":
        return json.dumps(_document(sweep, rules), indent=2)
    table = sweep.table
    counts = Counter(table["verdict"].tolist())
    judged = table["index"].size
    lines = [f"sweep of {', '.join(sweep.space.axes['scheduler'])}: {_axes(sweep)}"]
    stopped = f", stopped by {sweep.stopped}; those judged are spread over all ranges" if sweep.stopped else ""
    lines.append(f"  covered      {judged} of {sweep.space.size} shapes in {sweep.seconds:.1f} s{stopped}")
    lines.append(f"  clean        {counts['clean']}")
    lines += [
        f"  {name:<13}{counts[verdict]}{_because(table, verdict)}"
        for name, verdict in (("failing", "findings"), ("incomplete", "incomplete"), *((v, v) for v in _APART))
        if counts[verdict]
    ]
    for rule in rules or ():
        lines += _rule_lines(sweep, rule)
    if rules is None and counts["findings"]:
        lines.append("  rules        not looked for")
        lines.append(f"  smallest     {_command(sweep, int(_failing(table)[0]))}")
    lines.append(f"verdict: {exit_code(sweep).name.lower()}")
    return "\n".join(lines)


_APART = (REFUSED, UNDECIDED)


def _axes(sweep: Sweep) -> str:
    return ", ".join(f"{FLAGS.get(name, name)} {_values(one)}" for name, one in _varied(sweep).items()) or "one shape"


def _varied(sweep: Sweep) -> dict[str, Sequence[Any]]:
    return {name: one for name, one in sweep.space.axes.items() if len(one) > 1 and name != "scheduler"}


def _values(one: Sequence[Any]) -> str:
    if isinstance(one, range):
        return f"{one[0]}:{one[-1]}" + (f":{one.step}" if one.step > 1 else "")
    shown = ["x".join(map(str, value)) if isinstance(value, tuple) else str(value) for value in one[:6]]
    return ",".join(shown) + (f",… ({len(one)})" if len(one) > 6 else "")


def _because(table: Table, verdict: str) -> str:
    rows = table["verdict"] == verdict
    if verdict in _APART:
        return f": {table['reason'][rows][0]}"
    kinds = Counter(kind for kinds in table["kinds"][rows].tolist() for kind in kinds.split("+") if kind)
    return f": {', '.join(f'{kind} {count}' for kind, count in kinds.most_common())}" if kinds else ""


def _rule_lines(sweep: Sweep, rule: ShapeRule) -> list[str]:
    report = rule.report
    of = f"{rule.scheduler}{' ' + rule.raster if len(sweep.space.axes.get('raster', ())) > 1 else ''}"
    lines = [f"  {of}: {rule.kind}"]
    fails = f"{rule.failing.size} of the sweep's fail"
    if report.rule is not None:
        used = [f"{name} = {text}" for name, text in DERIVED.items() if name in report.rule.text]
        lines.append(f"    iff {report.rule.text}")
        lines += [f"    where {one}" for one in used]
        tested = f"and each of {report.tested} random ones, up to 3 times as far" if report.tested else _UNTESTED
        lines.append(f"    fits all {report.fitted} shapes that it was made from ({fails}), {tested}")
    elif report.candidate is not None:
        lines.append(f"    no rule is stated: {report.candidate.text} fits {report.fitted} shapes, but not")
        lines.append(f"    {', '.join(f'{name}={value}' for name, value in (report.counterexample or {}).items())}")
    else:
        lines.append(f"    no short rule fits; {fails}")
    shown = rule.failing[: 1 if report.rule is not None else 5]
    lines += [f"    {'smallest' if not at else 'then'}: {_command(sweep, int(row))}" for at, row in enumerate(shown)]
    return lines


_UNTESTED = "with no range beyond which to test it"


def _failing(table: Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    return smallest(table, np.flatnonzero(table["verdict"] == "findings"))


def _command(sweep: Sweep, row: int) -> str:
    """The command that reports on one shape."""
    shape = sweep.space.shape(int(sweep.table["index"][row]))
    words = []
    for name, value in shape.items():
        if name == "scheduler":
            words.append(f"--scheduler{'-file' if '.py:' in value else ''} {value}")
        elif name not in ("k", "block_k") or len(sweep.space.axes["k"]) > 1:
            text = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
            words.append(f"--{FLAGS.get(name, name).replace('_', '-')} {text}")
    return f"tilesched-sim {' '.join(words)}"


def _document(sweep: Sweep, rules: Sequence[ShapeRule] | None) -> dict[str, object]:
    table = sweep.table
    return {
        "schema": SCHEMA,
        "verdict": exit_code(sweep).name.lower(),
        "axes": {name: _json_values(one) for name, one in sweep.space.axes.items()},
        "shapes": sweep.space.size,
        "covered": int(table["index"].size),
        "stopped": sweep.stopped,
        "seconds": round(sweep.seconds, 3),
        "verdicts": dict(Counter(table["verdict"].tolist())),
        "failing": [_json_row(table, int(row)) for row in _failing(table)[:_LISTED]],
        "rules": None if rules is None else [_json_rule(table, rule) for rule in rules],
    }


def _json_values(one: Sequence[Any]) -> object:
    if isinstance(one, range):
        return {"first": one[0], "last": one[-1], "step": one.step}
    return [list(value) if isinstance(value, tuple) else value for value in one]


def _json_row(table: Table, row: int) -> dict[str, object]:
    return {name: column[row].item() for name, column in table.items()}


def _json_rule(table: Table, rule: ShapeRule) -> dict[str, object]:
    report = rule.report
    return {
        "scheduler": rule.scheduler,
        "raster": rule.raster or None,
        "kind": None if rule.kind == ANY else rule.kind,
        "fails_iff": report.rule and report.rule.text,
        "where": {name: text for name, text in DERIVED.items() if report.rule and name in report.rule.text},
        "fitted": report.fitted,
        "failing": int(rule.failing.size),
        "tested": report.tested,
        "rejected": report.candidate.text if report.candidate and not report.rule else None,
        "counterexample": report.counterexample and dict(report.counterexample),
        "smallest": _json_row(table, int(rule.failing[0])),
    }


def require_table_path(path: str) -> None:
    """InputError unless `path` ends in .csv or .json and its folder is there: before the work, not after it."""
    if Path(path).suffix.lower() not in _WRITERS:
        raise InputError(f"out={path!r} does not end in {' or '.join(_WRITERS)}")
    if not Path(path).parent.is_dir():
        raise InputError(f"out={path!r}: no such folder")


def write_table(table: Table, path: str) -> None:
    """Write a row for each shape. Raises InputError for an unwritable place."""
    try:
        with open(path, "w", newline="", encoding="utf-8") as file:
            _WRITERS[Path(path).suffix.lower()](table, file)
    except OSError as error:
        raise InputError(f"out={path!r}: {error.strerror}") from None


def _write_csv(table: Table, file: Any) -> None:
    writer = csv.writer(file)
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))


def _write_json(table: Table, file: Any) -> None:
    columns: Mapping[str, list[object]] = {name: column.tolist() for name, column in table.items()}
    json.dump({"schema": TABLE_SCHEMA, "columns": columns}, file)


_WRITERS = {".csv": _write_csv, ".json": _write_json}
