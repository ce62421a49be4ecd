"""The built-in protocols: the right ones are clean in every interleaving, the published wrong ones are found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from tilesched.simulator.errors import InputError
from tilesched.simulator.protocol.builtin import (
    ClcParams,
    GemmParams,
    Loop,
    Store,
    Work,
    clc_scheduler,
    gemm_1cta,
    gemm_2cta,
    hopper_cooperative,
    hopper_pingpong,
    role_mismatch,
    seed_1cta,
)
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.kinds import ProtocolKind as Kind
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol

Make = Callable[[GemmParams], Protocol]
SM100: list[Make] = [gemm_1cta, gemm_2cta]
HOPPER: list[Make] = [hopper_cooperative, hopper_pingpong]


def kinds(protocol: Protocol) -> set[Kind]:
    return {Kind(finding.kind) for finding in check_ordered(protocol)}


def shape(k_blocks: int, tiles: int, stages: int, **more: int) -> GemmParams:
    return GemmParams(k_blocks=k_blocks, work=Work.same(range(tiles)), stages=stages, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [*SM100, *HOPPER])
def test_right_kernels_are_clean(make: Make) -> None:
    for k_blocks, tiles, stages in product(range(1, 6), range(5), (2, 3, 4)):
        assert kinds(make(shape(k_blocks, tiles, stages))) == set(), (k_blocks, tiles, stages)


@pytest.mark.parametrize("make", SM100)
@pytest.mark.parametrize(("buffers", "subtiles"), [(1, 1), (1, 3), (2, 3), (3, 2)])
def test_store_rings_are_clean_whether_or_not_buffers_divide_subtiles(make: Make, buffers: int, subtiles: int) -> None:
    assert kinds(make(shape(2, 4, 2, store_buffers=buffers, subtiles=subtiles))) == set()


def test_direct_epilogue_is_clean() -> None:
    assert kinds(gemm_1cta(GemmParams(k_blocks=3, work=Work.same(range(4)), store=Store.DIRECT))) == set()


@pytest.mark.parametrize("stages", range(1, 5))
def test_the_seed_fails_iff_stages_do_not_divide_k_blocks_and_there_are_two_tiles(stages: int) -> None:
    for k_blocks, tiles in product(range(1, 10), range(4)):
        found = kinds(seed_1cta(shape(k_blocks, tiles, stages)))
        assert bool(found) == (k_blocks % stages != 0 and tiles >= 2), (k_blocks, tiles)


def test_the_explorer_agrees_on_small_kernels() -> None:
    protocols = [
        gemm_1cta(shape(2, 2, 1, epilogue_warps=1, subtiles=1)),
        gemm_1cta(shape(2, 2, 2, epilogue_warps=1, subtiles=1)),
        seed_1cta(shape(2, 2, 2, epilogue_warps=1, subtiles=1)),
        seed_1cta(shape(1, 2, 2, epilogue_warps=1, subtiles=1)),
        hopper_cooperative(shape(2, 2, 2)),
        hopper_cooperative(shape(2, 1, 1)),
        hopper_pingpong(shape(1, 3, 2)),
    ]
    for protocol in protocols:
        exploration = explore(protocol, max_states=60_000)
        assert exploration.complete
        assert bool(exploration.found) == bool(kinds(protocol)), (protocol.name, exploration.found)


def test_one_stage_is_too_few_for_a_wgmma_group_in_flight() -> None:
    for make in HOPPER:
        assert Kind.DEADLOCK in kinds(make(shape(2, 1, 1)))
        assert kinds(make(shape(1, 3, 1))) == set()


def test_no_k_blocks_leave_an_accumulator_that_nothing_was_written_to() -> None:
    assert kinds(gemm_1cta(shape(0, 1, 2))) == {Kind.UNWRITTEN}


def test_tiles_of_different_depth_share_the_ring() -> None:
    params = GemmParams(k_blocks=(1, 5, 2), work=Work.same(range(3)), stages=3)
    assert kinds(gemm_1cta(params)) == set()
    with pytest.raises(InputError, match="k_blocks"):
        GemmParams(k_blocks=(1,), work=Work.same(range(3)))


HOLES = [(0, None, 1), (0, None, None, 1), (None, 0, 1)]


@pytest.mark.parametrize("tiles", HOLES)
@pytest.mark.parametrize("k_blocks", range(1, 5))
def test_holes_do_no_harm_where_the_clock_counts_tiles(tiles: tuple[int | None, ...], k_blocks: int) -> None:
    assert kinds(gemm_1cta(GemmParams(k_blocks=k_blocks, work=Work.same(tiles), stages=2, loop=Loop.TILE))) == set()


def test_holes_with_the_wave_clock_hang_or_pass_by_parity_alone() -> None:
    """A skipped wave advances the clock by k_blocks. With stages | k_blocks the ring's parity turns k_blocks / stages
    times, and that of the accumulators by half the waves: the kernel is right iff both are even.
    """

    def clean(k_blocks: int, hole: int) -> bool:
        tiles = (0, *(None,) * hole, 1)
        params = GemmParams(k_blocks=k_blocks, work=Work.same(tiles), stages=2, loop=Loop.WAVE, accum_stages=1)
        return kinds(gemm_1cta(params)) == set()

    assert clean(2, 0)
    assert not clean(2, 1)  # one turn of both parities
    assert clean(2, 2)  # two turns: parities are as if nothing had been skipped
    assert clean(4, 2)


def test_roles_that_disagree_hang_and_are_named() -> None:
    work = Work(load=(0, 1), mma=(0,), epilogue=(0,))
    (finding,) = role_mismatch(work)
    assert finding.kind is Kind.ROLE_MISMATCH
    assert finding.facts["place"] == 1
    assert role_mismatch(Work.same((0, None, 1))) == []
    stuck = check_ordered(gemm_1cta(GemmParams(k_blocks=3, work=work, stages=2)))
    deadlock = next(finding for finding in stuck if finding.kind is Kind.DEADLOCK)
    assert "tma@CTA0 waits on consumed[1]" in deadlock.message
    # The second tile fits in the ring: nothing hangs, and what was loaded is never used.
    assert Kind.UNREAD in kinds(gemm_1cta(GemmParams(k_blocks=1, work=work, stages=2)))


@pytest.mark.parametrize(("slots", "arrives"), [*product((1, 2, 3), (True, False))])
def test_clc_is_clean_for_every_number_of_grants(slots: int, arrives: bool) -> None:
    for grants in range(6):
        assert kinds(clc_scheduler(ClcParams(grants=grants, slots=slots, scheduler_arrives=arrives))) == set()


@pytest.mark.parametrize(
    ("count", "arrives", "right"), [(13, True, True), (11, False, True), (7, True, False), (5, False, False)]
)
def test_clc_counts_of_tilelang_2423(count: int, arrives: bool, right: bool) -> None:
    params = ClcParams(grants=2, finished_count=count, scheduler_arrives=arrives)
    found = kinds(clc_scheduler(params))
    assert found == set() if right else {Kind.WRONG_PHASE, Kind.RACE} <= found


def test_clc_consumers_that_release_a_slot_before_they_read_it_race() -> None:
    assert kinds(clc_scheduler(ClcParams(reads_first=False))) == {Kind.RACE}


def test_a_clc_count_that_nobody_reaches_hangs() -> None:
    assert Kind.DEADLOCK in kinds(clc_scheduler(ClcParams(grants=1, finished_count=14)))


@pytest.mark.parametrize(
    ("bad", "name"), [({"stages": 0}, "stages"), ({"k_blocks": -1}, "k_blocks"), ({"a_bytes": 2**20}, "a_bytes")]
)
def test_parameters_out_of_their_bounds_are_refused(bad: dict[str, int], name: str) -> None:
    with pytest.raises(InputError, match=name):
        GemmParams(**{"k_blocks": 1, "work": Work.same((0,)), **bad})  # type: ignore[arg-type]


def test_hopper_kernels_have_no_wave_clock() -> None:
    with pytest.raises(InputError, match="loop=wave"):
        hopper_cooperative(GemmParams(k_blocks=1, work=Work.same((0,)), loop=Loop.WAVE))
