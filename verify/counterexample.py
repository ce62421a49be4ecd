"""The smallest shape on which a protocol goes wrong, and a shortest interleaving that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.gemm import GemmShape
from tilesched.simulator.protocol.kinds import ProtocolKind
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol

__all__ = ["Counterexample", "smallest_failure"]

_MAX_STATES = 300_000
_TELLING = (ProtocolKind.DEADLOCK, ProtocolKind.RACE, ProtocolKind.STALE, ProtocolKind.LAPPED)
"""Kinds that show harm, most telling first; a wrong arrival alone is shown only where none of them is reachable."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A shape, what goes wrong there, and the steps to it; `steps` is None if exploring it met the limit."""

    shape: GemmShape
    kind: ProtocolKind | None
    steps: Sequence[str] | None


def smallest_failure(build: Callable[[GemmShape], Protocol], shape: GemmShape) -> Counterexample | None:
    """Shrink `shape` to the fewest stages, k-blocks, tiles and warps that fail alike; None if it does not fail."""
    wrong = {finding.kind for finding in check_ordered(build(shape))}
    for smaller in _by_size(shape):
        protocol = build(smaller)
        if not wrong & {finding.kind for finding in check_ordered(protocol)}:
            continue
        exploration = explore(protocol, max_states=_MAX_STATES)
        for kind in (*_TELLING, *exploration.found):
            if kind in exploration.found:
                return Counterexample(smaller, kind, exploration.found[kind])
        return Counterexample(smaller, None, None)
    return None


def _by_size(shape: GemmShape) -> Iterator[GemmShape]:
    """Shapes up to the given one, small ones first; the tiles keep their clock values from the first on."""
    sizes = sorted(
        (stages + k_blocks + tiles, stages, k_blocks, tiles)
        for stages in range(1, min(shape.stages, 6) + 1)
        for k_blocks in range(min(shape.k_blocks, 8) + 1)
        for tiles in range(min(len(shape.tiles), 6) + 1)
    )
    for _, stages, k_blocks, tiles in sizes:
        yield replace(shape, stages=stages, k_blocks=k_blocks, tiles=tuple(shape.tiles[:tiles]), epilogue_warps=1)
    yield shape
