"""Check a library's scheduler as it is: every tile and k-block, pairs of CTAs, and waits on CTAs that cannot start."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Verdict
from tilesched.simulator.originals import ORIGINALS, Piece
from tilesched.verify.listing_report import ListingReport, check_original

from .document import document, finding_json
from .options import add_format_arguments, did_you_mean, integer

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/original/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `original`."""
    parser.add_argument("name", help="one that `tilesched-sim originals` lists")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter, as JSON or a word, such as cluster=[2,1]; may be repeated (without any: the example)",
    )
    parser.add_argument("--resident", type=integer, metavar="N", help="CTAs on the device at once: do waits end?")
    add_format_arguments(parser, "text", "json", "markdown")


def run(args: argparse.Namespace) -> int:
    """Judge, print, and return the exit code. Raises InputError."""
    if args.name not in ORIGINALS:
        raise InputError(f"original={args.name!r} is unknown; {did_you_mean(args.name, ORIGINALS)}")
    original = ORIGINALS[args.name]
    params = dict(map(_assignment, args.set)) or original.example
    report = check_original(original, params, args.resident)
    if report.verdict is Verdict.CLEAN and args.quiet:
        return report.verdict
    print(json.dumps(_as_json(report), indent=2) if args.format == "json" else _as_text(report, args.format))
    return report.verdict


def _assignment(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"set={text[:40]!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value  # a word: orders and modes need no quotes


def _as_text(report: ListingReport, form: str) -> str:
    listing = report.listing
    counts = [len(work) for work in listing.workers]
    right = len(listing.real) - len({*report.covered.lost, *report.covered.repeated})
    facts = {
        "parameters": ", ".join(f"{name} {_value(value)}" for name, value in report.params.items()),
        "entries": report.original.entry,
        "workers": f"{len(counts)}, {counts.count(0)} idle",
        "work": f"{report.launched} entries, {min(counts, default=0)} to {max(counts, default=0)} a worker",
        "coverage": f"{right} of {len(listing.real)} tiles exactly once"
        + (f", {report.partial} of them in several pieces" if report.partial else ""),
        **{name: _value(value) for name, value in listing.facts.items() if name != "clc_ids"},
    }
    return document(form, f"{report.original.name} ({report.original.source})", facts, report.findings, "")


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _as_json(report: ListingReport) -> dict[str, object]:
    listing = report.listing
    return {
        "schema": SCHEMA,
        "original": report.original.name,
        "source": report.original.source,
        "entry": report.original.entry,
        "params": dict(report.params),
        "verdict": report.verdict.name.lower(),
        "tiles": len(listing.real),
        "entries": report.launched,
        "facts": dict(listing.facts),
        "workers": [list(map(_entry, work)) for work in listing.workers],
        "findings": list(map(finding_json, report.findings)),
    }


def _entry(one: Sequence[int] | Piece | None) -> object:
    if isinstance(one, Piece):
        return {"tile": list(one.tile), "k0": one.k_begin, "k": one.k_count}
    return None if one is None else list(one)
