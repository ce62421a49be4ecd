"""Verdicts for all shapes agree with direct checks of single shapes, for right kernels and for every mutant of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.simulator.protocol.anyshape import Family, decide
from tilesched.simulator.protocol.builtin import BUILT_INS, get
from tilesched.simulator.protocol.ops import Access, Agent, Arrive, Barrier, Complete, Launch, Mode, Slot, Touch, Wait
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol, thread

SMALL = {"epilogue_warps": 1, "subtiles": 1}


@cache
def built_in(name: str, stages: int) -> Family:
    one = get(name)
    given = {key: value for key, value in SMALL.items() if key in one.params} | {one.period: stages}
    params = one.with_defaults(given)
    return lambda k_blocks: one.make(k_blocks, params)


class _Bug:
    """A ring of one producer and one consumer whose expressions can each be wrong."""

    def __init__(self, stages: int, stage: Callable[..., int], parity: Callable[..., int]) -> None:
        self.stages, self.stage, self.parity = stages, stage, parity

    def __call__(self, k_blocks: tuple[int, ...]) -> Protocol:
        full = [Barrier(f"full[{s}]", 1) for s in range(self.stages)]
        empty = [Barrier(f"empty[{s}]", 1) for s in range(self.stages)]
        slots = [Slot(f"x[{s}]") for s in range(self.stages)]
        counts = list(self.counts(k_blocks))

        def produce() -> Iterator[Wait | Arrive | Launch]:
            for count, _, _ in counts:
                s, phase = count % self.stages, count // self.stages
                yield Wait(empty[s], phase - 1, (phase & 1) ^ 1)
                yield Arrive(full[s], tx=16)
                yield Launch(Agent("load", (Access(slots[s], Mode.WRITE, phase),), (Complete(full[s], 16),)))

        def consume() -> Iterator[Wait | Arrive | Touch]:
            for count, tile, k in counts:
                s, phase = count % self.stages, count // self.stages
                yield Wait(full[s], phase, self.parity(count, tile, k))
                used = self.stage(count, tile, k)
                yield Touch(Access(slots[used], Mode.READ, phase))
                yield Arrive(empty[used])

        return Protocol("ring", (thread("produce", produce()), thread("consume", consume())))

    @staticmethod
    def counts(k_blocks: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
        count = 0
        for tile, k_count in enumerate(k_blocks):
            for k in range(k_count):
                yield count, tile, k
                count += 1


def rings(stages: int) -> dict[str, _Bug]:
    def right(count: int, tile: int, k: int) -> int:
        return count % stages

    def parity(count: int, tile: int, k: int) -> int:
        return (count // stages) & 1

    return {
        "right": _Bug(stages, right, parity),
        "stage from k": _Bug(stages, lambda count, tile, k: k % stages, parity),
        "parity from k": _Bug(stages, right, lambda count, tile, k: (k // stages) & 1),
        "parity never turns": _Bug(stages, right, lambda count, tile, k: 0),
        "stage shifted by tile": _Bug(stages, lambda count, tile, k: (k + tile) % stages, parity),
        "parity of the count": _Bug(stages, right, lambda count, tile, k: count & 1),
    }


def clean(family: Family, k_blocks: int, tiles: int) -> bool:
    return not check_ordered(family((k_blocks,) * tiles))


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("name", rings(1))
def test_verdict_of_a_ring_for_all_shapes_is_that_of_every_shape(name: str, stages: int) -> None:
    family = rings(stages)[name]
    verdict = decide(family, k_blocks=None, tiles=None, stages=stages)
    shapes = {(k, tiles): clean(family, k, tiles) for k in range(1, 14) for tiles in range(8)}
    assert verdict.complete
    if verdict.failure is None:
        assert all(shapes.values())
    else:
        first = min((shape for shape, good in shapes.items() if not good), key=lambda shape: (sum(shape), shape))
        assert (verdict.failure.k_blocks, verdict.failure.tiles) == first


@pytest.mark.parametrize("name", rings(1))
def test_verdict_for_one_axis_agrees_too(name: str) -> None:
    family = rings(2)[name]
    for k_blocks in range(1, 6):
        verdict = decide(family, k_blocks=k_blocks, tiles=None, stages=2)
        assert verdict.complete
        assert (verdict.failure is None) == all(clean(family, k_blocks, tiles) for tiles in range(12))
    for tiles in range(5):
        verdict = decide(family, k_blocks=None, tiles=tiles, stages=2)
        assert verdict.complete
        assert (verdict.failure is None) == all(clean(family, k, tiles) for k in range(1, 12))


@pytest.mark.parametrize(("name", "stages"), [*((name, 2) for name in BUILT_INS), ("hopper-pingpong", 3)])
def test_right_built_ins_are_certified_and_the_seed_is_not(name: str, stages: int) -> None:
    verdict = decide(built_in(name, stages), k_blocks=None if get(name).has_k_blocks else 1, tiles=None, stages=stages)
    assert verdict.complete
    if name == "seed-1cta":
        assert verdict.failure is not None
        assert (verdict.failure.k_blocks, verdict.failure.tiles) == (1, 2)
    else:
        assert verdict.failure is None


@given(
    st.sampled_from(["gemm-1cta", "gemm-2cta", "hopper-cooperative", "hopper-pingpong"]),
    st.integers(2, 4),
    st.integers(1, 40),
    st.integers(0, 12),
)
def test_certified_built_ins_are_clean_at_any_shape(name: str, stages: int, k_blocks: int, tiles: int) -> None:
    assert clean(built_in(name, stages), k_blocks, tiles)


def test_a_family_that_changes_its_ways_is_not_certified() -> None:
    """From the sixth tile on the consumer waits with the wrong parity, while the state recurs earlier."""
    good = rings(2)["right"]
    late = _Bug(2, good.stage, lambda count, tile, k: good.parity(count, tile, k) ^ (tile >= 5))
    verdict = decide(late, k_blocks=None, tiles=None, stages=2)
    assert verdict.failure is not None or not verdict.complete


def test_a_family_without_recurrence_is_incomplete() -> None:
    """A barrier of its own for each tile: the state grows with the tiles, and nothing recurs."""
    good = rings(2)["right"]

    def grows(k_blocks: tuple[int, ...]) -> Protocol:
        base = good(k_blocks)
        own = [Barrier(f"log[{tile}]", 1) for tile in range(len(k_blocks))]
        return replace(base, threads=(*base.threads, thread("log", (Arrive(barrier) for barrier in own))))

    verdict = decide(grows, k_blocks=2, tiles=None, stages=2)
    assert verdict.failure is None
    assert not verdict.complete


@pytest.mark.parametrize("least", [min, max])
def test_tiles_that_depend_on_each_others_k_blocks_are_incomplete(least: Callable[..., int]) -> None:
    """If every tile has the least k-blocks of all, no tile that is longer alone shows what longer tiles do."""
    good = rings(2)["right"]
    verdict = decide(lambda ks: good((least(ks, default=0),) * len(ks)), k_blocks=None, tiles=None, stages=2)
    assert verdict.failure is None
    assert not verdict.complete
    assert decide(good, k_blocks=None, tiles=None, stages=2).complete


@given(st.integers(1, 3), st.lists(st.integers(0, 2), min_size=8, max_size=8))
def test_a_certificate_is_never_wrong_about_a_random_ring(stages: int, factors: list[int]) -> None:
    """Stage and parity from any small combination of running count, tile and k: mostly wrong, sometimes right."""
    a, b, c, d, e, f, g, h = factors

    def stage(count: int, tile: int, k: int) -> int:
        return (a * count + b * k + c * tile + d) % stages

    def parity(count: int, tile: int, k: int) -> int:
        return (e * (count // stages) + f * (k // stages) + g * tile + h) & 1

    family = _Bug(stages, stage, parity)
    verdict = decide(family, k_blocks=None, tiles=None, stages=stages)
    if verdict.failure is not None:
        assert not clean(family, verdict.failure.k_blocks, verdict.failure.tiles)
    elif verdict.complete:
        assert all(clean(family, k, tiles) for k in range(1, 5 * stages) for tiles in range(8))
