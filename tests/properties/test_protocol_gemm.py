"""Laws of the built-in protocols."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tilesched.simulator.protocol.builtin import GemmParams, Loop, Store, Work, gemm_1cta, gemm_2cta, seed_1cta
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.kinds import ProtocolKind
from tilesched.simulator.protocol.ordered import check_ordered


@st.composite
def shapes(draw: st.DrawFn, largest: int = 7) -> GemmParams:
    return GemmParams(
        stages=draw(st.integers(1, largest)),
        k_blocks=draw(st.integers(1, largest)),
        work=Work.same(range(draw(st.integers(0, largest)))),
        accum_stages=draw(st.integers(1, 3)),
        epilogue_warps=draw(st.integers(1, 4)),
        subtiles=draw(st.integers(1, 3)),
        store_buffers=draw(st.integers(1, 3)),
        store=draw(st.sampled_from(Store)),
    )


@given(shapes())
def test_the_right_protocols_are_clean(shape: GemmParams) -> None:
    assert check_ordered(gemm_1cta(shape)) == []
    assert check_ordered(gemm_2cta(shape)) == []


@given(shapes())
def test_the_seeds_mma_role_fails_exactly_where_k_blocks_do_not_fill_the_ring(shape: GemmParams) -> None:
    """tile-ai/tilelang#2785: wrong iff k_blocks % stages != 0 and a CTA has two tiles or more."""
    assert isinstance(shape.k_blocks, int)
    wrong = shape.k_blocks % shape.stages != 0 and len(shape.work.mma) >= 2
    findings = check_ordered(seed_1cta(shape))
    assert bool(findings) == wrong
    if wrong:
        harm = {ProtocolKind.STALE, ProtocolKind.RACE, ProtocolKind.UNREAD}
        assert harm & {finding.kind for finding in findings}


@settings(max_examples=20)
@given(st.integers(1, 2), st.integers(0, 2), st.integers(0, 2), st.integers(1, 2))
def test_the_explorer_agrees_on_small_shapes(stages: int, k_blocks: int, tiles: int, accumulators: int) -> None:
    shape = GemmParams(
        stages=stages,
        k_blocks=k_blocks,
        work=Work.same(range(tiles)),
        accum_stages=accumulators,
        epilogue_warps=1,
        store=Store.DIRECT,
    )
    for build in (gemm_1cta, seed_1cta):
        exploration = explore(build(shape))
        assert exploration.complete
        assert bool(check_ordered(build(shape))) == bool(exploration.found)


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.sampled_from([0, None]), min_size=1, max_size=7),
)
def test_skipped_waves_do_harm_exactly_where_a_parity_is_wrong(
    stages: int, k_blocks: int, accum_stages: int, waves: list[int | None]
) -> None:
    """The n-th use of a barrier needs the parity of n; a clock of waves gives that of the phase that it counts to."""
    phases: dict[tuple[str, int], list[int]] = {}
    for clock in (wave for wave, tile in enumerate(waves) if tile is not None):
        phases.setdefault(("accumulator", clock % accum_stages), []).append(clock // accum_stages)
        for count in range(clock * k_blocks, (clock + 1) * k_blocks):
            phases.setdefault(("stage", count % stages), []).append(count // stages)
    harmless = all(phase & 1 == use & 1 for used in phases.values() for use, phase in enumerate(used))
    params = GemmParams(
        stages=stages, k_blocks=k_blocks, accum_stages=accum_stages, work=Work.same(waves), loop=Loop.WAVE
    )
    assert (check_ordered(gemm_1cta(params)) == []) == harmless
