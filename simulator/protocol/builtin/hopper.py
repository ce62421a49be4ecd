"""Hopper GEMMs: one TMA producer and two consumer warpgroups with wgmma, cooperative and ping-pong (CUTLASS sm90)."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import InputError
from ..ops import (
    Access,
    Agent,
    Arrive,
    Barrier,
    Complete,
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
from .gemm import GemmParams
from .work import Loop, Turns, rounds

__all__ = ["hopper_cooperative", "hopper_pingpong"]

_GROUPS = (0, 1)  # consumer warpgroups


def hopper_cooperative(params: GemmParams) -> Protocol:
    """Both warpgroups take every tile, each half of its rows; a stage is free when both have released it."""
    ring = _Ring(params, readers=2)
    tiles = list(rounds(params.work.mma, params.loop))
    return ring.protocol("hopper-cooperative", [ring.consume(group, tiles) for group in _GROUPS])


def hopper_pingpong(params: GemmParams) -> Protocol:
    """The warpgroups take the tiles in turn; order barriers give tensor core and epilogue to one at a time."""
    ring = _Ring(params, readers=1)
    tiles = list(rounds(params.work.mma, params.loop))
    return ring.protocol("hopper-pingpong", [ring.take_turns(group, tiles[group::2]) for group in _GROUPS])


class _Ring:
    def __init__(self, params: GemmParams, *, readers: int) -> None:
        if params.loop is not Loop.TILE:
            raise InputError("loop=wave is the seed's old loop; the Hopper kernels count tiles: loop=tile")
        self.params = params
        self.full = [Barrier(f"full[{stage}]", 1) for stage in range(params.stages)]
        self.empty = [Barrier(f"empty[{stage}]", readers) for stage in range(params.stages)]
        # Rows of A that one warpgroup reads are a slot of their own, so that a k-block that it leaves out is seen.
        self.a = [[Slot(f"A_shared[{stage}].{part}") for part in range(readers)] for stage in range(params.stages)]
        self.b = [Slot(f"B_shared[{stage}]") for stage in range(params.stages)]
        self.mainloop = [Barrier(f"order_mainloop[{group}]", 1) for group in _GROUPS]
        self.order_epilogue = [Barrier(f"order_epilogue[{group}]", 1) for group in _GROUPS]

    def protocol(self, name: str, consumers: list[Iterator[Operation]]) -> Protocol:
        threads = (thread(f"math{group}", consumers[group]) for group in _GROUPS)
        return Protocol(name, (thread("tma", self.load_stages()), *threads))

    def load_stages(self) -> Iterator[Operation]:
        p = self.params
        size, turns = p.a_bytes + p.b_bytes, Turns(p.stages)
        for w in rounds(p.work.load, p.loop):
            for count in p.counts(w):
                stage = count % p.stages
                phase = turns.next(stage)
                yield Wait(self.empty[stage], phase - 1, ((count // p.stages) & 1) ^ 1)
                yield Arrive(self.full[stage], tx=size)
                writes = tuple(Access(slot, Mode.WRITE, phase) for slot in (*self.a[stage], self.b[stage]))
                yield Launch(Agent(f"load of stage {stage}", writes, (Complete(self.full[stage], size),)))

    def consume(self, group: int, tiles: list[int]) -> Iterator[Operation]:
        for w in tiles:
            yield from self.multiply(group, w, w)
            yield from self.store(group, w)

    def take_turns(self, group: int, tiles: list[int]) -> Iterator[Operation]:
        """Warpgroup 0 begins: its first waits are those that fresh barriers let pass."""
        other = 1 - group
        for turn, w in enumerate(tiles):
            phase = turn - 1 + group
            yield Wait(self.mainloop[group], phase, phase & 1)
            yield from self.multiply(group, w, turn)
            yield Arrive(self.mainloop[other])
            yield Wait(self.order_epilogue[group], phase, phase & 1)
            yield from self.store(group, turn)
            yield Arrive(self.order_epilogue[other])

    def multiply(self, group: int, w: int, turn: int) -> Iterator[Operation]:
        """The main loop keeps one wgmma group in flight: a stage is released when the next group is issued."""
        p = self.params
        accum = _registers(group)
        count = 0
        yield Fence(FenceKind.WGMMA)
        for k, count in enumerate(p.counts(w)):
            stage, phase = count % p.stages, count // p.stages
            yield Wait(self.full[stage], phase, phase & 1)
            sources = (self.a[stage][group % len(self.a[stage])], self.b[stage])
            reads = tuple(Access(slot, Mode.READ, phase) for slot in sources)
            into = Access(accum, Mode.UPDATE if k else Mode.WRITE, turn)
            yield Launch(Agent(f"wgmma of k-block {k}", (*reads, into), queue="wgmma", group=f"wgmma {stage}"))
            if k:
                yield Join((f"wgmma {(count - 1) % p.stages}",))
                yield Arrive(self.empty[(count - 1) % p.stages])
        if p.counts(w):
            yield Join((f"wgmma {count % p.stages}",))
            yield Arrive(self.empty[count % p.stages])

    def store(self, group: int, turn: int) -> Iterator[Operation]:
        """Registers to shared memory to a TMA store, that is read before the next one is written."""
        buffer = Slot(f"D_shared.{group}")
        yield Touch(Access(_registers(group), Mode.READ, turn))
        yield Touch(Access(buffer, Mode.WRITE, turn))
        yield Fence(FenceKind.PROXY_ASYNC)
        yield Launch(Agent("store of a tile", (Access(buffer, Mode.READ, turn),), group="store"))
        yield Join(("store",))


def _registers(group: int) -> Slot:
    """The accumulator of a warpgroup."""
    return Slot(f"registers of math{group}", space=Space.REGISTERS)
