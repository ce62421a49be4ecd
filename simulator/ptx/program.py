"""A parsed PTX module: frozen values, registers and labels resolved in their scopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "TYPE_BYTES",
    "Address",
    "Guard",
    "Immediate",
    "Instruction",
    "Kernel",
    "Label",
    "Module",
    "Negated",
    "Operand",
    "Pair",
    "Param",
    "Register",
    "Sink",
    "SpecialRegister",
    "Symbol",
    "Targets",
    "Variable",
    "Vector",
]

TYPE_BYTES = {
    **dict.fromkeys(("b8", "u8", "s8"), 1),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 2),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 4),
    **dict.fromkeys(("b64", "u64", "s64", "f64", "f32x2"), 8),
    "b128": 16,
}
"""Bytes of a value of a PTX type; `pred` has none."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register of one scope. `index` counts those of the kernel that are used; `bits` is 1 for a predicate."""

    name: str
    index: int
    bits: int


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """A name such as tid.x or cluster_ctarank, without the percent sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number: an integer of any sign, or the bits of a float that 0f… or 0d… writes; `float_bits` 0, 32 or 64."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable or parameter, plus bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the code: the index of the instruction that follows it."""

    name: str
    target: int


@dataclass(frozen=True, slots=True)
class Targets:
    """A list of branch targets, for brx.idx: indices of instructions."""

    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that is not wanted."""


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p` as an operand."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Pair:
    """`p|q`: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, …}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`, with the coordinates of a tensor behind a comma: `[base, {x, y}]`."""

    base: Operand
    offset: int = 0
    extra: tuple[Operand, ...] = ()


Operand: TypeAlias = (
    Register | SpecialRegister | Immediate | Symbol | Label | Targets | Sink | Negated | Pair | Vector | Address
)


@dataclass(frozen=True, slots=True)
class Guard:
    """`@p` or `@!p`."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `pieces` are the parts of its opcode; `source` is the file and line that .loc names, or ''."""

    pieces: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    source: str = ""

    @property
    def opcode(self) -> str:
        """The opcode in full, without white space."""
        return ".".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable; `space` is shared, global or const, `size` in bytes (0: as much dynamic memory as the launch gives).

    `initial` are its first bytes, or None where an initialiser holds addresses, which is not supported.
    """

    name: str
    space: str
    size: int
    align: int
    initial: bytes | None = b""


@dataclass(frozen=True, slots=True)
class Param:
    """A kernel parameter: `size` in bytes, `offset` in parameter memory."""

    name: str
    type: str
    size: int
    align: int
    offset: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """An entry function. `shared` are its own variables; `registers` is how many are used."""

    name: str
    params: tuple[Param, ...]
    code: tuple[Instruction, ...]
    shared: tuple[Variable, ...]
    registers: int
    required_block: tuple[int, int, int] | None = None
    required_cluster: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX module: `target` such as sm_90a; variables outside kernels; entry functions by name."""

    version: str
    target: str
    variables: tuple[Variable, ...]
    kernels: dict[str, Kernel]

    @property
    def sm(self) -> int:
        """The architecture of the target: 90, 100, …"""
        return int("".join(c for c in self.target if c.isdigit()) or 0)
