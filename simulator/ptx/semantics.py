"""What every operation of isa.OPERATIONS does: one table, with the same keys."""

from __future__ import annotations

from .access import ACCESS
from .alu import ALU, Builder
from .arithmetic import ARITHMETIC
from .barriers import BARRIERS
from .bits import BITS
from .bulk import BULK
from .cancel import CANCEL
from .control import CONTROL
from .isa import OPERATIONS
from .tensorcore import TENSOR_CORE
from .tma import TMA
from .warpgroup import WARPGROUP

__all__ = ["BRANCH", "SEMANTICS"]

BRANCH = "bra"
"""The one operation that is built with its guard, by control.branch."""

SEMANTICS: dict[str, Builder] = {
    **ALU,
    **BITS,
    **ARITHMETIC,
    **ACCESS,
    **CONTROL,
    **BARRIERS,
    **BULK,
    **CANCEL,
    **TMA,
    **TENSOR_CORE,
    **WARPGROUP,
}

if SEMANTICS.keys() | {BRANCH} != OPERATIONS.keys():
    raise AssertionError(f"the tables differ in {(SEMANTICS.keys() | {BRANCH}) ^ OPERATIONS.keys()}")
