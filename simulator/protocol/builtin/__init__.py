"""The built-in protocols."""

from __future__ import annotations

from .clc import ClcParams, clc_scheduler
from .gemm import GemmParams, Store, gemm_1cta, seed_1cta
from .hopper import hopper_cooperative, hopper_pingpong
from .pair import gemm_2cta
from .registry import BUILT_INS, BuiltIn, get
from .work import Loop, Work, role_mismatch

__all__ = [
    "BUILT_INS",
    "BuiltIn",
    "ClcParams",
    "GemmParams",
    "Loop",
    "Store",
    "Work",
    "clc_scheduler",
    "gemm_1cta",
    "gemm_2cta",
    "get",
    "hopper_cooperative",
    "hopper_pingpong",
    "role_mismatch",
    "seed_1cta",
]
