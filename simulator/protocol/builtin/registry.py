"""The built-in protocols by name, as families over the shape, with the parameters that can be set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...errors import InputError
from ..program import Protocol
from .clc import ClcParams, clc_scheduler
from .gemm import GemmParams, Store, gemm_1cta, seed_1cta
from .hopper import hopper_cooperative, hopper_pingpong
from .pair import gemm_2cta
from .work import Loop, Work

__all__ = ["BUILT_INS", "BuiltIn", "Param", "get"]


@dataclass(frozen=True, slots=True)
class Param:
    """An integer that can be set."""

    default: int
    meaning: str


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A protocol with a name. `make` takes the k-blocks of each tile, and all parameters.

    `on_work`, for protocols whose tiles come from a scheduler: it takes what each role is given to do, the k-blocks of
    each of its entries (holes included), the clock, and all parameters.
    """

    name: str
    summary: str
    source: str
    params: Mapping[str, Param]
    make: Callable[[tuple[int, ...], Mapping[str, int]], Protocol]
    period: str  # the parameter whose value is the period of the ring
    has_k_blocks: bool = True
    on_work: Callable[[Work, int | tuple[int, ...], Loop, Mapping[str, int]], Protocol] | None = None
    cluster: tuple[int, int] = (1, 1)  # CTAs that make a worker
    counts_waves: bool = True  # whether its loop can be the one that counts waves
    policy: str = "none"  # of the front end whose kernel it is, for lints

    def with_defaults(self, given: Mapping[str, int]) -> dict[str, int]:
        """All parameters. Raises InputError for a name that there is not."""
        for name in given:
            if name not in self.params:
                raise InputError(f"{name}={given[name]} is no parameter of {self.name}: {', '.join(self.params)}")
        return {name: given.get(name, param.default) for name, param in self.params.items()}


_RING = {"stages": Param(4, "stages of the shared-memory ring")}
_SM100 = _RING | {
    "accum_stages": Param(2, "accumulator stages in TMEM"),
    "epilogue_warps": Param(4, "epilogue warps of a CTA"),
    "subtiles": Param(2, "TMA stores per tile"),
    "store_buffers": Param(1, "epilogue buffers in shared memory"),
    "tma_store": Param(1, "1: store through shared memory by TMA, 0: from registers"),
}
_CLC = {
    "slots": Param(1, "slots of the ring of answers"),
    "epilogue_warps": Param(4, "epilogue warps of a CTA"),
    "scheduler_arrives": Param(1, "1: the scheduler warps arrive on `finished`, too (base form), 0: not (pipelined)"),
    "finished_count": Param(0, "count of `finished`; 0: as many as arrive, 13 or 11"),
    "reads_first": Param(1, "1: consumers read a slot before they release it, 0: after"),
}


class _Gemm:
    """A GEMM's protocol, as a family over shapes and for given work."""

    def __init__(self, build: Callable[[GemmParams], Protocol]) -> None:
        self.build = build

    def make(self, k_blocks: tuple[int, ...], params: Mapping[str, int]) -> Protocol:
        return self.on_work(Work.same(range(len(k_blocks))), k_blocks, Loop.TILE, params)

    def on_work(self, work: Work, k_blocks: int | tuple[int, ...], loop: Loop, params: Mapping[str, int]) -> Protocol:
        return self.build(
            GemmParams(
                k_blocks=k_blocks,
                work=work,
                loop=loop,
                stages=params["stages"],
                accum_stages=params.get("accum_stages", 2),
                epilogue_warps=params.get("epilogue_warps", 4),
                subtiles=params.get("subtiles", 2),
                store_buffers=params.get("store_buffers", 1),
                store=Store.TMA if _flag("tma_store", params.get("tma_store", 1)) else Store.DIRECT,
            )
        )


def _clc(k_blocks: tuple[int, ...], params: Mapping[str, int]) -> Protocol:
    return clc_scheduler(
        ClcParams(
            grants=len(k_blocks),
            slots=params["slots"],
            epilogue_warps=params["epilogue_warps"],
            scheduler_arrives=_flag("scheduler_arrives", params["scheduler_arrives"]),
            finished_count=params["finished_count"] or None,
            reads_first=_flag("reads_first", params["reads_first"]),
        )
    )


def _flag(name: str, value: int) -> bool:
    if value not in (0, 1):
        raise InputError(f"{name}={value} is outside [0, 1]")
    return value == 1


_SEED = "TileLang #2441, examples/gemm_sm100/gemm_tcgen5mma_ws_persistent.py"


def _sm100(name: str, summary: str, source: str, build: Callable[[GemmParams], Protocol], ctas: int = 1) -> BuiltIn:
    gemm = _Gemm(build)
    return BuiltIn(
        name, summary, source, _SM100, gemm.make, "stages", on_work=gemm.on_work, cluster=(ctas, 1), policy="tilelang"
    )


def _hopper(name: str, summary: str, source: str, build: Callable[[GemmParams], Protocol]) -> BuiltIn:
    gemm = _Gemm(build)
    return BuiltIn(
        name, summary, source, _RING, gemm.make, "stages", on_work=gemm.on_work, counts_waves=False, policy="cutlass"
    )


BUILT_INS = {
    one.name: one
    for one in (
        _sm100("gemm-1cta", "SM100 GEMM of one CTA: TMA, MMA, epilogue", f"{_SEED}, corrected by #2785", gemm_1cta),
        _sm100("gemm-2cta", "SM100 GEMM of a CTA pair", f"{_SEED}, 2-CTA", gemm_2cta, 2),
        _sm100("seed-1cta", "gemm-1cta with the seed's stage index in the MMA role, k % num_stages", _SEED, seed_1cta),
        _hopper(
            "hopper-cooperative", "Hopper GEMM: TMA, two warpgroups on each tile", "CUTLASS sm90 cooperative",
            hopper_cooperative,
        ),
        _hopper(
            "hopper-pingpong", "Hopper GEMM: TMA, two warpgroups that take tiles in turn", "CUTLASS sm90 ping-pong",
            hopper_pingpong,
        ),
        BuiltIn(
            "clc-scheduler", "CLC scheduler warps of a CTA pair; a tile is a grant",
            "TileLang gemm_tcgen5mma_ws_clc.py", _CLC, _clc, "slots", has_k_blocks=False, policy="tilelang",
        ),
    )
}  # fmt: skip


def get(name: str) -> BuiltIn:
    """Raises InputError for an unknown name."""
    if name not in BUILT_INS:
        raise InputError(f"protocol={name!r} is unknown; known: {', '.join(BUILT_INS)}")
    return BUILT_INS[name]
