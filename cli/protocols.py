"""List the built-in protocols with their parameters, defaults and sources."""

from __future__ import annotations

import argparse
import json

from tilesched.simulator.findings import Verdict
from tilesched.simulator.protocol.builtin import BUILT_INS

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/protocols/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `protocols`."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")


def run(args: argparse.Namespace) -> int:
    """Print the registry."""
    if args.format == "json":
        rows = [
            {
                "name": one.name,
                "summary": one.summary,
                "source": one.source,
                "params": [
                    {"name": name, "default": param.default, "meaning": param.meaning}
                    for name, param in one.params.items()
                ],
            }
            for one in BUILT_INS.values()
        ]
        print(json.dumps({"schema": SCHEMA, "protocols": rows}, indent=2))
        return Verdict.CLEAN
    for one in BUILT_INS.values():
        print(f"{one.name}: {one.summary}\n  source: {one.source}")
        for name, param in one.params.items():
            print(f"  {name:<18}{param.meaning} (default: {param.default})")
    return Verdict.CLEAN
