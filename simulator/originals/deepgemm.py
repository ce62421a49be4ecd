"""DeepGEMM: panels of 8 or 16 blocks, with the correction for odd panels on SM90, dense and masked-grouped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ..errors import InputError
from .args import Args
from .listing import Coordinates, Listing, Original, Pairs, require_work, strided

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
        return self._walk(linear, m_blocks, n_blocks)[0]

    def alone(self, linear: int, m_blocks: int, n_blocks: int) -> bool:
        """Whether multicast is off for this id: in a panel of one block, where SM90 can do so."""
        return self.sm90 and self._walk(linear, m_blocks, n_blocks)[1] == 1

    def pairing(self, alone: Iterable[Coordinates]) -> Pairs | None:
        """How CTAs go together; `alone`: tiles without multicast. Pairs of SM100 are one MMA, and are never alone.

        On SM90 a CTA finds out whether its peer has a tile (is_peer_cta_alive).
        """
        if not self.pairs:
            return None
        return Pairs(shared=-2 if self.on_a else -1, alone=frozenset(alone), neighbours=not self.sm90, lone=self.sm90)

    def _walk(self, linear: int, m_blocks: int, n_blocks: int) -> tuple[tuple[int, int], int]:
        """The block of an id, and the width of the panel it is in."""
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
        return ((along, first + across) if self.on_a else (first + across, along)), width


def _normal(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    m, n, sms = args.count("m_blocks"), args.count("n_blocks"), args.count("num_sms")
    panels = _Panels.read(args)
    args.done()
    workers = strided(sms, m * n, sms, lambda linear, _: panels.decode(linear, m, n))
    alone = (panels.decode(linear, m, n) for linear in range(m * n) if panels.alone(linear, m, n))
    return Listing(workers, frozenset(product(range(m), range(n))), pairs=panels.pairing(alone))


def _masked(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    groups, n, sms = args.counts("m_blocks_per_group"), args.count("n_blocks"), args.count("num_sms")
    panels = _Panels.read(args)
    args.done()
    return _groups(panels, list(enumerate(groups)), n, sms)


def _k_grouped(params: Mapping[str, object]) -> Listing:
    """Every group has all m_blocks × n_blocks, and its own K; groups without any are left out."""
    args = Args(params)
    m, n, sms = args.count("m_blocks"), args.count("n_blocks"), args.count("num_sms")
    lengths = args.counts("k_blocks_per_group")
    panels = _Panels.read(args)
    args.done()
    return _groups(panels, [(group, m) for group, length in enumerate(lengths) if length], n, sms, lengths)


def _groups(
    panels: _Panels, groups: list[tuple[int, int]], n: int, sms: int, lengths: Sequence[int] | None = None
) -> Listing:
    """Groups (number, rows) of `n` columns one after another, each walked by itself. `lengths`: k-blocks by group."""
    require_work(sum(rows for _, rows in groups) * n)
    owner = [(group, rows, inner) for group, rows in groups for inner in range(rows * n)]

    def decode(linear: int, _: int = 0) -> tuple[int, int, int]:
        group, rows, inner = owner[linear]
        return (group, *panels.decode(inner, rows, n))

    alone = (decode(linear) for linear, (_, rows, inner) in enumerate(owner) if panels.alone(inner, rows, n))
    real: frozenset[Coordinates] = frozenset(
        (group, m, column) for group, rows in groups for m in range(rows) for column in range(n)
    )
    k_blocks: dict[Coordinates, int] | int = 0 if lengths is None else {tile: lengths[tile[0]] for tile in real}
    workers = strided(sms, len(owner), sms, decode)
    return Listing(workers, real, k_blocks=k_blocks, pairs=panels.pairing(alone))


_SOURCE = "deepseek-ai/DeepGEMM 54e226124 deep_gemm/include/deep_gemm/scheduler/gemm.cuh"

ORIGINALS = (
    Original(
        name="deepgemm.normal",
        source=_SOURCE,
        entry="[m, n] per SM",
        example={"m_blocks": 3, "n_blocks": 5, "num_sms": 4, "num_1d_blocks_per_group": 8, "num_multicast": 2},
        build=_normal,
    ),
    Original(
        name="deepgemm.m_grouped_masked",
        source=_SOURCE,
        entry="[group, m, n] per SM",
        example={"m_blocks_per_group": [2, 0, 1], "n_blocks": 3, "num_sms": 4, "num_1d_blocks_per_group": 8},
        build=_masked,
    ),
    Original(
        name="deepgemm.k_grouped",
        source=_SOURCE,
        entry="[group, m, n] per SM",
        example={
            "m_blocks": 3,
            "n_blocks": 43,
            "k_blocks_per_group": [1, 2],
            "num_sms": 132,
            "num_1d_blocks_per_group": 8,
            "num_multicast": 2,
        },
        build=_k_grouped,
    ),
)
