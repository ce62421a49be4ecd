"""Where operands live: one list per warp holds the warp itself, registers, special registers and constants.

A slot holds a NumPy array of 32 lanes: unsigned integers of the register's width, bool for predicates, two rows of
64-bit words for 128 bits. Arrays in slots are never written in place, so that a move is free and constants are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .isa import Unsupported
from .program import TYPE_BYTES, Immediate, Negated, Operand, Register, Sink, SpecialRegister, Symbol

if TYPE_CHECKING:
    from .warp import Fragment, Warp

__all__ = ["BLOCK", "LANES", "SPLIT", "Array", "Ending", "Regs", "Slots", "Step", "Straight", "bits_of", "pure"]

LANES = 32

Array: TypeAlias = npt.NDArray[Any]
Regs: TypeAlias = list[Any]
_Key = TypeVar("_Key", bound=tuple[object, int])

BLOCK = -1  # an ending's answer: the fragment waits and tries again when it is woken
SPLIT = -2  # an ending's answer: the warp's fragments were changed


@dataclass(frozen=True, slots=True)
class Straight:
    """An instruction that neither waits nor jumps: for all 32 lanes, and for those of a mask."""

    full: Callable[[Regs], None]
    masked: Callable[[Regs, Array], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """An instruction that may wait, jump or end: `run` answers with the next index, BLOCK or SPLIT.

    `members`, if given, says which lanes have to come together first: a slot with the mask, or all that live (-1).
    """

    run: Callable[[Warp, Fragment], int]
    members: int | None = None


Step: TypeAlias = Straight | Ending

DTYPES: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64, 128: np.uint64}


def bits_of(kind: str) -> int:
    """Width of a PTX type in bits; 1 for a predicate."""
    return 1 if kind == "pred" else 8 * TYPE_BYTES[kind]


class Slots:
    """Gives operands their slots while a kernel is compiled, and keeps what a warp's list begins with."""

    def __init__(self, registers: int, addresses: Mapping[str, tuple[str, int]]) -> None:
        """`addresses`: of every variable and parameter its space and its address in that space."""
        self._first: list[Any] = [None] * (1 + registers)
        self._constants: dict[tuple[int, int], int] = {}
        self._addresses = addresses
        self.specials: dict[tuple[str, int], int] = {}
        """Slots of special registers, by name and width: a new warp's own."""
        self.shared: dict[tuple[int, int], int] = {}
        """Slots of addresses in shared memory, by offset and width: they depend on the CTA's rank."""

    def first_values(self) -> list[Any]:
        """What the list of a new warp holds; constants are shared by all warps."""
        return list(self._first)

    def read(self, operand: Operand, kind: str) -> int:
        """The slot of an operand that is read as a value of type `kind`, whose width it has."""
        bits = bits_of(kind)
        match operand:
            case Register() if operand.bits == bits:
                return self._register(operand)
            case Register():
                raise Unsupported(f"{operand.name}, a register of {operand.bits} bits, as .{kind}")
            case SpecialRegister(name):
                return self._special(name, bits)
            case Immediate():
                return self.constant(_bits_as(operand, kind), bits)
            case Symbol(name, offset):
                space, address = self.address(name)
                if space == "shared":
                    return self._new(self.shared, (address + offset, bits))
                return self.constant(address + offset, bits)
            case _:
                raise Unsupported(f"an operand of this kind as .{kind}")

    def predicate(self, operand: Operand) -> tuple[int, bool]:
        """The slot of a predicate operand, and whether it is negated."""
        if isinstance(operand, Negated):
            slot, negated = self.predicate(operand.operand)
            return slot, not negated
        return self.read(operand, "pred"), False

    def any_width(self, operand: Operand, kind: str) -> tuple[int, int]:
        """The slot and width of an operand whose register may be wider than its type (ld, st, cvt)."""
        if isinstance(operand, Register) and operand.bits != 1:
            return self._register(operand), operand.bits
        return self.read(operand, kind), bits_of(kind)

    def write(self, operand: Operand, bits: int | None) -> int:
        """The slot of a result of that width (None: any); a result that is not wanted gets a slot of its own."""
        if isinstance(operand, Sink):
            self._first.append(zeros(bits or 64))
            return len(self._first) - 1
        if not isinstance(operand, Register) or (bits is not None and operand.bits != bits):
            raise Unsupported(f"a result of {bits} bits in an operand of another kind")
        return self._register(operand)

    def constant(self, value: int, bits: int) -> int:
        """The slot of a constant."""
        key = value % 2**bits, bits
        if key not in self._constants:
            if bits == 128:
                array = np.array([[key[0] % 2**64] * LANES, [key[0] >> 64] * LANES], np.uint64)
            else:
                array = np.full(LANES, key[0], DTYPES[bits])
            array.flags.writeable = False
            self._constants[key] = len(self._first)
            self._first.append(array)
        return self._constants[key]

    def address(self, name: str) -> tuple[str, int]:
        """Space and address of a variable or parameter."""
        if name not in self._addresses:
            raise Unsupported(f"variable {name} (a local variable, or one whose initialiser holds addresses)")
        return self._addresses[name]

    def _register(self, register: Register) -> int:
        slot = 1 + register.index
        if self._first[slot] is None:
            self._first[slot] = zeros(register.bits)
        return slot

    def _special(self, name: str, bits: int) -> int:
        if name not in SPECIALS:
            raise Unsupported(f"special register %{name}")
        return self._new(self.specials, (name, bits))

    def _new(self, slots: dict[_Key, int], key: _Key) -> int:
        if key not in slots:
            slots[key] = len(self._first)
            self._first.append(None)
        return slots[key]


SPECIALS = frozenset(
    [f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    + [f"{name}.{axis}" for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid") for axis in "xyz"]
    + ["laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "cluster_ctarank", "cluster_nctarank"]
    + [f"lanemask_{which}" for which in ("eq", "le", "lt", "ge", "gt")]
    + ["is_explicit_cluster", "dynamic_smem_size", "total_smem_size", "clock", "clock_hi", "clock64", "globaltimer"]
    + ["globaltimer_lo", "globaltimer_hi"]
)
"""Special registers that the machine has."""


def zeros(bits: int) -> Array:
    """What a register holds before it is written (PTX leaves it undefined)."""
    return np.zeros((2, LANES) if bits == 128 else LANES, DTYPES[bits])


def pure(full: Callable[[Regs], None], *results: int) -> Straight:
    """A step that only computes `results` from slots; under a mask the other lanes keep their values."""
    if len(results) == 1:
        (only,) = results

        def masked(regs: Regs, mask: Array) -> None:
            before = regs[only]
            full(regs)
            regs[only] = np.where(mask, regs[only], before)
    else:

        def masked(regs: Regs, mask: Array) -> None:
            before = [regs[slot] for slot in results]
            full(regs)
            for slot, old in zip(results, before, strict=True):
                regs[slot] = np.where(mask, regs[slot], old)

    return Straight(full, masked)


def _bits_as(immediate: Immediate, kind: str) -> int:
    """The bits of a literal in a place of type `kind`: a 64-bit float literal is converted for f32."""
    if immediate.float_bits == 64 and kind == "f32":
        double = np.array([immediate.value], np.uint64).view(np.float64)
        return int(double.astype(np.float32).view(np.uint32)[0])
    if immediate.float_bits and immediate.float_bits != bits_of(kind):
        raise Unsupported(f"a float literal of {immediate.float_bits} bits as .{kind}")
    return immediate.value
