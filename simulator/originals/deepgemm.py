"""DeepGEMM: panels of 8 or 16 blocks, with the correction for odd panels on SM90, dense and masked-grouped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from ..errors import InputError
from .args import Args
from .listing import Listing, Original, require_work, strided

__all__ = ["ORIGINALS"]


@dataclass(frozen=True, slots=True)
class _Panels:
    """The scheduler's template parameters."""

    width: int
    on_a: bool
    pairs: bool
    sm90: bool

    @classmethod
    def read(cls, args: Args) -> _Panels:
        width, multicast = args.count("num_1d_blocks_per_group"), args.count("num_multicast", default=1)
        if multicast > 2 or width % multicast:
            raise InputError(f"params: num_multicast={multicast} is not 1 or 2, or does not divide {width}")
        arch = args.choice("arch", {"sm90": "sm90", "sm100": "sm100"}, "sm90")
        return cls(width, args.flag("multicast_on_a", False), multicast == 2, arch == "sm90")

    def decode(self, linear: int, m_blocks: int, n_blocks: int) -> tuple[int, int]:
        """The block (m, n) of an id within m_blocks × n_blocks."""
        primary, secondary = (n_blocks, m_blocks) if self.on_a else (m_blocks, n_blocks)
        panel, inner = divmod(linear, secondary * self.width)
        first = panel * self.width
        width = min(self.width, primary - first)
        if self.sm90 and self.pairs and width % 2:  # pairs take the even part; multicast is off in the last column
            even = width ^ 1
            if inner < even * secondary:
                width = even
            else:
                inner, first, width = inner - even * secondary, first + even, 1
        along, across = divmod(inner, width)
        return (along, first + across) if self.on_a else (first + across, along)


def _normal(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    m, n, sms = args.count("m_blocks"), args.count("n_blocks"), args.count("num_sms")
    panels = _Panels.read(args)
    args.done()
    workers = strided(sms, m * n, sms, lambda linear, _: panels.decode(linear, m, n))
    return Listing(workers, frozenset(product(range(m), range(n))))


def _masked(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    groups, n, sms = args.counts("m_blocks_per_group"), args.count("n_blocks"), args.count("num_sms")
    panels = _Panels.read(args)
    args.done()
    total = sum(groups) * n
    require_work(total)
    owner = [(group, m, inner) for group, m in enumerate(groups) for inner in range(m * n)]

    def decode(linear: int, _: int) -> tuple[int, int, int]:
        group, m, inner = owner[linear]
        return (group, *panels.decode(inner, m, n))

    real = ((group, m, column) for group, rows in enumerate(groups) for m in range(rows) for column in range(n))
    return Listing(strided(sms, total, sms, decode), frozenset(real))


_SOURCE = "deepseek-ai/DeepGEMM 54e226124 deep_gemm/include/deep_gemm/scheduler/gemm.cuh"

ORIGINALS = (
    Original(name="deepgemm.normal", source=_SOURCE, entry="[m, n] per SM", build=_normal),
    Original(name="deepgemm.m_grouped_masked", source=_SOURCE, entry="[group, m, n] per SM", build=_masked),
)
