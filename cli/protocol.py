"""Check a kernel's mbarrier protocol for one shape, in every interleaving of its warps and asynchronous engines.

The verdict holds for the given stages, k-blocks and tiles a CTA, not for others; docs/protocol.md says what is
checked and why one run decides all interleavings.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import fields

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Finding, Verdict, verdict_of
from tilesched.simulator.protocol.gemm import BUILT_INS, BuiltIn, GemmShape
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol

from .document import document, finding_json
from .options import add_format_arguments, did_you_mean, integer

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/protocol/1"
_SETTINGS = [item.name for item in fields(GemmShape) if item.name not in ("k_blocks", "tiles")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `protocol`."""
    parser.add_argument("name", help=f"one of {', '.join(BUILT_INS)}")
    parser.add_argument("--k-blocks", type=integer, default=4, metavar="N", help="k-blocks of a tile (default: 4)")
    parser.add_argument("--tiles", type=integer, default=2, metavar="N", help="tiles of a CTA (default: 2)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"a parameter: {', '.join(_SETTINGS)}; `tilesched-sim protocols` has defaults",
    )
    parser.add_argument(
        "--explain", action="store_true", help="show the smallest shape that fails, and an interleaving that shows it"
    )
    add_format_arguments(parser, "text", "json", "markdown")


def run(args: argparse.Namespace) -> int:
    """Print what is wrong with the protocol; the exit code of the verdict."""
    if args.name not in BUILT_INS:
        raise InputError(f"protocol={args.name!r} is unknown; {did_you_mean(args.name, BUILT_INS)}")
    if not 0 <= args.tiles <= 2**20:
        raise InputError(f"tiles={args.tiles} is outside [0, {2**20}]")
    built_in = BUILT_INS[args.name]
    shape = GemmShape(k_blocks=args.k_blocks, tiles=range(args.tiles), **_settings(args.set))
    protocol = built_in.build(shape)
    findings = check_ordered(protocol)
    verdict = verdict_of(findings)
    if verdict is Verdict.CLEAN and args.quiet:
        return verdict
    story = _explain(built_in, shape) if args.explain and findings else []
    print(_render(args, protocol, shape, findings, story))
    return verdict


def _settings(texts: list[str]) -> dict[str, int]:
    chosen = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in _SETTINGS:
            raise InputError(f"set={text!r}: {name!r} is not a parameter; {did_you_mean(name, _SETTINGS)}")
        try:
            chosen[name] = integer(value)
        except argparse.ArgumentTypeError as error:
            raise InputError(f"set={text!r}: {error}") from None
    return chosen


def _explain(built_in: BuiltIn, shape: GemmShape) -> list[str]:
    from tilesched.verify.counterexample import smallest_failure

    example = smallest_failure(built_in.build, shape)
    if example is None:
        return []
    small = example.shape
    head = f"smallest failing shape: stages {small.stages}, k-blocks {small.k_blocks}, tiles {len(small.tiles)}"
    if example.steps is None:
        return [f"{head}; no interleaving was found within the limit of states"]
    steps = [f"{number:>4}. {step}" for number, step in enumerate(example.steps, start=1)]
    return [f"{head}; a shortest way to {example.kind}:", *steps]


def _render(
    args: argparse.Namespace, protocol: Protocol, shape: GemmShape, findings: list[Finding], story: list[str]
) -> str:
    operations = sum(len(thread.operations) for thread in protocol.threads)
    settings = {name: getattr(shape, name) for name in _SETTINGS}
    if args.format == "json":
        body = {
            "schema": SCHEMA,
            "verdict": verdict_of(findings).name.lower(),
            "protocol": protocol.name,
            "k_blocks": shape.k_blocks,
            "tiles": len(shape.tiles),
            "params": settings,
            "threads": len(protocol.threads),
            "operations": operations,
            "findings": [finding_json(finding) for finding in findings],
            "explanation": story,
        }
        return json.dumps(body, indent=2)
    facts = {
        "parameters": ", ".join(f"{name} {value}" for name, value in settings.items()),
        "checked": f"{len(protocol.threads)} warps, {operations} operations, {len(protocol.barriers())} barriers: "
        "every interleaving of this shape",
    }
    title = f"{protocol.name}: {shape.k_blocks} k-blocks, {len(shape.tiles)} tiles a CTA"
    text = document(args.format, title, {} if args.quiet else facts, findings, "")
    if story and args.format == "markdown":
        return "\n".join([text, "", "```", *story, "```"])
    return "\n".join([text, *story])
