"""Parse PTX text into a Module: registers, variables and labels are resolved in their lexical scopes.

Names that a compiler's inline assembly re-uses in nested `{ }` are different registers and labels there. Instructions
are not judged here: whatever follows PTX's grammar is kept with its line (isa.py knows the operations).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from ..errors import InputError
from .lexer import Kind, Token, tokenize
from .program import (
    TYPE_BYTES,
    Address,
    Guard,
    Immediate,
    Instruction,
    Kernel,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Param,
    Register,
    Sink,
    SpecialRegister,
    Symbol,
    Targets,
    Variable,
    Vector,
)
from .scopes import Parsed, Scope, Unresolved, family_bits, immediate
from .stream import Stream

__all__ = ["parse"]

_MAX_INSTRUCTIONS = 200_000
_MAX_REGISTERS = 100_000
_MAX_DEPTH = 64
_MAX_NESTED_OPERANDS = 8
_MAX_ALIGN = 2**16
_MAX_VARIABLE = 2**28  # bytes
_LINKAGE = (".visible", ".extern", ".weak", ".common", ".noreturn")


def parse(text: str) -> Module:
    """The module that a PTX text holds. Raises InputError with the line of what is not PTX, or exceeds a limit."""
    return _Parser(tokenize(text)).module()


class _Parser(Stream):
    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self.files = dict(_file_names(tokens))
        self._outer = Scope()
        self._nested = 0

    # -- the module -----------------------------------------------------------------------------------------------

    def module(self) -> Module:
        version = target = ""
        variables: list[Variable] = []
        kernels: dict[str, Kernel] = {}
        while self.peek().text:
            token = self.next()
            if token.kind is Kind.LINE or token.text in _LINKAGE:
                continue
            if token.text == ".version":
                version = self.next().text
            elif token.text == ".target":
                target = self.name()
                while self.take(","):
                    self.name()
            elif token.text in (".global", ".const", ".shared"):
                variables += self.variables(token.text[1:], self._outer, ())
            elif token.text == ".entry":
                kernel = self._entry()
                if kernel is not None:
                    kernels[kernel.name] = kernel
            elif token.text in (".func", ".section", ".alias", ".pragma", ".address_size"):
                self.pass_over(token.text)
            else:
                self._at -= 1
                raise self.error("a directive is expected")
        if not version or not target:
            raise InputError("the PTX text has no .version and .target")
        return Module(version, target, tuple(variables), kernels)

    def pass_over(self, directive: str) -> None:
        """Go to the end of a directive that means nothing here: a device function, which only `call` could reach."""
        if directive == ".address_size":
            self.next()
            return
        depth = 0
        while True:
            text = self.next().text
            depth += (text == "{") - (text == "}")
            if depth == 0 and text in (";", "}"):
                return

    def variables(self, space: str, scope: Scope, taken: Iterable[Variable]) -> list[Variable]:
        """The variables of one declaration, whose space has been read."""
        align, size = 0, 0
        while self.peek().kind is Kind.DOT:
            word = self.next().text[1:]
            if word == "align":
                align = self.number()
            elif word in TYPE_BYTES:
                size = TYPE_BYTES[word]
            elif word in ("v2", "v4"):
                raise self.error("a vector variable is not supported")
            elif word != "attribute":
                raise self.error(f".{word} is not the type of a variable")
        names = {one.name for one in taken}
        found = []
        while True:
            found.append(self._variable(space, size, align, scope, names))
            if not self.take(","):
                break
        self.expect(";")
        return found

    def _variable(self, space: str, size: int, align: int, scope: Scope, names: set[str]) -> Variable:
        if not size:
            raise self.error("the type of a variable is not known")
        if not 0 <= align <= _MAX_ALIGN or align & (align - 1):
            raise self.error(f"align {align} is not a power of two up to {_MAX_ALIGN}")
        name, count = self.name(), 1
        while self.take("["):
            count *= 0 if self.peek().text == "]" else self.number()
            self.expect("]")
        initial: bytes | None = b""
        if self.take("="):
            initial = self._initial(size)
        if len(initial or b"") > count * size:
            raise self.error(f"variable {name} has {count * size} bytes, its initialiser {len(initial or b'')}")
        if not 0 <= count * size <= _MAX_VARIABLE:
            raise self.error(f"variable {name} has {count * size} bytes, more than {_MAX_VARIABLE}")
        unique = name
        while unique in names or (scope is not self._outer and unique in self._outer.symbols):
            unique += "'"
        names.add(unique)
        scope.symbols[name] = Symbol(unique)
        return Variable(unique, space, count * size, align or size, initial)

    def _initial(self, size: int) -> bytes | None:
        """The bytes of an initialiser, or None if it holds addresses."""
        values = bytearray()
        known, depth = True, 0
        while depth > 0 or self.peek().text not in (",", ";"):
            if self.peek().kind is Kind.NUMBER or self.peek().text == "-":
                sign = -1 if self.take("-") else 1
                value = sign * immediate(self.next()).value
                values += (value % 2 ** (8 * size)).to_bytes(size, "little")
                continue
            token = self.next()
            if token.kind is Kind.NAME:
                known = False
            elif token.text in ("{", "}"):
                depth += 1 if token.text == "{" else -1
            elif token.text not in (",", "+", "(", ")"):
                raise InputError(f"line {token.line}: {token.text[:40]!r} in an initialiser")
        return bytes(values) if known else None

    # -- a kernel -------------------------------------------------------------------------------------------------

    def _entry(self) -> Kernel | None:
        name = self.name()
        scope = Scope(self._outer)
        params = self._params(scope)
        limits: dict[str, tuple[int, ...]] = {}
        while self.peek().kind is Kind.DOT:
            directive = self.next().text[1:]
            if directive == "pragma":
                self.next()
                self.expect(";")
                continue
            values = []
            while self.peek().kind is Kind.NUMBER:
                values.append(self.number())
                if not self.take(","):
                    break
            limits[directive] = tuple(values)
        if self.take(";"):  # declared, not defined
            return None
        self.expect("{")
        body = _Body(self, scope)
        body.block(scope, 1)
        return Kernel(
            name=name,
            params=params,
            code=body.finished(),
            shared=tuple(body.shared),
            registers=body.registers,
            required_block=_three(limits.get("reqntid")),
            required_cluster=_three(limits.get("reqnctapercluster")),
        )

    def _params(self, scope: Scope) -> tuple[Param, ...]:
        params: list[Param] = []
        offset = 0
        if not self.take("("):
            return ()
        while not self.take(")"):
            self.expect(".param")
            kind, align, pointee = "", 0, False
            while self.peek().kind is Kind.DOT:
                word = self.next().text[1:]
                if word == "align":
                    value = self.number()
                    align = align if pointee else value
                elif word == "ptr":
                    pointee = True
                elif word in TYPE_BYTES:
                    kind = word
            name = self.name()
            if not kind:
                raise self.error(f"the type of parameter {name} is not known")
            size = TYPE_BYTES[kind]
            align = align or size
            if self.take("["):
                size *= self.number()
                self.expect("]")
            if not 0 < size <= 2**15 or not 0 < align <= 2**12:
                raise self.error(f"parameter {name} has {size} bytes aligned to {align}")
            offset = -(-offset // align) * align
            params.append(Param(name, kind, size, align, offset))
            scope.symbols[name] = Symbol(name)
            offset += size
            self.take(",")
        return tuple(params)

    # -- operands -------------------------------------------------------------------------------------------------

    def operand(self, body: _Body, scope: Scope) -> Parsed:
        self._nested += 1
        if self._nested > _MAX_NESTED_OPERANDS:
            raise self.error(f"operands are nested deeper than {_MAX_NESTED_OPERANDS}")
        parsed = self._operand(body, scope)
        self._nested -= 1
        return parsed

    def _operand(self, body: _Body, scope: Scope) -> Parsed:
        if self.take("!"):
            return Negated(cast("Operand", self.operand(body, scope)))
        if self.take("["):
            return self._address(body, scope)
        for opening, closing in (("{", "}"), ("(", ")")):
            if self.take(opening):
                items = self._list(body, scope, closing)
                return Vector(tuple(cast("list[Operand]", items)))
        first = self._atom(body, scope)
        if self.take("|"):
            return Pair(cast("Operand", first), cast("Operand", self._atom(body, scope)))
        while isinstance(first, Symbol) and self.peek().text in ("+", "-"):
            first = replace(first, offset=first.offset + self._signed())
        return first

    def _signed(self) -> int:
        sign = -1 if self.next().text == "-" else 1
        return sign * self.number()

    def _list(self, body: _Body, scope: Scope, closing: str) -> list[Parsed]:
        items: list[Parsed] = []
        while not self.take(closing):
            items.append(self.operand(body, scope))
            if not self.take(",") and self.peek().text != closing:
                raise self.error(f"',' or {closing!r} is expected")
        return items

    def _address(self, body: _Body, scope: Scope) -> Address:
        base = self._atom(body, scope)
        if isinstance(base, Unresolved):
            raise InputError(f"line {base.line}: {base.name!r} is not declared")
        offset = 0
        while self.peek().text in ("+", "-"):
            offset += self._signed()
        extra: list[Parsed] = []
        while self.take(","):
            extra.append(self.operand(body, scope))
        self.expect("]")
        return Address(base, offset, tuple(cast("list[Operand]", extra)))

    def _atom(self, body: _Body, scope: Scope) -> Parsed:
        token = self.peek()
        if token.text == "-" or token.kind is Kind.NUMBER:
            sign = -1 if self.take("-") else 1
            if self.peek().kind is not Kind.NUMBER:
                raise self.error("a number is expected")
            value = immediate(self.next())
            if value.float_bits:
                return replace(value, value=value.value ^ (1 << (value.float_bits - 1)) if sign < 0 else value.value)
            return Immediate(sign * value.value)
        name = self.name()
        if name == "_":
            return Sink()
        known = body.lookup(name, scope)
        if known is not None:
            return known
        if name.startswith("%"):
            if self.peek().kind is Kind.DOT:
                name += self.next().text
            return SpecialRegister(name[1:])
        return Unresolved(name, scope, token.line)


class _Body:
    """The statements of a kernel: code so far, and what is declared in which scope."""

    def __init__(self, parser: _Parser, outer: Scope) -> None:
        self._parser = parser
        self._outer = outer
        self._code: list[Instruction] = []
        self._source = ""
        self.shared: list[Variable] = []
        self.registers = 0

    def block(self, scope: Scope, depth: int) -> None:
        """Statements up to the closing brace."""
        parser = self._parser
        if depth > _MAX_DEPTH:
            raise parser.error(f"blocks are nested deeper than {_MAX_DEPTH}")
        while not parser.take("}"):
            token = parser.peek()
            if token.kind is Kind.LINE:
                self._locate(parser.next().text)
            elif parser.take("{"):
                self.block(Scope(scope), depth + 1)
            elif token.kind is Kind.NAME and parser.peek(1).text == ":":
                self._label(scope)
            elif token.kind is Kind.DOT:
                self._directive(scope)
            elif token.kind is Kind.NAME or token.text == "@":
                self._instruction(scope)
            elif not parser.take(";"):
                raise parser.error("an instruction is expected")

    def lookup(self, name: str, scope: Scope | None) -> Operand | None:
        """The register, variable or parameter that a name means in a scope."""
        while scope is not None:
            if name in scope.used:
                return scope.used[name]
            if name in scope.symbols:
                return scope.symbols[name]
            bits = scope.registers.get(name) or family_bits(name, scope)
            if bits:
                if self.registers >= _MAX_REGISTERS:
                    raise self._parser.error(f"more than {_MAX_REGISTERS} registers")
                scope.used[name] = Register(name, self.registers, bits)
                self.registers += 1
                return scope.used[name]
            scope = scope.parent
        return None

    def finished(self) -> tuple[Instruction, ...]:
        """The code, with labels resolved. Raises InputError for a name that was never declared."""
        return tuple(
            replace(one, operands=tuple(self._resolved(operand) for operand in one.operands)) for one in self._code
        )

    def _locate(self, text: str) -> None:
        match = re.match(r"\.loc\s+(\d+)\s+(\d+)", text)
        if match is not None:
            file = self._parser.files.get(int(match[1]), f"file {match[1]}")
            self._source = f"{file}:{match[2]}"

    def _label(self, scope: Scope) -> None:
        parser = self._parser
        name = parser.name()
        parser.expect(":")
        if name in scope.labels or name in scope.tables:
            raise parser.error(f"label {name} is declared twice in its scope")
        if parser.take(".branchtargets"):
            names = [Unresolved(parser.name(), scope, parser.peek().line)]
            while parser.take(","):
                names.append(Unresolved(parser.name(), scope, parser.peek().line))
            parser.expect(";")
            scope.tables[name] = tuple(names)
        elif parser.peek().text in (".callprototype", ".calltargets"):
            parser.pass_over(".callprototype")
        else:
            scope.labels[name] = Label(name, len(self._code))

    def _directive(self, scope: Scope) -> None:
        parser = self._parser
        word = parser.next().text
        if word == ".reg":
            self._registers(scope)
        elif word == ".shared":
            self.shared += parser.variables("shared", scope, self.shared)
        elif word in (".local", ".param", ".global", ".const"):
            parser.variables(word[1:], scope, ())
        elif word == ".pragma":
            parser.pass_over(word)
        else:
            raise parser.error(f"{word} is not known here")

    def _registers(self, scope: Scope) -> None:
        parser = self._parser
        kind = parser.next().text[1:]
        bits = 1 if kind == "pred" else 8 * TYPE_BYTES.get(kind, 0)
        if not bits:
            raise parser.error(f".{kind} is not the type of a register")
        while True:
            name = parser.name()
            if parser.take("<"):
                scope.families[name] = parser.number(), bits
                parser.expect(">")
            else:
                scope.registers[name] = bits
            if not parser.take(","):
                break
        parser.expect(";")

    def _instruction(self, scope: Scope) -> None:
        parser = self._parser
        line = parser.peek().line
        guard = self._guard(scope) if parser.take("@") else None
        pieces = [parser.name()]
        while parser.peek().kind is Kind.DOT:
            pieces += parser.next().text[1:].split(".")
        operands: list[Parsed] = []
        while not parser.take(";"):
            operands.append(parser.operand(self, scope))
            if not parser.take(",") and parser.peek().text != ";":
                raise parser.error("',' or ';' is expected")
        if len(self._code) >= _MAX_INSTRUCTIONS:
            raise parser.error(f"more than {_MAX_INSTRUCTIONS} instructions")
        values = tuple(cast("list[Operand]", operands))
        self._code.append(Instruction(tuple(pieces), values, guard, line, self._source))

    def _guard(self, scope: Scope) -> Guard:
        parser = self._parser
        negated = parser.take("!")
        register = self.lookup(parser.name(), scope)
        if not isinstance(register, Register) or register.bits != 1:
            raise parser.error("a guard is not a predicate register")
        return Guard(register, negated)

    def _resolved(self, operand: Parsed) -> Operand:
        match operand:
            case Unresolved(name, scope, line):
                return self._place(name, scope, line)
            case Vector(items):
                return Vector(tuple(self._resolved(item) for item in items))
            case Address(base, offset, extra):
                return Address(base, offset, tuple(self._resolved(item) for item in extra))
            case _:
                return operand

    def _place(self, name: str, scope: Scope | None, line: int) -> Operand:
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            if name in scope.tables:
                places = [self._place(one.name, one.scope, one.line) for one in scope.tables[name]]
                return Targets(tuple(place.target for place in places if isinstance(place, Label)))
            scope = scope.parent
        raise InputError(f"line {line}: {name!r} is not declared")


def _file_names(tokens: Iterable[Token]) -> Iterable[tuple[int, str]]:
    for token in tokens:
        match = re.match(r'\.file\s+(\d+)\s+"([^"]*)"', token.text) if token.kind is Kind.LINE else None
        if match is not None:
            yield int(match[1]), match[2]


def _three(values: tuple[int, ...] | None) -> tuple[int, int, int] | None:
    if not values:
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z
