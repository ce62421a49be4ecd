"""List the built-in protocols with their parameters, defaults and sources."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields

from tilesched.simulator.findings import Verdict
from tilesched.simulator.protocol.gemm import BUILT_INS, GemmShape

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/protocols/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `protocols`."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")


def run(args: argparse.Namespace) -> int:
    """Print the protocols."""
    defaults = {item.name: item.default for item in fields(GemmShape) if item.name != "tiles"}
    if args.format == "json":
        rows = [{"name": p.name, "summary": p.summary, "source": p.source} for p in BUILT_INS.values()]
        print(json.dumps({"schema": SCHEMA, "params": defaults, "protocols": rows}, indent=2))
        return Verdict.CLEAN
    for built_in in BUILT_INS.values():
        print(f"{built_in.name}: {built_in.summary}\n  source: {built_in.source}")
    print("parameters of all: " + ", ".join(f"{name} {value}" for name, value in defaults.items()))
    return Verdict.CLEAN
