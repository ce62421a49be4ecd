"""List the schedulers with their parameters, defaults and sources."""

from __future__ import annotations

import argparse
import json

from tilesched.simulator.findings import Verdict
from tilesched.simulator.schedulers import SCHEDULERS

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/schedulers/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `schedulers`."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")


def run(args: argparse.Namespace) -> int:
    """Print the registry."""
    if args.format == "json":
        rows = [
            {
                "name": spec.name,
                "summary": spec.summary,
                "source": spec.source,
                "aliases": list(spec.aliases),
                "cluster": list(spec.cluster),
                "params": [
                    {"name": param.name, "default": param.default, "meaning": param.meaning} for param in spec.params
                ],
            }
            for spec in SCHEDULERS.values()
        ]
        print(json.dumps({"schema": SCHEMA, "schedulers": rows}, indent=2))
        return Verdict.CLEAN
    for spec in SCHEDULERS.values():
        print(f"{spec.name}: {spec.summary}\n  source: {spec.source}")
        for param in spec.params:
            print(f"  {param.name:<13}{param.meaning} (default: {param.default})")
    return Verdict.CLEAN
