"""Decide whether a kernel's mbarrier protocol can hang or race: in every interleaving, for one shape or for all."""

from __future__ import annotations

import argparse
import json

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Verdict as Code
from tilesched.simulator.findings import verdict_of
from tilesched.simulator.protocol.builtin import BUILT_INS, get
from tilesched.simulator.protocol.lint import POLICIES, policy
from tilesched.verify.counterexample import Counterexample, smallest_failure
from tilesched.verify.protocol_verdict import Subject, Verdict, judge

from .counterexample_format import counterexample_json, counterexample_lines
from .document import finding_json
from .options import add_format_arguments, add_set_argument, did_you_mean, integer, set_from_args

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/protocol/1"
_MAX_SHAPE = 100_000  # k-blocks or tiles of a single shape: more operations than that are refused anyway


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `protocol`."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", help=f"a built-in: {', '.join(BUILT_INS)}")
    which.add_argument(
        "--protocol", metavar="FILE.py:FUNCTION", help="your own: runs FUNCTION(k_blocks, stages, ...) of FILE.py"
    )
    add_set_argument(parser)
    parser.add_argument("--k-blocks", default="any", metavar="N|any", help="k-blocks of a tile (default: any)")
    parser.add_argument("--tiles", default="any", metavar="N|any", help="tiles of a worker (default: any)")
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help=f"front end whose fences are expected, for lints: {', '.join(POLICIES)} (default: the built-in's own; "
        "none for --protocol)",
    )
    parser.add_argument("--fail-on-lint", action="store_true", help="exit with 1 where there are only lints, too")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print the certificate, or a smallest failing shape and an interleaving that shows it",
    )
    add_format_arguments(parser, "text", "json", "markdown")


def run(args: argparse.Namespace) -> int:
    """Judge, print, and return the exit code. Raises InputError."""
    subject = _subject(args, set_from_args(args))
    k_blocks, tiles = _count("k-blocks", args.k_blocks, 1), _count("tiles", args.tiles, 0)
    if not subject.has_k_blocks and k_blocks is not None:
        raise InputError(f"k-blocks={k_blocks} means nothing to {subject.name}, which has no k-blocks")
    verdict = judge(subject, k_blocks=k_blocks, tiles=tiles)
    code = verdict_of(verdict.findings)
    if code is Code.CLEAN and verdict.lints and args.fail_on_lint:
        code = Code.FINDINGS
    if code is Code.CLEAN and args.quiet:
        return code
    if args.format == "json":
        print(json.dumps(_document(verdict, code.name.lower(), k_blocks, tiles, explain=args.explain), indent=2))
    else:
        print("\n".join(_lines(verdict, k_blocks, tiles, markdown=args.format == "markdown", explain=args.explain)))
    return code


def _subject(args: argparse.Namespace, given: dict[str, int]) -> Subject:
    if args.protocol is not None:
        from tilesched.verify.user_protocol import user_subject

        return user_subject(args.protocol, given, policy(args.policy or "none"))
    if args.name not in BUILT_INS:
        raise InputError(f"protocol={args.name!r} is unknown; {did_you_mean(args.name, BUILT_INS)}")
    one = get(args.name)
    return Subject(
        name=one.name,
        make=one.make,
        params=one.with_defaults(given),
        period=one.period,
        has_k_blocks=one.has_k_blocks,
        varies_period=one.period not in given,
        policy=policy(args.policy or one.policy),
    )


def _count(name: str, text: str, low: int) -> int | None:
    if text == "any":
        return None
    try:
        value = integer(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"{name}: {error}, nor 'any'") from error
    if not low <= value <= _MAX_SHAPE:
        raise InputError(f"{name}={value} is outside [{low}, {_MAX_SHAPE}]")
    return value


def _document(
    verdict: Verdict, code: str, k_blocks: int | None, tiles: int | None, *, explain: bool
) -> dict[str, object]:
    failure, rule = verdict.shape.failure, verdict.rule
    example = _example(verdict) if explain else None
    return {
        "schema": SCHEMA,
        "protocol": verdict.subject.name,
        "params": dict(verdict.subject.params),
        "k_blocks": k_blocks,
        "tiles": tiles,
        "verdict": code,
        "certificates": [
            {"k_blocks": one.k_blocks, "period": one.period, "tiles_from": one.tiles_from, "tiles_to": one.tiles_to}
            for one in verdict.shape.certificates
        ],
        "first_failure": None if failure is None else {"k_blocks": failure.k_blocks, "tiles": failure.tiles},
        "rule": None
        if rule is None
        else {
            "fails_iff": rule.rule and rule.rule.text,
            "fitted": rule.fitted,
            "tested": rule.tested,
            "rejected": rule.candidate.text if rule.candidate and not rule.rule else None,
            "counterexample": rule.counterexample and dict(rule.counterexample),
        },
        "findings": [finding_json(one) for one in verdict.findings],
        "policy": verdict.subject.policy.name,
        "lints": [finding_json(one) for one in verdict.lints],
        **({"counterexample": counterexample_json(example)} if example is not None else {}),
    }


def _lines(verdict: Verdict, k_blocks: int | None, tiles: int | None, *, markdown: bool, explain: bool) -> list[str]:
    params = ", ".join(f"{name}={value}" for name, value in verdict.subject.params.items())
    title = f"{verdict.subject.name} ({params})"
    lines = [f"## {title}", ""] if markdown else [title]
    bullet = "- " if markdown else "  "
    lines += [bullet + text for text in _summary(verdict, k_blocks, tiles)]
    lines += [f"{bullet}{one.severity.value} {one.kind}: {one.message}" for one in verdict.findings]
    lines += [bullet + text for text in _lint_lines(verdict)]
    if explain and verdict.shape.failure is None:
        lines += [bullet + text for text in _proof(verdict)]
    elif explain:
        lines += _story(verdict, markdown=markdown)
    return lines


def _lint_lines(verdict: Verdict) -> list[str]:
    rules = verdict.subject.policy
    if not rules.kinds:
        return ["lints: not looked for (policy none)"]
    lines = [f"lint {one.kind}: {one.message}" for one in verdict.lints]
    return [*lines, f"lints: {len(lines)} under policy {rules.name} ({rules.why}); lints are not errors"]


def _summary(verdict: Verdict, k_blocks: int | None, tiles: int | None) -> list[str]:
    shape = "every tile count" if tiles is None else f"tiles = {tiles}"
    if verdict.subject.has_k_blocks:
        shape = ("every k_blocks >= 1" if k_blocks is None else f"k_blocks = {k_blocks}") + f", {shape}"
    failure = verdict.shape.failure
    if failure is None:
        return [f"{'clean' if not verdict.findings else 'incomplete'}: {shape}, every interleaving"]
    at = f"tiles = {failure.tiles}"
    at = f"k_blocks = {failure.k_blocks}, {at}" if verdict.subject.has_k_blocks else at
    several = k_blocks is None or tiles is None
    which = "the first failing shape" if failure.searched else "a failing shape, perhaps not the smallest"
    lines = [f"fails{f'; {which}' if several else ''}: {at}"]
    report = verdict.rule
    if report is not None and report.rule is not None:
        lines.append(f"fails iff {report.rule.text} (fits {report.fitted} shapes, and {report.tested} random ones)")
    elif report is not None:
        lines.append("no simple rule separates failing from safe shapes")
    return lines


def _proof(verdict: Verdict) -> list[str]:
    lines = []
    for one in verdict.shape.certificates:
        which = f"k_blocks = {one.k_blocks}" + (f" + {one.period}i" if one.period else "")
        which = f"{which}: " if verdict.subject.has_k_blocks else ""
        if one.tiles_from == one.tiles_to:
            lines.append(f"{which}checked for {one.tiles_to} tiles")
        else:
            lines.append(f"{which}the state after {one.tiles_to} tiles is that after {one.tiles_from}")
    return lines


def _example(verdict: Verdict) -> Counterexample | None:
    failure = verdict.shape.failure
    return None if failure is None else smallest_failure(verdict.subject, failure.k_blocks, failure.tiles)


def _story(verdict: Verdict, *, markdown: bool) -> list[str]:
    subject, example = verdict.subject, _example(verdict)
    if example is None:
        return []
    shape = f"{subject.period} = {example.params[subject.period]}, tiles = {example.tiles}"
    shape = f"k_blocks = {example.k_blocks}, {shape}" if subject.has_k_blocks else shape
    if example.trail is None:
        return [f"  {shape} fails, too; no interleaving was found within the limit of states"]
    return ["", f"{shape}: a shortest way to {example.kind}", "", *counterexample_lines(example, markdown=markdown)]
