"""Bugs that can be planted both in gemm.pml, by a macro, and in our protocols, by an edit of their operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilesched.simulator.protocol.builtin import BUILT_INS
from tilesched.simulator.protocol.ops import Arrive, AwaitOwn, Barrier, Expect, Join, Launch, Operation, Wait
from tilesched.simulator.protocol.program import Protocol, Thread

__all__ = ["CASES", "Case", "Shape"]

Edit: TypeAlias = Callable[[Protocol, "Shape"], Protocol]


@dataclass(frozen=True, slots=True)
class Shape:
    """One worker: its CTAs, stages, k-blocks of a tile, tiles, and epilogue warps of a CTA; stores are direct."""

    ctas: int
    stages: int
    k_blocks: int
    tiles: int
    warps: int = 1

    def protocol(self, name: str | None = None) -> Protocol:
        """Our built-in, by default the right one for these CTAs."""
        built_in = BUILT_INS[name or f"gemm-{self.ctas}cta"]
        params = {"stages": self.stages, "epilogue_warps": self.warps, "tma_store": 0}
        return built_in.make((self.k_blocks,) * self.tiles, built_in.with_defaults(params))

    def macros(self) -> list[str]:
        """The same for gemm.pml."""
        return [
            f"-DCTAS={self.ctas}",
            f"-DSTAGES={self.stages}",
            f"-DK_BLOCKS={self.k_blocks}",
            f"-DTILES={self.tiles}",
            f"-DWARPS={self.warps}",
        ]

    def __str__(self) -> str:
        counts = [("CTA", self.ctas), ("stage", self.stages), ("k-block", self.k_blocks), ("tile", self.tiles)]
        if self.warps > 1:
            counts.append(("epilogue warp", self.warps))
        return ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in counts)


@dataclass(frozen=True, slots=True)
class Case:
    """A change, at a shape where it does harm or at one where it does none."""

    name: str
    shape: Shape
    macros: tuple[str, ...] = ()
    edit: Edit = lambda protocol, _: protocol


# -- edits -------------------------------------------------------------------------------------------------------------


def _each(role: str, change: Callable[[Operation], Sequence[Operation]]) -> Edit:
    """Replace every operation of a role by what `change` says."""

    def changed(item: Thread) -> Thread:
        return replace(item, operations=tuple(new for operation in item.operations for new in change(operation)))

    return lambda protocol, _: _over(protocol, role, changed)


def _over(protocol: Protocol, role: str, change: Callable[[Thread], Thread]) -> Protocol:
    threads = (change(item) if item.role.startswith(role) else item for item in protocol.threads)
    return replace(protocol, threads=tuple(threads))


def _on(operation: Operation, kind: type[Wait] | type[Arrive] | type[Expect], barrier: str) -> bool:
    return isinstance(operation, kind) and operation.barrier.name.startswith(barrier)


def _parity_flipped(role: str, barrier: str) -> Edit:
    def change(operation: Operation) -> Sequence[Operation]:
        if isinstance(operation, Wait) and operation.barrier.name.startswith(barrier):
            return [replace(operation, parity=operation.parity ^ 1)]
        return [operation]

    return _each(role, change)


def _dropped(role: str, kind: type[Wait] | type[Arrive], barrier: str) -> Edit:
    return _each(role, lambda operation: [] if _on(operation, kind, barrier) else [operation])


def _count(barrier: str, count: int) -> Edit:
    """Initialise the barriers of a name with another count of lanes."""

    def new(one: Barrier) -> Barrier:
        return replace(one, count=count) if one.name.startswith(barrier) else one

    def change(operation: Operation) -> Sequence[Operation]:
        if isinstance(operation, (Wait, Arrive, Expect, AwaitOwn)):
            return [replace(operation, barrier=new(operation.barrier))]
        if isinstance(operation, Launch):
            signals = tuple(replace(one, barrier=new(one.barrier)) for one in operation.agent.signals)
            return [Launch(replace(operation.agent, signals=signals))]
        return [operation]

    return _each("", change)


def _moved_up(role: str, barrier: str, before: type[Join] | type[Expect]) -> Edit:
    """Each arrival on a barrier goes before the operations of a kind that precede it."""

    def changed(item: Thread) -> Thread:
        done: list[Operation] = []
        begin = 0  # where the operations since the last arrival begin
        for operation in item.operations:
            if _on(operation, Arrive, barrier):
                place = next(index for index in range(begin, len(done)) if isinstance(done[index], before))
                done.insert(place, operation)
                begin = len(done)
            else:
                done.append(operation)
        return replace(item, operations=tuple(done))

    return lambda protocol, _: _over(protocol, role, changed)


def _mma_signals(keep: Callable[[Barrier], bool], *, by_thread: bool = False) -> Edit:
    """MMAs signal only some barriers; `by_thread`: the warp arrives on the others itself, without awaiting the MMA."""

    def change(operation: Operation) -> Sequence[Operation]:
        if not (isinstance(operation, Launch) and operation.agent.accesses):
            return [operation]
        signals = operation.agent.signals
        kept = tuple(one for one in signals if keep(one.barrier))
        own = [one for one in signals if isinstance(one, Arrive) and one not in kept] if by_thread else []
        return [Launch(replace(operation.agent, signals=kept)), *own]

    return _each("mma", change)


def _parity_from_k(protocol: Protocol, shape: Shape) -> Protocol:
    def changed(item: Thread) -> Thread:
        operations, k = [], 0
        for operation in item.operations:
            if isinstance(operation, Wait) and operation.barrier.name.startswith("loaded"):
                operation = replace(operation, parity=(k // shape.stages) & 1)
                k = (k + 1) % shape.k_blocks
            operations.append(operation)
        return replace(item, operations=tuple(operations))

    return _over(protocol, "mma", changed)


def _without_a_bytes(protocol: Protocol, _: Shape) -> Protocol:
    """The bytes of A are not announced: those of B are, 32 KiB."""

    def change(operation: Operation) -> Sequence[Operation]:
        return [] if isinstance(operation, Expect) and operation.tx == 128 * 64 * 2 else [operation]

    return _each("tma", change)(protocol, _)


def _both_expect(protocol: Protocol, _: Shape) -> Protocol:
    """CTA 1 announces the bytes of its copies, too."""

    def changed(item: Thread) -> Thread:
        operations: list[Operation] = []
        for operation in item.operations:
            if item.cta == 1 and isinstance(operation, Arrive) and operation.barrier.name.startswith("loaded"):
                operations.append(Expect(operation.barrier, (128 + 256) * 64 * 2))
            operations.append(operation)
        return replace(item, operations=tuple(operations))

    return _over(protocol, "tma", changed)


def _without_tail(protocol: Protocol, _: Shape) -> Protocol:
    """Producers do not wait for the last releases."""

    def changed(item: Thread) -> Thread:
        last = max(index for index, operation in enumerate(item.operations) if _on(operation, Arrive, "loaded"))
        tail = (operation for operation in item.operations[last:] if not isinstance(operation, Wait))
        return replace(item, operations=(*item.operations[:last], *tail))

    return _over(protocol, "tma", changed)


def _in_turn(*edits: Edit) -> Edit:
    def edit(protocol: Protocol, shape: Shape) -> Protocol:
        for one in edits:
            protocol = one(protocol, shape)
        return protocol

    return edit


_NO_CLUSTER_BARRIER = _each(
    "",
    lambda operation: (
        []
        if isinstance(operation, (Arrive, AwaitOwn)) and operation.barrier.name.startswith("cluster")
        else [operation]
    ),
)


def _seed(_: Protocol, shape: Shape) -> Protocol:
    return shape.protocol("seed-1cta")


# -- cases -------------------------------------------------------------------------------------------------------------

_ONE = Shape(1, 2, 3, 3)
_PAIR = Shape(2, 1, 2, 2)


def _cases() -> Iterable[Case]:
    for stages, k_blocks, tiles in ((1, 2, 2), (2, 1, 2), (2, 2, 2), (2, 3, 2), (3, 2, 2), (2, 1, 4)):
        yield Case("right", Shape(1, stages, k_blocks, tiles))
    yield Case("right", Shape(1, 2, 1, 3, warps=2))
    for stages, k_blocks, tiles in ((1, 2, 1), (1, 1, 2), (2, 1, 1)):
        yield Case("right", Shape(2, stages, k_blocks, tiles))

    yield Case("parity of `loaded` flipped", _ONE, ("FLIP_LOADED",), _parity_flipped("mma", "loaded"))
    yield Case("parity of `tmem_full` flipped", _ONE, ("FLIP_TMEM_FULL",), _parity_flipped("epilogue", "tmem_full"))
    yield Case("TMA warp starts with parity 0", _ONE, ("START_PARITY_TMA",), _parity_flipped("tma", "consumed"))
    yield Case("MMA warp starts with parity 0", _ONE, ("START_PARITY_MMA",), _parity_flipped("mma", "tmem_empty"))
    for shape in (Shape(1, 2, 3, 2), Shape(1, 3, 2, 3), Shape(1, 2, 3, 1), Shape(1, 2, 2, 3), Shape(1, 3, 3, 2)):
        yield Case("stage from k (seed)", shape, ("STAGE_FROM_K",), _seed)
    for shape in (Shape(1, 2, 2, 2), Shape(1, 2, 3, 2), Shape(1, 2, 2, 1), Shape(1, 2, 4, 2)):
        yield Case("parity from k", shape, ("PHASE_FROM_K",), _parity_from_k)
    yield Case("no wait on `consumed`", _ONE, ("NO_WAIT_CONSUMED",), _dropped("tma", Wait, "consumed"))
    fits = Shape(1, 3, 3, 1)  # every stage is loaded once
    yield Case("no wait on `consumed`", fits, ("NO_WAIT_CONSUMED",), _dropped("tma", Wait, "consumed"))
    yield Case("no wait on `loaded`", _ONE, ("NO_WAIT_LOADED",), _dropped("mma", Wait, "loaded"))
    yield Case("no wait on `tmem_full`", _ONE, ("NO_WAIT_TMEM_FULL",), _dropped("epilogue", Wait, "tmem_full"))
    for tiles in (3, 2):
        shape = Shape(1, 2, 1, tiles)
        yield Case("no wait on `tmem_empty`", shape, ("NO_WAIT_TMEM_EMPTY",), _dropped("mma", Wait, "tmem_empty"))
        drop = _dropped("epilogue", Arrive, "tmem_empty")
        yield Case("no arrival on `tmem_empty`", shape, ("NO_ARRIVE_TMEM_EMPTY",), drop)
    yield Case("no arrival on `loaded`", _ONE, ("NO_ARRIVE_LOADED",), _dropped("tma", Arrive, "loaded"))
    yield Case("MMA releases no stage", _ONE, ("NO_RELEASE",), _mma_signals(lambda barrier: False))
    yield Case("MMA releases no stage", fits, ("NO_RELEASE",), _mma_signals(lambda barrier: False))
    release = _mma_signals(lambda barrier: False, by_thread=True)
    yield Case("stage released before the MMA ends", _ONE, ("EARLY_RELEASE_MMA",), release)
    early = _moved_up("epilogue", "tmem_empty", Join)
    yield Case("accumulator released before it is read", _ONE, ("EARLY_RELEASE_EPILOGUE",), early)
    yield Case("arrival before the bytes are announced", _ONE, ("ARRIVE_FIRST",), _moved_up("tma", "loaded", Expect))
    yield Case("bytes of A not announced", _ONE, ("A_EXPECTED=0",), _without_a_bytes)
    yield Case("`loaded` counts one warp too many", _ONE, ("LOADED_COUNT=2",), _count("loaded", 64))
    yield Case("`consumed` counts 2", _ONE, ("CONSUMED_COUNT=2",), _count("consumed", 2))
    warps = Shape(1, 1, 1, 4, warps=2)
    yield Case("`tmem_empty` counts one warp of two", warps, ("TMEM_EMPTY_COUNT=1",), _count("tmem_empty", 32))
    yield Case("`tmem_empty` counts three warps of two", warps, ("TMEM_EMPTY_COUNT=3",), _count("tmem_empty", 96))

    yield Case("`loaded` counts one CTA", _PAIR, ("LOADED_COUNT=1",), _count("loaded", 32))
    leader = _mma_signals(lambda barrier: barrier.cta == 0)
    yield Case("stages released in the leader only", _PAIR, ("RELEASE_LEADER_ONLY",), leader)
    yield Case("both CTAs announce bytes", _PAIR, ("BOTH_EXPECT",), _both_expect)
    last = Shape(2, 1, 1, 1)
    yield Case("no producer's tail", last, ("NO_TAIL",), _without_tail)
    yield Case("no cluster barrier", last, ("NO_CLUSTER_BARRIER",), _NO_CLUSTER_BARRIER)
    neither = _in_turn(_without_tail, _NO_CLUSTER_BARRIER)
    yield Case("neither", last, ("NO_TAIL", "NO_CLUSTER_BARRIER"), neither)


CASES = tuple(_cases())
