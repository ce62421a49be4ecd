"""List the libraries' schedulers that `original` checks, with what their entries mean and an example."""

from __future__ import annotations

import argparse
import json

from tilesched.simulator.findings import Verdict
from tilesched.simulator.originals import ORIGINALS

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/originals/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `originals`."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    if args.format == "json":
        rows = [
            {"name": one.name, "source": one.source, "entry": one.entry, "example": one.example}
            for one in ORIGINALS.values()
        ]
        print(json.dumps({"schema": SCHEMA, "originals": rows}, indent=2))
        return Verdict.CLEAN
    for one in ORIGINALS.values():
        print(f"{one.name}: {one.entry}\n  source: {one.source}\n  example: {json.dumps(one.example)}")
    return Verdict.CLEAN
