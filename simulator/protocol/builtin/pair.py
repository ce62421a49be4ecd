"""The seed's 2-CTA GEMM: each CTA of a pair loads its halves, the leader's MMA reads both (tcgen05 cta_group::2)."""

from __future__ import annotations

from collections.abc import Iterator

from ..ops import (
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
    Space,
    Wait,
)
from ..program import Protocol, thread
from .gemm import AFTER, BEFORE, GemmParams, Store, Stores
from .work import Turns, rounds

__all__ = ["gemm_2cta"]


def gemm_2cta(params: GemmParams) -> Protocol:
    """Tiles are those of the pair. Arrivals on `loaded` and `tmem_empty` go to CTA 0; commits reach both CTAs."""
    pair = _Pair(params)
    roles = [("tma", 0, pair.load_stages(0)), ("tma", 1, pair.load_stages(1)), ("mma", 0, pair.mma())]
    roles += [(f"epilogue{w}", cta, pair.epilogue(cta, w)) for cta in (0, 1) for w in range(params.epilogue_warps)]
    return Protocol(
        "gemm-2cta",
        tuple(thread(role, pair.until_both_are_done(body), cta) for role, cta, body in roles),
    )


class _Pair:
    def __init__(self, params: GemmParams) -> None:
        self.params = params
        self.stores = [Stores(params, cta) for cta in (0, 1)]
        stages, accums, ctas = range(params.stages), range(params.accum_stages), (0, 1)
        self.loaded = [Barrier(f"loaded[{stage}]", 2 * 32) for stage in stages]
        self.consumed = [[Barrier(f"consumed[{stage}]", 1, cta) for stage in stages] for cta in ctas]
        self.tmem_full = [[Barrier(f"tmem_full[{accum}]", 1, cta) for accum in accums] for cta in ctas]
        self.tmem_empty = [Barrier(f"tmem_empty[{accum}]", 2 * 32 * params.epilogue_warps) for accum in accums]
        self.a = [[Slot(f"A_shared[{stage}]", cta) for stage in stages] for cta in ctas]
        self.b = [[Slot(f"B_shared[{stage}]", cta) for stage in stages] for cta in ctas]
        self.accum = [[Slot(f"C_tmem[{accum}]", cta, Space.TMEM) for accum in accums] for cta in ctas]
        self.cluster = Barrier("cluster", 3 + 2 * params.epilogue_warps, 0, BarrierKind.HARDWARE)

    def load_stages(self, cta: int) -> Iterator[Operation]:
        """Rule 36: both CTAs' copies signal the leader's barrier, which CTA 0 arms once, for all four copies."""
        p = self.params
        turns = Turns(p.stages)
        loaded: list[tuple[int, int, int]] = []
        for w in rounds(p.work.load, p.loop):
            for count in p.counts(w):
                stage = count % p.stages
                phase = turns.next(stage)
                yield Wait(self.consumed[cta][stage], phase - 1, ((count // p.stages) & 1) ^ 1)
                if cta == 0:
                    yield Expect(self.loaded[stage], 2 * (p.a_bytes + p.b_bytes))
                for slot, size in ((self.a[cta][stage], p.a_bytes), (self.b[cta][stage], p.b_bytes)):
                    write = Access(slot, Mode.WRITE, phase)
                    yield Launch(Agent(f"load of {slot.name}", (write,), (Complete(self.loaded[stage], size),)))
                yield Arrive(self.loaded[stage], 32)
                loaded.append((stage, phase, (count // p.stages) & 1))
        # The producer's tail: the leader's commits must have landed here before this CTA may end.
        for stage, phase, parity in loaded[-p.stages :]:
            yield Wait(self.consumed[cta][stage], phase, parity)

    def mma(self) -> Iterator[Operation]:
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
                sources = (half[cta][stage] for cta in (0, 1) for half in (self.a, self.b))
                reads = [Access(slot, Mode.READ, phase) for slot in sources]
                mode = Mode.UPDATE if k else Mode.WRITE
                into = [Access(self.accum[cta][accum], mode, turn) for cta in (0, 1)]
                released = tuple(Arrive(self.consumed[cta][stage]) for cta in (0, 1))
                yield Launch(Agent(f"mma of k-block {k}", (*reads, *into), released, "tcgen05"))
            full = tuple(Arrive(self.tmem_full[cta][accum]) for cta in (0, 1))
            yield Launch(Agent("commit", signals=full, queue="tcgen05"))

    def epilogue(self, cta: int, warp: int) -> Iterator[Operation]:
        p = self.params
        turns = Turns(p.accum_stages)
        for taken, w in enumerate(rounds(p.work.epilogue, p.loop)):
            accum = w % p.accum_stages
            turn = turns.next(accum)
            yield Wait(self.tmem_full[cta][accum], turn, (w // p.accum_stages) & 1)
            yield AFTER
            yield Launch(Agent("tcgen05.ld", (Access(self.accum[cta][accum], Mode.READ, turn),), group="ld"))
            yield Join(("ld",))
            yield BEFORE
            yield Arrive(self.tmem_empty[accum], 32)
            if p.store is Store.TMA:
                yield from self.stores[cta].of(warp, taken)

    def until_both_are_done(self, body: Iterator[Operation]) -> Iterator[Operation]:
        """A role, then the cluster barrier without which a CTA could end while the other still uses its memory."""
        yield from body
        yield from (Arrive(self.cluster), AwaitOwn(self.cluster))
