"""Built-in protocols: the seed's SM100 GEMM as it is and as it should be, for one CTA and for a pair of CTAs.

Roles read like the kernel. `tiles` is the list of clock values of a worker's tiles: 0, 1, 2, ... where the scheduler
counts tiles, with gaps where the clock is the wave number and waves are skipped. c = clock * k_blocks + k is the
running count: stage c % stages, phase c // stages. Source: TileLang #2441, gemm_tcgen5mma_ws_persistent.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ..errors import InputError
from .ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Complete,
    Expect,
    Join,
    Launch,
    Mode,
    Operation,
    Slot,
    Touch,
    Wait,
)
from .program import Protocol, Thread, thread

__all__ = ["BUILT_INS", "BuiltIn", "GemmShape", "gemm_1cta", "gemm_2cta", "seed_1cta"]

A_BYTES, B_BYTES = 128 * 64 * 2, 256 * 64 * 2  # the seed's 128 × 256 × 64 bf16 tile, a stage
WARP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmShape:
    """What a built-in GEMM protocol is made for. Raises InputError for a value that is out of its range."""

    stages: int = 4
    k_blocks: int = 4
    tiles: Sequence[int] = (0, 1)
    accumulator_stages: int = 2
    epilogue_warps: int = 4
    tma_store: int = 1  # 1: through shared memory, by TMA; 0: direct

    def __post_init__(self) -> None:
        for name, low in (("stages", 1), ("k_blocks", 0), ("accumulator_stages", 1), ("epilogue_warps", 1)):
            if not low <= getattr(self, name) <= 2**20:
                raise InputError(f"{name}={getattr(self, name)} is outside [{low}, {2**20}]")
        if self.tma_store not in (0, 1):
            raise InputError(f"tma_store={self.tma_store} is outside [0, 1]")


class _Cta:
    """The barriers and slots of one CTA of the kernel."""

    def __init__(self, shape: GemmShape, cta: int, *, loaders: int, epilogues: int) -> None:
        stages, accumulators = range(shape.stages), range(shape.accumulator_stages)
        self.shape, self.cta = shape, cta
        self.loaded = [Barrier(f"loaded[{s}]", loaders, cta) for s in stages]
        self.consumed = [Barrier(f"consumed[{s}]", 1, cta) for s in stages]
        self.tmem_full = [Barrier(f"tmem_full[{a}]", 1, cta) for a in accumulators]
        self.tmem_empty = [
            Barrier(f"tmem_empty[{a}]", epilogues * shape.epilogue_warps * WARP, cta) for a in accumulators
        ]
        self.a = [Slot(f"A[{s}]", cta) for s in stages]
        self.b = [Slot(f"B[{s}]", cta) for s in stages]
        self.accumulator = [Slot(f"C_tmem[{a}]", cta) for a in accumulators]
        self.staging = [Slot(f"C_shared[warp {w}]", cta) for w in range(shape.epilogue_warps)]
        self.epilogue_sync = Barrier("epilogue_sync", shape.epilogue_warps, cta, BarrierKind.HARDWARE)


def load_role(home: _Cta, leader: _Cta) -> Iterator[Operation]:
    """Warp 0: fill the ring. Bytes and arrivals go to the leader's barrier (its own, without a pair)."""
    shape = home.shape
    for clock in shape.tiles:
        for k in range(shape.k_blocks):
            count = clock * shape.k_blocks + k
            stage, phase = count % shape.stages, count // shape.stages
            yield Wait(home.consumed[stage], phase - 1, (phase & 1) ^ 1)
            for slot, size in ((home.a[stage], A_BYTES), (home.b[stage], B_BYTES)):
                yield Expect(leader.loaded[stage], size)
                write = Access(slot, Mode.WRITE, phase)
                yield Launch(Agent(f"TMA load of {slot.name}", (write,), (Complete(leader.loaded[stage], size),)))
            yield Arrive(leader.loaded[stage])


def load_tail(home: _Cta) -> Iterator[Operation]:
    """Wait until every filled stage is handed back: a CTA must not leave while its peer still arrives on it."""
    shape = home.shape
    end = (shape.tiles[-1] + 1) * shape.k_blocks if shape.tiles else 0
    for count in range(max(end - shape.stages, 0), end):
        stage, phase = count % shape.stages, count // shape.stages
        yield Wait(home.consumed[stage], phase, phase & 1)


def mma_role(ctas: Sequence[_Cta], stage_of: Callable[[int, int], int]) -> Iterator[Operation]:
    """Warp 1 of the leader: multiply what is loaded; `stage_of(count, k)` is the stage that it reads and releases."""
    leader = ctas[0]
    shape = leader.shape
    for clock in shape.tiles:
        a, turn = clock % shape.accumulator_stages, clock // shape.accumulator_stages
        yield Wait(leader.tmem_empty[a], turn - 1, (turn & 1) ^ 1)
        for k in range(shape.k_blocks):
            count = clock * shape.k_blocks + k
            phase = count // shape.stages
            yield Wait(leader.loaded[count % shape.stages], phase, phase & 1)
            stage = stage_of(count, k)
            reads = [Access(slot, Mode.READ, phase) for cta in ctas for slot in (cta.a[stage], cta.b[stage])]
            mode = Mode.UPDATE if k else Mode.WRITE
            writes = [Access(cta.accumulator[a], mode, turn) for cta in ctas]
            yield Launch(Agent(f"MMA of k-block {k}", (*reads, *writes), queue="tensor"))
            yield commit(cta.consumed[stage] for cta in ctas)
        yield commit(cta.tmem_full[a] for cta in ctas)


def commit(barriers: Iterator[Barrier]) -> Operation:
    """tcgen05.commit: arrive on each barrier when all MMAs that the thread issued before have ended."""
    return Launch(Agent("commit", signals=tuple(Arrive(barrier) for barrier in barriers), queue="tensor"))


def epilogue_role(home: _Cta, leader: _Cta, warp: int) -> Iterator[Operation]:
    """A warp of 4 to 7: take the accumulator to registers, hand it back, and store."""
    shape = home.shape
    for clock in shape.tiles:
        a, turn = clock % shape.accumulator_stages, clock // shape.accumulator_stages
        yield Wait(home.tmem_full[a], turn, turn & 1)
        read = Access(home.accumulator[a], Mode.READ, turn)
        yield Launch(Agent("tcgen05.ld", (read,), group="ld"))
        yield Join(("ld",))
        yield Arrive(leader.tmem_empty[a], WARP)
        if shape.tma_store:
            yield Touch(Access(home.staging[warp], Mode.WRITE))
            yield from _sync(home.epilogue_sync)
            if warp == 0:
                reads = tuple(Access(slot, Mode.READ) for slot in home.staging)
                yield Launch(Agent("TMA store", reads, group="store.read"))
                yield Join(("store.read",))
            yield from _sync(home.epilogue_sync)


def _sync(barrier: Barrier) -> Iterator[Operation]:
    yield Arrive(barrier)
    yield AwaitOwn(barrier)


def gemm_1cta(shape: GemmShape) -> Protocol:
    """The seed's 1-CTA kernel with every role on the running count."""
    return _one_cta("gemm-1cta", shape, lambda count, k: count % shape.stages)


def seed_1cta(shape: GemmShape) -> Protocol:
    """The seed's 1-CTA kernel as #2441 has it: its MMA role takes the stage from k, not from the running count."""
    return _one_cta("seed-1cta", shape, lambda count, k: k % shape.stages)


def _one_cta(name: str, shape: GemmShape, stage_of: Callable[[int, int], int]) -> Protocol:
    cta = _Cta(shape, 0, loaders=1, epilogues=1)
    threads = [thread("TMA", load_role(cta, cta)), thread("MMA", mma_role([cta], stage_of))]
    threads += [thread(f"EPILOGUE{w}", epilogue_role(cta, cta, w)) for w in range(shape.epilogue_warps)]
    return Protocol(name, tuple(threads))


def gemm_2cta(shape: GemmShape) -> Protocol:
    """The seed's 2-CTA kernel: CTA 0 of the pair multiplies for both, and no CTA leaves before its peer is done."""
    ctas = [_Cta(shape, rank, loaders=2, epilogues=2) for rank in range(2)]
    leader = ctas[0]
    mma = mma_role(ctas, lambda count, k: count % shape.stages)
    threads: list[Thread] = []
    warps = 2 + shape.epilogue_warps
    end = Barrier("cluster_sync", 2 * warps - 1, 0, BarrierKind.HARDWARE)  # the follower has no MMA warp
    for cta in ctas:
        threads.append(_until(end, "TMA", chain(load_role(cta, leader), load_tail(cta)), cta))
        if cta is leader:
            threads.append(_until(end, "MMA", mma, cta))
        threads += [
            _until(end, f"EPILOGUE{w}", epilogue_role(cta, leader, w), cta) for w in range(shape.epilogue_warps)
        ]
    return Protocol("gemm-2cta", tuple(threads))


def _until(end: Barrier, role: str, operations: Iterator[Operation], cta: _Cta) -> Thread:
    return thread(role, (*operations, *_sync(end)), cta.cta)


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A protocol that the command knows by name."""

    name: str
    summary: str
    source: str
    build: Callable[[GemmShape], Protocol]


_SOURCE = "tile-ai/tilelang #2441 examples/gemm_sm100/gemm_tcgen5mma_ws_persistent.py"

BUILT_INS = {
    item.name: item
    for item in (
        BuiltIn("gemm-1cta", "SM100 GEMM: TMA, MMA and epilogue warps, one CTA", f"{_SOURCE} (with #2785)", gemm_1cta),
        BuiltIn(
            "gemm-2cta",
            "SM100 GEMM: a pair of CTAs, the first multiplies for both",
            f"{_SOURCE} gemm_persistent_2cta, with a producer tail (as CUTLASS has) and a cluster sync at the end",
            gemm_2cta,
        ),
        BuiltIn("seed-1cta", "the 1-CTA GEMM as it was: the MMA role's stage is k % stages", _SOURCE, seed_1cta),
    )
}
