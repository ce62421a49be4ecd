"""The verdict on a protocol for the shapes that were asked for, with the rule that separates failing from safe ones."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Finding, Severity
from tilesched.simulator.protocol.anyshape import Failure, ShapeVerdict, decide
from tilesched.simulator.protocol.kinds import ProtocolKind
from tilesched.simulator.protocol.lint import POLICIES, Policy, find_lints
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.outcomes import MAX_OUTCOMES, Outcomes, branches, check_outcomes
from tilesched.simulator.protocol.program import Protocol

from .rules import Case, RuleReport, explain_failures

__all__ = ["Subject", "Verdict", "judge"]

_MAX_PERIOD = 32  # k-blocks: the search for a recurrence grows with its third power
_SPOTS = ((301, 1), (1, 301), (37, 23))  # k-blocks and tiles
_SECOND_SAMPLE = 200
_SMALL = 4  # k-blocks, and tiles, of the shapes that are looked at where outcomes are branched
_LINT_TILES = 6  # of the shape that lints are looked for in: more than twice the accumulator stages in use
_SEED = 20260  # of the second sample: a run repeats exactly


@dataclass(frozen=True, slots=True)
class Subject:
    """What is judged: a family over shape and parameters."""

    name: str
    make: Callable[[tuple[int, ...], Mapping[str, int]], Protocol]
    params: Mapping[str, int]
    period: str  # the parameter whose value is the period of the ring, in k-blocks
    has_k_blocks: bool = True
    varies_period: bool = True  # whether the rule may try other values of it
    policy: Policy = POLICIES["none"]  # of lints
    outcomes: Callable[[tuple[int, ...], Mapping[str, int], Outcomes], Protocol] | None = None
    """In place of `make` where control depends on timing; `make` is then the first outcome."""

    def protocols(self, k_blocks: tuple[int, ...], params: Mapping[str, int]) -> Iterator[Protocol]:
        """One protocol for each outcome, up to the limit."""
        if self.outcomes is None:
            yield self.make(k_blocks, params)
            return
        every = self.outcomes
        made = branches(lambda outcomes: every(k_blocks, params, outcomes))
        yield from (protocol for _, protocol in islice(made, MAX_OUTCOMES))


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule` says which shapes fail; it is sought only where several were asked for and one fails.

    `lints` are those of one shape: the one asked for, or one that uses every buffer twice.
    """

    subject: Subject
    shape: ShapeVerdict
    findings: tuple[Finding, ...]
    lints: tuple[Finding, ...] = ()
    rule: RuleReport | None = None


def judge(subject: Subject, *, k_blocks: int | None, tiles: int | None) -> Verdict:
    """Decide one shape, or all (None). Raises InputError for parameters outside their bounds."""
    with _without_collection():
        verdict = _decide(subject, k_blocks=k_blocks, tiles=tiles)
    twice = subject.params[subject.period] + 1
    shape = (k_blocks if k_blocks is not None else min(twice, _MAX_PERIOD),) * (_LINT_TILES if tiles is None else tiles)
    return replace(verdict, lints=tuple(find_lints(subject.make(shape, subject.params), subject.policy)))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Protocols are many small objects without cycles: looking for cycles among them takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _decide(subject: Subject, *, k_blocks: int | None, tiles: int | None) -> Verdict:
    period = subject.params[subject.period]
    if not subject.has_k_blocks:
        k_blocks = 1
    if subject.outcomes is not None:
        return _decide_outcomes(subject, subject.outcomes, k_blocks, tiles)
    if (k_blocks is None or tiles is None) and period > _MAX_PERIOD:
        return Verdict(
            subject, ShapeVerdict(complete=False), (_undecided(subject, f"{period=} is above {_MAX_PERIOD}"),)
        )
    shape = decide(lambda ks: subject.make(ks, subject.params), k_blocks=k_blocks, tiles=tiles, stages=period)
    if shape.failure is not None:
        rule = _rule(subject, k_blocks, tiles) if k_blocks is None or tiles is None else None
        return Verdict(subject, shape, shape.failure.findings, rule=rule)
    if not shape.complete:
        return Verdict(
            subject, shape, (_undecided(subject, "the state does not recur within the limit; small shapes are clean"),)
        )
    failure = _spot_check(subject, k_blocks, tiles) if k_blocks is None or tiles is None else None
    if failure is not None:
        return Verdict(subject, ShapeVerdict(failure=failure), failure.findings)
    return Verdict(subject, shape, ())


def _spot_check(subject: Subject, k_blocks: int | None, tiles: int | None) -> Failure | None:
    """The certificate rests on roles that have no case for, say, the hundredth k-block: a counter that wraps at 256 has
    one. A few shapes beyond that are checked as they are."""
    for k, count in _SPOTS:
        shape = (k if k_blocks is None else k_blocks,) * (count if tiles is None else tiles)
        try:
            findings = check_ordered(subject.make(shape, subject.params))
        except InputError:  # more operations than one run takes
            continue
        if findings:
            return Failure(shape[0] if shape else k, len(shape), tuple(findings), searched=False)
    return None


def _decide_outcomes(
    subject: Subject,
    make: Callable[[tuple[int, ...], Mapping[str, int], Outcomes], Protocol],
    k_blocks: int | None,
    tiles: int | None,
) -> Verdict:
    """One shape is decided for every outcome; all shapes are not: only small ones are looked at."""
    small = subject.params[subject.period] + 1
    shapes = sorted(
        (k + count, k, count)
        for k in (range(1, min(small, _SMALL) + 1) if k_blocks is None else (k_blocks,))
        for count in (range(_SMALL) if tiles is None else (tiles,))
    )
    for _, k, count in shapes:
        verdict = check_outcomes(lambda outcomes, ks=(k,) * count: make(ks, subject.params, outcomes))  # type: ignore[misc]
        if verdict.findings:
            failure = Failure(k, count, verdict.findings)
            return Verdict(subject, ShapeVerdict(failure=failure), verdict.findings)
        if not verdict.complete:
            why = f"k_blocks={k}, tiles={count} has more than {verdict.outcomes} outcomes; those judged are clean"
            return Verdict(subject, ShapeVerdict(complete=False), (_undecided(subject, why),))
    if k_blocks is None or tiles is None:
        why = "its control depends on outcomes, which are judged for one shape at a time; small shapes are clean"
        return Verdict(subject, ShapeVerdict(complete=False), (_undecided(subject, why),))
    return Verdict(subject, ShapeVerdict(), ())


def _undecided(subject: Subject, why: str) -> Finding:
    return Finding(
        kind=ProtocolKind.UNDECIDED,
        message=f"{subject.name} is not decided for every shape: {why}",
        severity=Severity.INCOMPLETE,
        facts={"about": subject.name},
    )


def _rule(subject: Subject, k_blocks: int | None, tiles: int | None) -> RuleReport:
    period = subject.params[subject.period]

    def fails(params: Mapping[str, int]) -> bool:
        shape = (params.get("k_blocks", k_blocks or 1),) * params.get("tiles", tiles or 0)
        return bool(
            check_ordered(subject.make(shape, {**subject.params, subject.period: params.get(subject.period, period)}))
        )

    draw = Random(_SEED)
    first = [
        _named(subject, k_blocks, tiles, k, count, period)
        for period in _periods(subject, 4)
        for k in (range(1, 9) if k_blocks is None else (k_blocks,))
        for count in (range(4) if tiles is None else (tiles,))
    ]
    second = [
        _named(subject, k_blocks, tiles, draw.randint(1, 24), draw.randint(0, 5), draw.choice(_periods(subject, 6)))
        for _ in range(_SECOND_SAMPLE)
    ]
    return explain_failures(_cases(fails, first), (_cases(fails, sample) for sample in (second,)))


def _cases(fails: Callable[[Mapping[str, int]], bool], sample: Sequence[Mapping[str, int]]) -> list[Case]:
    return [(params, fails(params)) for params in sample]


def _periods(subject: Subject, most: int) -> Sequence[int]:
    return range(1, most + 1) if subject.varies_period else (subject.params[subject.period],)


def _named(
    subject: Subject, k_blocks: int | None, tiles: int | None, k: int, count: int, period: int
) -> dict[str, int]:
    """A case of the sample; what was asked for as one number is no variable."""
    case = {subject.period: period} if subject.varies_period else {}
    if k_blocks is None:
        case["k_blocks"] = k
    if tiles is None:
        case["tiles"] = count
    return case
