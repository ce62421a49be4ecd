"""Check a recorded trace: against the model, its roles against each other, and its coverage of the output."""

from __future__ import annotations

import argparse
import json

from tilesched.simulator.findings import Verdict

from .document import document, finding_json
from .options import add_format_arguments

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/verify/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `verify`."""
    parser.add_argument("file", help="a trace, npz or JSON lines; docs/trace.md has the format")
    add_format_arguments(parser, "text", "json", "markdown")


def run(args: argparse.Namespace) -> int:
    """Print what the trace shows; the exit code of its verdict."""
    from tilesched.simulator.trace_codec import load
    from tilesched.verify.conformance import check_trace

    report = check_trace(load(args.file))
    if report.verdict is Verdict.CLEAN and args.quiet:
        return report.verdict
    header = report.trace.header
    records = len(report.trace.columns["cta"])
    if args.format == "json":
        body = {
            "schema": SCHEMA,
            "verdict": report.verdict.name.lower(),
            "trace": header.to_json(),
            "records": records,
            "findings": [finding_json(finding) for finding in report.findings],
        }
        print(json.dumps(body, indent=2))
        return report.verdict
    problem = header.problem
    facts = {
        "recorded": f"{records} records of {header.ctas} CTAs, roles {', '.join(header.roles)}",
        "on": ", ".join(header.device.values()) or "not said",
        "model": report.schedule.name if report.schedule else "none",
        "parameters": ", ".join(f"{name} {value}" for name, value in header.params.items()),
    }
    title = f"{args.file}: kernel {header.kernel} ({header.source}), M={problem.m} N={problem.n} K={problem.k}"
    print(document(args.format, title, {} if args.quiet else facts, report.findings, ""))
    return report.verdict
