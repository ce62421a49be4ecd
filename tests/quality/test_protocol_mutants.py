"""Every single-point mutant of a right protocol is flagged, or the explorer shows that it does no harm."""

from __future__ import annotations

import os

import pytest

from protocol_mutants import mutants
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.gemm import GemmShape, gemm_1cta
from tilesched.simulator.protocol.ordered import check_ordered

SHAPES = {
    "one accumulator": GemmShape(
        stages=2, k_blocks=1, tiles=(0, 1), accumulator_stages=1, epilogue_warps=1, tma_store=0
    ),
    "one stage": GemmShape(stages=1, k_blocks=2, tiles=(0, 1), epilogue_warps=1, tma_store=0),
    "stores by TMA": GemmShape(stages=2, k_blocks=1, tiles=(0, 1), epilogue_warps=1, tma_store=1),
}
if os.environ.get("TILESCHED_PROFILE", "dev") == "dev":  # a minute and a half for all three
    SHAPES = {"one accumulator": SHAPES["one accumulator"]}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_no_mutant_is_missed_and_none_is_a_false_alarm(shape: GemmShape) -> None:
    right = gemm_1cta(shape)
    assert not check_ordered(right)
    killed = equivalent = 0
    for name, mutant in mutants(right):
        exploration = explore(mutant)
        assert exploration.complete, name
        flagged = bool(check_ordered(mutant))
        assert flagged == bool(exploration.found), f"{name}: flagged {flagged}, explorer {set(exploration.found)}"
        killed += flagged
        equivalent += not flagged
    assert killed > 2 * equivalent or shape.tma_store
    assert equivalent  # such as two launches in the other order
