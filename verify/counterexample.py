"""The smallest shape on which a protocol goes wrong, and a shortest interleaving that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tilesched.simulator.protocol.explore import Trail, explore
from tilesched.simulator.protocol.kinds import ProtocolKind
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol

from .protocol_verdict import Subject

__all__ = ["Counterexample", "smallest_failure"]

_MAX_STATES = 100_000
_FEW_STATES = 60_000  # for the first attempt
_TELLING = (ProtocolKind.DEADLOCK, ProtocolKind.RACE, ProtocolKind.STALE, ProtocolKind.LAPPED)
"""Kinds that show harm, most telling first; a wrong arrival alone is shown only where none of them is reachable."""
_TO_ONE = ("epilogue_warps", "subtiles")
"""Parameters that multiply the interleavings, hardly ever the ways to go wrong: 1 is tried."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A shape, what goes wrong there, and a shortest way to it; both None if exploring it met the limit.

    `roles`: the threads, by the number that steps of the trail have.
    """

    k_blocks: int
    tiles: int
    params: Mapping[str, int]
    kind: ProtocolKind | None
    trail: Trail | None
    roles: tuple[str, ...]


def smallest_failure(subject: Subject, k_blocks: int, tiles: int) -> Counterexample | None:
    """Shrink a failing shape to the fewest stages, k-blocks and tiles that fail alike; None if it does not fail."""
    wrong = _kinds(subject, k_blocks, tiles, subject.params)
    if not wrong:
        return None
    # The most telling kind if a person can be shown it, else whatever fails alike.
    worst = {next(kind for kind in ProtocolKind if kind in wrong)}
    return _smallest(subject, k_blocks, tiles, worst, _FEW_STATES) or _smallest(
        subject, k_blocks, tiles, wrong, _MAX_STATES
    )


def _kinds(subject: Subject, k_blocks: int, tiles: int, params: Mapping[str, int]) -> set[str]:
    protocols = subject.protocols((k_blocks,) * tiles, params)
    return {str(finding.kind) for protocol in protocols for finding in check_ordered(protocol)}


def _smallest(
    subject: Subject, k_blocks: int, tiles: int, kinds: AbstractSet[str], max_states: int
) -> Counterexample | None:
    """The first shape with one of the kinds, explored; None if that meets a limit that is not the last one."""
    for k, count, params in _by_size(subject, k_blocks, tiles):
        for protocol in subject.protocols((k,) * count, params):
            if not kinds & {str(finding.kind) for finding in check_ordered(protocol)}:
                continue
            example = _explored(protocol, k, count, params, kinds, max_states)
            return example if example.kind in kinds or max_states == _MAX_STATES else None
    return None


def _explored(
    protocol: Protocol,
    k_blocks: int,
    tiles: int,
    params: Mapping[str, int],
    kinds: AbstractSet[str],
    max_states: int,
) -> Counterexample:
    exploration = explore(protocol, max_states=max_states, until=kinds)
    roles = tuple(map(str, protocol.threads))
    for kind in (*_TELLING, *exploration.found):
        if kind in exploration.found:
            return Counterexample(k_blocks, tiles, params, kind, exploration.found[kind], roles)
    return Counterexample(k_blocks, tiles, params, None, None, roles)


def _by_size(subject: Subject, k_blocks: int, tiles: int) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Shapes up to the given one, small ones first, then that itself."""
    params = {name: 1 if name in _TO_ONE else value for name, value in subject.params.items()}
    periods = range(1, min(params[subject.period], 6) + 1) if subject.varies_period else (params[subject.period],)
    sizes = sorted(
        (period + k + count, period, k, count)
        for period in periods
        for k in (range(1, min(k_blocks, 8) + 1) if subject.has_k_blocks else (1,))
        for count in range(min(tiles, 6) + 1)
    )
    for _, period, k, count in sizes:
        yield k, count, {**params, subject.period: period}
    yield k_blocks, tiles, dict(subject.params)
