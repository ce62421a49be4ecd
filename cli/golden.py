"""Hold the schedulers against a file of golden vectors: a JSON list of {scheduler, params, workers, ...}."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Verdict
from tilesched.verify.golden import VectorStatus, check_vectors

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/golden/1"
_MAX_FILE_BYTES = 32 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `golden`."""
    parser.add_argument("file", help="the vectors, in the format that docs/json.md describes")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")


def run(args: argparse.Namespace) -> int:
    """Print what matches; 1 on any mismatch, 3 if a scheduler is unknown or there is no vector at all."""
    results = check_vectors(_load(args.file))
    count = Counter(result.status for result in results)
    if count[VectorStatus.MISMATCH]:
        verdict = Verdict.FINDINGS
    elif count[VectorStatus.UNKNOWN] or not results:
        verdict = Verdict.INCOMPLETE
    else:
        verdict = Verdict.CLEAN
    if args.format == "json":
        body = {
            "schema": SCHEMA,
            "verdict": verdict.name.lower(),
            **{str(status): count[status] for status in VectorStatus},
            "vectors": [asdict(result) for result in results],
        }
        print(json.dumps(body, indent=2))
        return verdict
    for result in results:
        if result.status is not VectorStatus.UNKNOWN:
            print(f"{result.index}: {result.scheduler}: {result.status}" + _after(result.difference))
    unknown = Counter(result.scheduler for result in results if result.status is VectorStatus.UNKNOWN)
    for name, number in unknown.items():
        print(f"not known yet: {name} ({number})")
    shown = ", ".join(f"{count[status]} {status}" for status in VectorStatus)
    print(f"verdict: {verdict.name.lower()} ({shown})")
    return verdict


def _after(text: str) -> str:
    return f": {text}" if text else ""


def _load(path: str) -> object:
    try:
        if Path(path).stat().st_size > _MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {_MAX_FILE_BYTES} bytes")
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
