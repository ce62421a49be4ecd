"""The seed's 1-CTA GEMM: a TMA warp, an MMA warp and the epilogue warps of one persistent CTA (SM100, tcgen05)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ...errors import InputError
from ..ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Complete,
    Expect,
    Fence,
    FenceKind,
    Join,
    Launch,
    Mode,
    Operation,
    Slot,
    Space,
    Touch,
    Wait,
)
from ..program import Protocol, thread
from .work import MAX_BUFFERS, MAX_WARPS, Loop, Turns, Work, require, rounds

__all__ = ["AFTER", "BEFORE", "GemmParams", "Store", "Stores", "gemm_1cta", "seed_1cta"]


AFTER, BEFORE = Fence(FenceKind.TCGEN05_AFTER), Fence(FenceKind.TCGEN05_BEFORE)
_PROXY = Fence(FenceKind.PROXY_ASYNC)


class Store(Enum):
    """How the epilogue stores its tile."""

    TMA = "tma"  # through C_shared, subtile by subtile
    DIRECT = "direct"  # from registers


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmParams:
    """One worker of a GEMM. Raises InputError when a value is outside its bound."""

    k_blocks: int | tuple[int, ...]  # stage loads of every tile, or of each
    work: Work
    stages: int = 4
    accum_stages: int = 2
    epilogue_warps: int = 4
    subtiles: int = 2  # TMA stores per tile
    store_buffers: int = 1
    store: Store = Store.TMA
    loop: Loop = Loop.TILE
    a_bytes: int = 128 * 64 * 2  # of a stage of A, in one CTA
    b_bytes: int = 256 * 64 * 2

    def __post_init__(self) -> None:
        for k_blocks in self.k_blocks if isinstance(self.k_blocks, tuple) else (self.k_blocks,):
            require(0, k_blocks=k_blocks)
        if isinstance(self.k_blocks, tuple):
            lists = (self.work.load, self.work.mma, self.work.epilogue)
            if self.loop is not Loop.TILE or any(len(tiles) > len(self.k_blocks) for tiles in lists):
                raise InputError(f"k_blocks={self.k_blocks} needs loop=tile and an entry for each tile")
        require(1, MAX_WARPS, epilogue_warps=self.epilogue_warps)
        require(1, MAX_BUFFERS, stages=self.stages, accum_stages=self.accum_stages)
        require(1, MAX_BUFFERS, subtiles=self.subtiles, store_buffers=self.store_buffers)
        require(1, a_bytes=self.a_bytes, b_bytes=self.b_bytes)
        if 2 * (self.a_bytes + self.b_bytes) >= 2**20:
            raise InputError(f"a_bytes+b_bytes={self.a_bytes + self.b_bytes} does not fit the tx-count of a CTA pair")

    def counts(self, w: int) -> range:
        """The running counts of the k-blocks of iteration `w`: they go on across tiles."""
        if isinstance(self.k_blocks, int):
            return range(w * self.k_blocks, (w + 1) * self.k_blocks)
        return range(sum(self.k_blocks[:w]), sum(self.k_blocks[: w + 1]))


def gemm_1cta(params: GemmParams) -> Protocol:
    """The kernel with one running count for the stage of every role (tilelang 1cb4d4f3a)."""
    return _protocol("gemm-1cta", params, restarts=False)


def seed_1cta(params: GemmParams) -> Protocol:
    """The kernel as the seed has it: the MMA role reads and releases stage `k % num_stages` (bug of #2441)."""
    return _protocol("seed-1cta", params, restarts=True)


def _protocol(name: str, params: GemmParams, *, restarts: bool) -> Protocol:
    ring = _Ring(params)
    warps = range(params.epilogue_warps)
    return Protocol(
        name,
        (
            thread("tma", ring.load_stages()),
            thread("mma", ring.mma(restarts=restarts)),
            *(thread(f"epilogue{warp}", ring.epilogue(warp)) for warp in warps),
        ),
    )


class _Ring:
    """Barriers and slots of one CTA. Counts are those of the seed: 32 lanes arrive on `loaded` and `tmem_empty`."""

    def __init__(self, params: GemmParams) -> None:
        self.params = params
        self.stores = Stores(params)
        stages, accums = range(params.stages), range(params.accum_stages)
        self.loaded = [Barrier(f"loaded[{stage}]", 32) for stage in stages]
        self.consumed = [Barrier(f"consumed[{stage}]", 1) for stage in stages]
        self.tmem_full = [Barrier(f"tmem_full[{accum}]", 1) for accum in accums]
        self.tmem_empty = [Barrier(f"tmem_empty[{accum}]", 32 * params.epilogue_warps) for accum in accums]
        self.a = [Slot(f"A_shared[{stage}]") for stage in stages]
        self.b = [Slot(f"B_shared[{stage}]") for stage in stages]
        self.accum = [Slot(f"C_tmem[{accum}]", space=Space.TMEM) for accum in accums]

    def load_stages(self) -> Iterator[Operation]:
        p = self.params
        turns = Turns(p.stages)
        for w in rounds(p.work.load, p.loop):
            for count in p.counts(w):
                stage = count % p.stages
                phase = turns.next(stage)
                yield Wait(self.consumed[stage], phase - 1, ((count // p.stages) & 1) ^ 1)
                for slot, size in ((self.a[stage], p.a_bytes), (self.b[stage], p.b_bytes)):
                    yield Expect(self.loaded[stage], size)
                    write = Access(slot, Mode.WRITE, phase)
                    yield Launch(Agent(f"load of {slot.name}", (write,), (Complete(self.loaded[stage], size),)))
                yield Arrive(self.loaded[stage], 32)

    def mma(self, *, restarts: bool) -> Iterator[Operation]:
        p = self.params
        turns, accum_turns = Turns(p.stages), Turns(p.accum_stages)
        for w in rounds(p.work.mma, p.loop):
            accum = w % p.accum_stages
            turn = accum_turns.next(accum)
            yield Wait(self.tmem_empty[accum], turn - 1, ((w // p.accum_stages) & 1) ^ 1)
            yield AFTER
            for k, count in enumerate(p.counts(w)):
                stage = count % p.stages
                phase = turns.next(stage)
                yield Wait(self.loaded[stage], phase, (count // p.stages) & 1)
                used = k % p.stages if restarts else stage
                reads = tuple(Access(slot, Mode.READ, phase) for slot in (self.a[used], self.b[used]))
                into = Access(self.accum[accum], Mode.UPDATE if k else Mode.WRITE, turn)
                yield Launch(Agent(f"mma of k-block {k}", (*reads, into), (Arrive(self.consumed[used]),), "tcgen05"))
            yield Launch(Agent("commit", signals=(Arrive(self.tmem_full[accum]),), queue="tcgen05"))

    def epilogue(self, warp: int) -> Iterator[Operation]:
        p = self.params
        turns = Turns(p.accum_stages)
        for taken, w in enumerate(rounds(p.work.epilogue, p.loop)):
            accum = w % p.accum_stages
            turn = turns.next(accum)
            yield Wait(self.tmem_full[accum], turn, (w // p.accum_stages) & 1)
            yield AFTER
            yield Launch(Agent("tcgen05.ld", (Access(self.accum[accum], Mode.READ, turn),), group="ld"))
            yield Join(("ld",))
            yield BEFORE
            yield Arrive(self.tmem_empty[accum], 32)
            if p.store is Store.TMA:
                yield from self.stores.of(warp, taken)


class Stores:
    """The TMA stores of a CTA's tiles: warp 0 issues them and awaits their reads for all epilogue warps."""

    def __init__(self, params: GemmParams, cta: int = 0) -> None:
        self.params = params
        warps, buffers = range(params.epilogue_warps), range(params.store_buffers)
        sync = Barrier("bar.sync epilogue", params.epilogue_warps, cta, BarrierKind.HARDWARE)
        self.sync = (Arrive(sync), AwaitOwn(sync))
        self.slots = [[Slot(f"C_shared[{buffer}].{part}", cta) for part in warps] for buffer in buffers]
        self.groups = [f"store from buffer {buffer}" for buffer in buffers]
        self.last = sum(tile is not None for tile in params.work.epilogue) - 1

    def of(self, warp: int, taken: int) -> Iterator[Operation]:
        """What a warp does for the `taken`-th tile of its worker."""
        p = self.params
        for subtile in range(p.subtiles):
            store = taken * p.subtiles + subtile
            buffer, turn = store % p.store_buffers, store // p.store_buffers
            if warp == 0 and turn:
                yield Join((self.groups[buffer],))
            yield from self.sync  # before a refill every warp is past the wait of the issuing one
            yield Touch(Access(self.slots[buffer][warp], Mode.WRITE, turn))
            yield _PROXY
            yield from self.sync
            if warp == 0:
                reads = tuple(Access(slot, Mode.READ, turn) for slot in self.slots[buffer])
                yield Launch(Agent(self.groups[buffer], reads, group=self.groups[buffer]))
        if warp == 0 and taken == self.last:
            yield Join(tuple(self.groups))
