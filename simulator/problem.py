"""The problem: one GEMM, cut into CTA tiles, on a device with so many SMs."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import InputError
from .intmath import ceil_div

__all__ = ["MAX_INT32", "Problem", "require_int32"]

MAX_INT32 = 2**31 - 1
"""Kernels hold ids and sizes in 32-bit integers; so does every scheduler of the seed."""


def require_int32(name: str, value: int, minimum: int = 1) -> None:
    """InputError unless minimum <= value <= 2^31 - 1."""
    if not minimum <= value <= MAX_INT32:
        raise InputError(f"{name}={value} is outside [{minimum}, {MAX_INT32}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """D[m, n] = A[m, k] · B[k, n] in CTA tiles of block_m × block_n elements and k-blocks of block_k.

    Sizes are in elements; they need not divide the tile. `cluster_m` × `cluster_n` CTAs form a cluster.
    Raises InputError when a size is not in [1, 2^31 - 1], or when a cluster needs more SMs than the device has.
    """

    m: int
    n: int
    k: int
    block_m: int = 128
    block_n: int = 256
    block_k: int = 64
    cluster_m: int = 1
    cluster_n: int = 1
    sm_count: int = 148  # a B200

    def __post_init__(self) -> None:
        for name in Problem.__slots__:
            require_int32(name, getattr(self, name))
        if self.cluster_size > self.sm_count:
            raise InputError(
                f"cluster={self.cluster_m}x{self.cluster_n} needs {self.cluster_size} SMs, sm_count is {self.sm_count}"
            )

    @property
    def tiles_m(self) -> int:
        """CTA tile rows."""
        return ceil_div(self.m, self.block_m)

    @property
    def tiles_n(self) -> int:
        """CTA tile columns."""
        return ceil_div(self.n, self.block_n)

    @property
    def k_blocks(self) -> int:
        """k-blocks per tile."""
        return ceil_div(self.k, self.block_k)

    @property
    def tiles(self) -> int:
        """CTA tiles of the output."""
        return self.tiles_m * self.tiles_n

    @property
    def cluster_size(self) -> int:
        """CTAs per cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def clusters_m(self) -> int:
        """Cluster tile rows, the last one perhaps only partly inside the output."""
        return ceil_div(self.tiles_m, self.cluster_m)

    @property
    def clusters_n(self) -> int:
        """Cluster tile columns, the last one perhaps only partly inside the output."""
        return ceil_div(self.tiles_n, self.cluster_n)
