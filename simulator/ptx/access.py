"""Loads, stores and atomics as steps: addresses, spaces, vectors, and registers wider than what is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .alu import Builder, signed_view
from .floats import FORMATS
from .isa import Modifiers, Unsupported
from .kinds import Fault, MachineKind
from .memory import PARAM_WINDOW, RANK_SHIFT, SHARED_WINDOW, Region
from .program import TYPE_BYTES, Address, Instruction, Operand, Register, Symbol, Vector
from .slots import DTYPES, Array, Regs, Slots, Step, Straight, bits_of, pure
from .warp import Cta, Warp

__all__ = ["ACCESS", "address_of", "nothing", "resolve", "shared_place"]

Addresses: TypeAlias = Callable[[Regs], Array]
Part: TypeAlias = tuple[Region, Array, Array | None]
"""A region, offsets in it, and which of the addresses they belong to (None: all)."""


def address_of(operand: Operand, s: Slots) -> Addresses:
    """Addresses of an operand `[base + offset]` in its own space, as int64 of 32 lanes."""
    if not isinstance(operand, Address) or operand.extra:
        raise Unsupported("an operand that is not an address")
    base, offset = operand.base, operand.offset
    if isinstance(base, Symbol):
        slot, offset = s.read(Symbol(base.name, base.offset + offset), "u64"), 0
    elif isinstance(base, Register) and base.bits in (32, 64):
        slot = s.read(base, f"u{base.bits}")
    else:
        slot = s.read(base, "u64")

    def addresses(regs: Regs) -> Array:
        value: Array = regs[slot].astype(np.int64)
        return value + offset if offset else value

    return addresses


def shared_place(warp: Warp, address: int, space: str) -> tuple[Cta, int]:
    """The CTA and the offset that a shared, or generic, address means. Raises Fault."""
    if not space:
        address -= SHARED_WINDOW
    rank, ctas = address >> RANK_SHIFT, warp.cta.cluster.ctas
    if address < 0 or rank >= len(ctas) or (space in ("shared", "shared::cta") and rank != warp.cta.rank):
        raise Fault(
            MachineKind.OUT_OF_BOUNDS,
            f"address {address:#x} is not in the shared memory of {'the cluster' if not space else f'.{space}'}",
            address=address,
        )
    cta = ctas[rank]
    if not cta.shared.alive:
        raise Fault(MachineKind.PEER_EXIT, f"shared memory of {cta}, which has ended", address=address)
    return cta, address - cta.shared.base


def _shared(warp: Warp, addresses: Array) -> list[Part]:
    return [(warp.cta.shared, addresses - warp.cta.shared.base, None)]


def _cluster(warp: Warp, addresses: Array) -> list[Part]:
    ranks = addresses >> RANK_SHIFT
    parts: list[Part] = []
    for rank in np.unique(ranks).tolist():
        region = shared_place(warp, rank << RANK_SHIFT, "shared::cluster")[0].shared
        chosen = ranks == rank
        parts.append((region, addresses[chosen] - region.base, None if chosen.all() else chosen))
    return parts


def _global(warp: Warp, addresses: Array) -> list[Part]:
    return [
        (region, (addresses if chosen is None else addresses[chosen]) - region.base, chosen)
        for region, chosen in warp.machine.heap.split(addresses)
    ]


def _param(warp: Warp, addresses: Array) -> list[Part]:
    return [(warp.machine.params, addresses, None)]


def _generic(warp: Warp, addresses: Array) -> list[Part]:
    """Addresses of any window: shared, parameters, global."""
    window = np.where(addresses < SHARED_WINDOW, -1, np.minimum(addresses >> 40, 4))
    parts: list[Part] = []
    for which in np.unique(window).tolist():
        chosen = window == which
        base, look_up = {1: (SHARED_WINDOW, _cluster), 2: (PARAM_WINDOW, _param), 3: (PARAM_WINDOW, _param)}.get(
            which, (0, _global)
        )
        for region, offsets, inner in look_up(warp, addresses[chosen] - base):
            mask = chosen
            if inner is not None:
                mask = chosen.copy()
                mask[chosen] = inner
            parts.append((region, offsets, None if mask.all() else mask))
    return parts


_SPACES: dict[str, Callable[[Warp, Array], list[Part]]] = {
    "": _generic,
    "shared": _shared,
    "shared::cta": _shared,
    "shared::cluster": _cluster,
    "global": _global,
    "const": _global,
    "param": _param,
    "param::entry": _param,
}


def resolve(space: str) -> Callable[[Warp, Array], list[Part]]:
    """The function that finds the regions of addresses of a space. Raises Unsupported."""
    if space not in _SPACES:
        raise Unsupported(f".{space}")
    return _SPACES[space]


def _place(fault: Fault, i: Instruction) -> Fault:
    fault.facts.setdefault("instruction", i)
    return fault


def _elements(m: Modifiers) -> tuple[int, int, int]:
    """Bytes of an element, elements of an access, and how many of them make one operand."""
    size = TYPE_BYTES.get(m["type"], 0)
    if not size:
        raise Unsupported(f".{m['type']}")
    count = int(m["vector"][1:]) if m["vector"] else 1
    return (8, 2 * count, 2) if size == 16 else (size, count, 1)


def _items(operand: Operand, count: int) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise Unsupported(f"{len(items)} operands for {count} values")
    return items


def _ld(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """ld: what is loaded fills a wider register with zeros, or with its sign for a signed type."""
    element, count, words = _elements(m)
    items = _items(i.operands[0], count // words)
    slots = [s.write(item, None) for item in items]
    widths = [getattr(item, "bits", bits_of(m["type"])) for item in items]
    addresses, find = address_of(i.operands[1], s), resolve(m["space"])
    view = signed_view(m["type"]) if words == 1 else None

    def fetch(warp: Warp, where: Array) -> list[Array]:
        values: Array | None = None
        for region, offsets, chosen in find(warp, where):
            part = region.fetch(offsets, element, count)
            if chosen is None:
                values = part
            else:
                if values is None:
                    values = np.zeros((len(where), *part.shape[1:]), part.dtype)
                values[chosen] = part
        assert values is not None
        if count == 1:
            return [values]
        columns = np.ascontiguousarray(values.T)
        return [columns[j] if words == 1 else columns[2 * j : 2 * j + 2] for j in range(count // words)]

    def widen(value: Array, width: int) -> Array:
        if words == 2 or width == 8 * element:
            return value
        return (value if view is None else value.view(view)).astype(DTYPES[width])

    def full(regs: Regs) -> None:
        try:
            columns = fetch(regs[0], addresses(regs))
        except Fault as fault:
            raise _place(fault, i) from None
        for slot, value, width in zip(slots, columns, widths, strict=True):
            regs[slot] = widen(value, width)

    def masked(regs: Regs, mask: Array) -> None:
        try:
            columns = fetch(regs[0], addresses(regs)[mask])
        except Fault as fault:
            raise _place(fault, i) from None
        for slot, value, width in zip(slots, columns, widths, strict=True):
            merged = regs[slot].copy()
            merged[..., mask] = widen(value, width)
            regs[slot] = merged

    return Straight(full, masked)


def _st(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """st: of a wider register the low bits are stored."""
    element, count, words = _elements(m)
    sources = [s.any_width(item, m["type"])[0] for item in _items(i.operands[1], count // words)]
    addresses, find = address_of(i.operands[0], s), resolve(m["space"])
    if m["space"] in ("param", "param::entry", "const"):
        raise Unsupported(f"a store to .{m['space']}")
    plain = DTYPES[8 * element]

    def put(warp: Warp, where: Array, values: list[Array]) -> None:
        table = values[0] if count == 1 else np.concatenate([v if v.ndim == 2 else v[None] for v in values]).T
        table = table.astype(plain, copy=False)
        warp.machine.effects += 1
        for region, offsets, chosen in find(warp, where):
            region.store(offsets, element, count, table if chosen is None else table[chosen], warp.cta.index)

    def full(regs: Regs) -> None:
        try:
            put(regs[0], addresses(regs), [regs[slot] for slot in sources])
        except Fault as fault:
            raise _place(fault, i) from None

    def masked(regs: Regs, mask: Array) -> None:
        try:
            put(regs[0], addresses(regs)[mask], [regs[slot][..., mask] for slot in sources])
        except Fault as fault:
            raise _place(fault, i) from None

    return Straight(full, masked)


# -- atomics ----------------------------------------------------------------------------------------------------------

Update: TypeAlias = Callable[[Array, list[Array]], Array]


def _inc(old: Array, operands: list[Array]) -> Array:
    new: Array = np.where(old >= operands[0], old.dtype.type(0), old + old.dtype.type(1))
    return new


def _dec(old: Array, operands: list[Array]) -> Array:
    limit = operands[0]
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


_UPDATES: dict[str, Update] = {
    "add": lambda old, x: old + x[0],
    "min": lambda old, x: np.minimum(old, x[0]),
    "max": lambda old, x: np.maximum(old, x[0]),
    "and": lambda old, x: old & x[0],
    "or": lambda old, x: old | x[0],
    "xor": lambda old, x: old ^ x[0],
    "exch": lambda old, x: x[0],
    "cas": lambda old, x: np.where(old == x[0], x[1], old),
    "inc": _inc,
    "dec": _dec,
}


def _atomic(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """atom and red: lane after lane, from the lowest; PTX leaves the order open."""
    kind, op = m["type"], m["op"]
    base = {"f16x2": "f16", "bf16x2": "bf16"}.get(kind, kind)
    if base in FORMATS and (op != "add" or FORMATS[base].native is None):
        raise Unsupported(f".{op}.{kind}")
    if bits_of(kind) not in (32, 64) or (m["noftz"] and base != "f16"):
        raise Unsupported(f".{kind}")
    bits = bits_of(kind)
    returns = i.pieces[0] == "atom"
    operands = i.operands[1:] if returns else i.operands
    if len(operands) != (3 if op == "cas" else 2):
        raise Unsupported(f".{op} with {len(i.operands)} operands")
    d = s.write(i.operands[0], bits) if returns else None
    addresses, find, update = address_of(operands[0], s), resolve(m["space"]), _UPDATES[op]
    sources = [s.read(operand, kind) for operand in operands[1:]]
    view = FORMATS[base].native if base in FORMATS else signed_view(kind)
    view, plain = view or DTYPES[bits], DTYPES[bits]

    def apply(warp: Warp, where: Array, values: list[Array]) -> Array:
        warp.machine.effects += 1
        before = np.zeros(len(where), plain)
        for lane in range(len(where)):
            for region, offsets, _ in find(warp, where[lane : lane + 1]):
                old = region.fetch(offsets, bits // 8, 1)
                new = update(old.view(view), [value[lane : lane + 1].view(view) for value in values])
                region.store(offsets, bits // 8, 1, np.asarray(new, view).view(plain), warp.cta.index)
                before[lane] = old[0]
        return before

    def masked(regs: Regs, mask: Array) -> None:
        try:
            before = apply(regs[0], addresses(regs)[mask], [regs[slot][mask] for slot in sources])
        except Fault as fault:
            raise _place(fault, i) from None
        if d is not None:
            merged = regs[d].copy()
            merged[mask] = before
            regs[d] = merged

    every = np.ones(32, np.bool_)
    return Straight(lambda regs: masked(regs, every), masked)


# -- addresses --------------------------------------------------------------------------------------------------------

_WINDOWS = {"global": 0, "const": 0, "shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "param": PARAM_WINDOW}
_WINDOWS |= {"shared::cluster": SHARED_WINDOW, "param::entry": PARAM_WINDOW}


def _window(space: str) -> int:
    if space not in _WINDOWS:
        raise Unsupported(f".{space}")
    return _WINDOWS[space]


def _cvta(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """cvta: from a space to generic addresses, or back."""
    if m["bits"] != "u64":
        raise Unsupported(f".{m['bits']}")
    window = _window(m["space"])
    step = np.uint64(-window % 2**64 if m["to"] else window)
    d = s.write(i.operands[0], 64)
    a = s.read(i.operands[1], "u64")

    def full(regs: Regs) -> None:
        regs[d] = regs[a] + step

    return pure(full, d)


def _isspacep(i: Instruction, m: Modifiers, s: Slots) -> Step:
    window = _window(m["space"])
    d, a = s.write(i.operands[0], 1), s.read(i.operands[1], "u64")
    own = m["space"] in ("shared", "shared::cta")

    def full(regs: Regs) -> None:
        address = regs[a].astype(np.int64)
        if window == 0:
            regs[d] = address >= 4 << 40
            return
        inside = (address >= window) & (address < window + (1 << 32))
        if own:
            inside &= (address - window) >> RANK_SHIFT == regs[0].cta.rank
        regs[d] = inside

    return pure(full, d)


def _mapa(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """The address of the same variable in the CTA of another rank of the cluster."""
    kind = m["type"]
    if kind not in ("u32", "u64") or m["space"] not in ("", "shared::cluster") or (not m["space"] and kind == "u32"):
        raise Unsupported(f"{i.opcode}")
    d, a, rank = s.write(i.operands[0], bits_of(kind)), s.read(i.operands[1], kind), s.read(i.operands[2], "u32")
    window, plain = 0 if m["space"] else SHARED_WINDOW, DTYPES[bits_of(kind)]

    def full(regs: Regs) -> None:
        offset = (regs[a].astype(np.int64) - window) & ((1 << RANK_SHIFT) - 1)
        regs[d] = (window + offset + (regs[rank].astype(np.int64) << RANK_SHIFT)).astype(plain)

    return pure(full, d)


def _getctarank(i: Instruction, m: Modifiers, s: Slots) -> Step:
    kind = m["type"]
    if kind not in ("u32", "u64") or m["space"] not in ("", "shared::cluster"):
        raise Unsupported(f"{i.opcode}")
    d, a = s.write(i.operands[0], 32), s.read(i.operands[1], kind)
    window = 0 if m["space"] else SHARED_WINDOW

    def full(regs: Regs) -> None:
        regs[d] = ((regs[a].astype(np.int64) - window) >> RANK_SHIFT).astype(np.uint32)

    return pure(full, d)


def nothing(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """An instruction that changes nothing here: memory is coherent and in program order, registers are plenty."""
    return Straight(lambda regs: None, lambda regs, mask: None)


ACCESS: dict[str, Builder] = {
    "ld": _ld,
    "st": _st,
    "atom": _atomic,
    "red": _atomic,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "mapa": _mapa,
    "getctarank": _getctarank,
    **dict.fromkeys(("membar", "fence", "prefetch", "prefetchu", "setmaxnreg"), nothing),
    **dict.fromkeys(("griddepcontrol.launch_dependents", "griddepcontrol.wait"), nothing),
    "cp.async.bulk.prefetch": nothing,
}
