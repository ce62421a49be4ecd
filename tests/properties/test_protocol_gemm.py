"""Laws of the built-in protocols."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.gemm import GemmShape, gemm_1cta, gemm_2cta, seed_1cta
from tilesched.simulator.protocol.kinds import ProtocolKind
from tilesched.simulator.protocol.ordered import check_ordered


@st.composite
def shapes(draw: st.DrawFn, largest: int = 7) -> GemmShape:
    return GemmShape(
        stages=draw(st.integers(1, largest)),
        k_blocks=draw(st.integers(1, largest)),
        tiles=range(draw(st.integers(0, largest))),
        accumulator_stages=draw(st.integers(1, 3)),
        epilogue_warps=draw(st.integers(1, 4)),
        tma_store=draw(st.integers(0, 1)),
    )


@given(shapes())
def test_the_right_protocols_are_clean(shape: GemmShape) -> None:
    assert check_ordered(gemm_1cta(shape)) == []
    assert check_ordered(gemm_2cta(shape)) == []


@given(shapes())
def test_the_seeds_mma_role_fails_exactly_where_k_blocks_do_not_fill_the_ring(shape: GemmShape) -> None:
    """tile-ai/tilelang#2785: wrong iff k_blocks % stages != 0 and a CTA has two tiles or more."""
    wrong = shape.k_blocks % shape.stages != 0 and len(shape.tiles) >= 2
    findings = check_ordered(seed_1cta(shape))
    assert bool(findings) == wrong
    if wrong:
        harm = {ProtocolKind.STALE, ProtocolKind.RACE, ProtocolKind.UNREAD}
        assert harm & {finding.kind for finding in findings}


@settings(max_examples=20)
@given(st.integers(1, 2), st.integers(0, 2), st.integers(0, 2), st.integers(1, 2))
def test_the_explorer_agrees_on_small_shapes(stages: int, k_blocks: int, tiles: int, accumulators: int) -> None:
    shape = GemmShape(
        stages=stages,
        k_blocks=k_blocks,
        tiles=range(tiles),
        accumulator_stages=accumulators,
        epilogue_warps=1,
        tma_store=0,
    )
    for build in (gemm_1cta, seed_1cta):
        exploration = explore(build(shape))
        assert exploration.complete
        assert bool(check_ordered(build(shape))) == bool(exploration.found)


@given(shapes(largest=4), st.sets(st.integers(0, 6), min_size=1))
def test_skipped_waves_do_harm_exactly_where_a_phase_is_left_out(shape: GemmShape, clocks: set[int]) -> None:
    """A clock of waves moves on over a hole; it does no harm iff each barrier's phases still follow one another."""
    holed = replace(shape, tiles=sorted(clocks))
    phases: dict[tuple[str, int], list[int]] = {}
    for clock in holed.tiles:
        accumulator = ("accumulator", clock % shape.accumulator_stages)
        phases.setdefault(accumulator, []).append(clock // shape.accumulator_stages)
        for count in range(clock * shape.k_blocks, (clock + 1) * shape.k_blocks):
            phases.setdefault(("stage", count % shape.stages), []).append(count // shape.stages)
    harmless = all(used == list(range(len(used))) for used in phases.values())
    assert (check_ordered(gemm_1cta(holed)) == []) == harmless


def test_golden_state_counts() -> None:
    """An alarm: a change of the model's steps changes them."""
    small = GemmShape(stages=1, k_blocks=1, tiles=(0,), epilogue_warps=1, tma_store=0)
    assert explore(gemm_1cta(small)).states == 75
    assert explore(gemm_2cta(small)).states == 3512
