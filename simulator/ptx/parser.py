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


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._files = dict(_file_names(tokens))
        self._outer = Scope()
        self._nested = 0

    # -- tokens ---------------------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> Token:
        if self._at + ahead < len(self._tokens):
            return self._tokens[self._at + ahead]
        return Token(Kind.MARK, "", self._tokens[-1].line if self._tokens else 1)

    def _next(self) -> Token:
        token = self._peek()
        if not token.text:
            raise self._error("more")
        self._at += 1
        return token

    def _take(self, text: str) -> bool:
        if self._peek().text == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._error(f"{text!r} is expected")

    def _error(self, why: str) -> InputError:
        token = self._peek()
        if not token.text:
            return InputError(f"line {token.line}: the PTX text ends in the middle of something")
        return InputError(f"line {token.line}: {why} at {token.text[:40]!r}")

    def _name(self) -> str:
        if self._peek().kind is not Kind.NAME:
            raise self._error("a name is expected")
        return self._next().text

    def _number(self) -> int:
        sign = -1 if self._take("-") else 1
        if self._peek().kind is not Kind.NUMBER:
            raise self._error("a number is expected")
        value = immediate(self._peek())
        if value.float_bits:
            raise self._error("an integer is expected")
        self._at += 1
        return sign * value.value

    # -- the module -----------------------------------------------------------------------------------------------

    def module(self) -> Module:
        version = target = ""
        variables: list[Variable] = []
        kernels: dict[str, Kernel] = {}
        while self._peek().text:
            token = self._next()
            if token.kind is Kind.LINE or token.text in _LINKAGE:
                continue
            if token.text == ".version":
                version = self._next().text
            elif token.text == ".target":
                target = self._name()
                while self._take(","):
                    self._name()
            elif token.text in (".global", ".const", ".shared"):
                variables += self._variables(token.text[1:], self._outer, ())
            elif token.text == ".entry":
                kernel = self._entry()
                if kernel is not None:
                    kernels[kernel.name] = kernel
            elif token.text in (".func", ".section", ".alias", ".pragma", ".address_size"):
                self._pass_over(token.text)
            else:
                self._at -= 1
                raise self._error("a directive is expected")
        if not version or not target:
            raise InputError("the PTX text has no .version and .target")
        return Module(version, target, tuple(variables), kernels)

    def _pass_over(self, directive: str) -> None:
        """Go to the end of a directive that means nothing here: a device function, which only `call` could reach."""
        if directive == ".address_size":
            self._next()
            return
        depth = 0
        while True:
            text = self._next().text
            depth += (text == "{") - (text == "}")
            if depth == 0 and text in (";", "}"):
                return

    def _variables(self, space: str, scope: Scope, taken: Iterable[Variable]) -> list[Variable]:
        """The variables of one declaration, whose space has been read."""
        align, size = 0, 0
        while self._peek().kind is Kind.DOT:
            word = self._next().text[1:]
            if word == "align":
                align = self._number()
            elif word in TYPE_BYTES:
                size = TYPE_BYTES[word]
            elif word in ("v2", "v4"):
                raise self._error("a vector variable is not supported")
            elif word != "attribute":
                raise self._error(f".{word} is not the type of a variable")
        names = {one.name for one in taken}
        found = []
        while True:
            found.append(self._variable(space, size, align, scope, names))
            if not self._take(","):
                break
        self._expect(";")
        return found

    def _variable(self, space: str, size: int, align: int, scope: Scope, names: set[str]) -> Variable:
        if not size:
            raise self._error("the type of a variable is not known")
        if not 0 <= align <= _MAX_ALIGN or align & (align - 1):
            raise self._error(f"align {align} is not a power of two up to {_MAX_ALIGN}")
        name, count = self._name(), 1
        while self._take("["):
            count *= 0 if self._peek().text == "]" else self._number()
            self._expect("]")
        initial: bytes | None = b""
        if self._take("="):
            initial = self._initial(size)
        if not 0 <= count * size <= _MAX_VARIABLE:
            raise self._error(f"variable {name} has {count * size} bytes, more than {_MAX_VARIABLE}")
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
        while True:
            if self._peek().kind is Kind.NUMBER or self._peek().text == "-":
                sign = -1 if self._take("-") else 1
                value = sign * immediate(self._next()).value
                values += (value % 2 ** (8 * size)).to_bytes(size, "little")
            elif self._peek().kind is Kind.NAME:
                known = False
                self._next()
            text = self._peek().text
            if text in ("{", "}"):
                depth += 1 if text == "{" else -1
            elif depth == 0 and text in (",", ";"):
                return bytes(values) if known else None
            if text == ";" or not text:
                raise self._error("an initialiser does not end")
            if self._peek().kind is Kind.MARK:
                self._next()

    # -- a kernel -------------------------------------------------------------------------------------------------

    def _entry(self) -> Kernel | None:
        name = self._name()
        scope = Scope(self._outer)
        params = self._params(scope)
        limits: dict[str, tuple[int, ...]] = {}
        while self._peek().kind is Kind.DOT:
            directive = self._next().text[1:]
            if directive == "pragma":
                self._next()
                self._expect(";")
                continue
            values = []
            while self._peek().kind is Kind.NUMBER:
                values.append(self._number())
                if not self._take(","):
                    break
            limits[directive] = tuple(values)
        if self._take(";"):  # declared, not defined
            return None
        self._expect("{")
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
        if not self._take("("):
            return ()
        while not self._take(")"):
            self._expect(".param")
            kind, align, pointee = "", 0, False
            while self._peek().kind is Kind.DOT:
                word = self._next().text[1:]
                if word == "align":
                    value = self._number()
                    align = align if pointee else value
                elif word == "ptr":
                    pointee = True
                elif word in TYPE_BYTES:
                    kind = word
            name = self._name()
            if not kind:
                raise self._error(f"the type of parameter {name} is not known")
            size = TYPE_BYTES[kind]
            align = align or size
            if self._take("["):
                size *= self._number()
                self._expect("]")
            if not 0 < size <= 2**15 or not 0 < align <= 2**12:
                raise self._error(f"parameter {name} has {size} bytes aligned to {align}")
            offset = -(-offset // align) * align
            params.append(Param(name, kind, size, align, offset))
            scope.symbols[name] = Symbol(name)
            offset += size
            self._take(",")
        return tuple(params)

    # -- operands -------------------------------------------------------------------------------------------------

    def operand(self, body: _Body, scope: Scope) -> Parsed:
        self._nested += 1
        if self._nested > _MAX_NESTED_OPERANDS:
            raise self._error(f"operands are nested deeper than {_MAX_NESTED_OPERANDS}")
        parsed = self._operand(body, scope)
        self._nested -= 1
        return parsed

    def _operand(self, body: _Body, scope: Scope) -> Parsed:
        if self._take("!"):
            return Negated(cast("Operand", self.operand(body, scope)))
        if self._take("["):
            return self._address(body, scope)
        for opening, closing in (("{", "}"), ("(", ")")):
            if self._take(opening):
                items = self._list(body, scope, closing)
                return Vector(tuple(cast("list[Operand]", items)))
        first = self._atom(body, scope)
        if self._take("|"):
            return Pair(cast("Operand", first), cast("Operand", self._atom(body, scope)))
        while isinstance(first, Symbol) and self._peek().text in ("+", "-"):
            first = replace(first, offset=first.offset + self._signed())
        return first

    def _signed(self) -> int:
        sign = -1 if self._next().text == "-" else 1
        return sign * self._number()

    def _list(self, body: _Body, scope: Scope, closing: str) -> list[Parsed]:
        items: list[Parsed] = []
        while not self._take(closing):
            items.append(self.operand(body, scope))
            if not self._take(",") and self._peek().text != closing:
                raise self._error(f"',' or {closing!r} is expected")
        return items

    def _address(self, body: _Body, scope: Scope) -> Address:
        base = self._atom(body, scope)
        if isinstance(base, Unresolved):
            raise InputError(f"line {base.line}: {base.name!r} is not declared")
        offset = 0
        while self._peek().text in ("+", "-"):
            offset += self._signed()
        extra: list[Parsed] = []
        while self._take(","):
            extra.append(self.operand(body, scope))
        self._expect("]")
        return Address(base, offset, tuple(cast("list[Operand]", extra)))

    def _atom(self, body: _Body, scope: Scope) -> Parsed:
        token = self._peek()
        if token.text == "-" or token.kind is Kind.NUMBER:
            sign = -1 if self._take("-") else 1
            if self._peek().kind is not Kind.NUMBER:
                raise self._error("a number is expected")
            value = immediate(self._next())
            if value.float_bits:
                return replace(value, value=value.value ^ (1 << (value.float_bits - 1)) if sign < 0 else value.value)
            return Immediate(sign * value.value)
        name = self._name()
        if name == "_":
            return Sink()
        known = body.lookup(name, scope)
        if known is not None:
            return known
        if name.startswith("%"):
            if self._peek().kind is Kind.DOT:
                name += self._next().text
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
            raise parser._error(f"blocks are nested deeper than {_MAX_DEPTH}")
        while not parser._take("}"):
            token = parser._peek()
            if token.kind is Kind.LINE:
                self._locate(parser._next().text)
            elif parser._take("{"):
                self.block(Scope(scope), depth + 1)
            elif token.kind is Kind.NAME and parser._peek(1).text == ":":
                self._label(scope)
            elif token.kind is Kind.DOT:
                self._directive(scope)
            elif token.kind is Kind.NAME or token.text == "@":
                self._instruction(scope)
            elif not parser._take(";"):
                raise parser._error("an instruction is expected")

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
                    raise self._parser._error(f"more than {_MAX_REGISTERS} registers")
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
            file = self._parser._files.get(int(match[1]), f"file {match[1]}")
            self._source = f"{file}:{match[2]}"

    def _label(self, scope: Scope) -> None:
        parser = self._parser
        name = parser._name()
        parser._expect(":")
        if name in scope.labels or name in scope.tables:
            raise parser._error(f"label {name} is declared twice in its scope")
        if parser._take(".branchtargets"):
            names = [Unresolved(parser._name(), scope, parser._peek().line)]
            while parser._take(","):
                names.append(Unresolved(parser._name(), scope, parser._peek().line))
            parser._expect(";")
            scope.tables[name] = tuple(names)
        elif parser._peek().text in (".callprototype", ".calltargets"):
            parser._pass_over(".callprototype")
        else:
            scope.labels[name] = Label(name, len(self._code))

    def _directive(self, scope: Scope) -> None:
        parser = self._parser
        word = parser._next().text
        if word == ".reg":
            self._registers(scope)
        elif word == ".shared":
            self.shared += parser._variables("shared", scope, self.shared)
        elif word in (".local", ".param", ".global", ".const"):
            parser._variables(word[1:], scope, ())
        elif word == ".pragma":
            parser._pass_over(word)
        else:
            raise parser._error(f"{word} is not known here")

    def _registers(self, scope: Scope) -> None:
        parser = self._parser
        kind = parser._next().text[1:]
        bits = 1 if kind == "pred" else 8 * TYPE_BYTES.get(kind, 0)
        if not bits:
            raise parser._error(f".{kind} is not the type of a register")
        while True:
            name = parser._name()
            if parser._take("<"):
                scope.families[name] = parser._number(), bits
                parser._expect(">")
            else:
                scope.registers[name] = bits
            if not parser._take(","):
                break
        parser._expect(";")

    def _instruction(self, scope: Scope) -> None:
        parser = self._parser
        line = parser._peek().line
        guard = self._guard(scope) if parser._take("@") else None
        pieces = [parser._name()]
        while parser._peek().kind is Kind.DOT:
            pieces += parser._next().text[1:].split(".")
        operands: list[Parsed] = []
        while not parser._take(";"):
            operands.append(parser.operand(self, scope))
            if not parser._take(",") and parser._peek().text != ";":
                raise parser._error("',' or ';' is expected")
        if len(self._code) >= _MAX_INSTRUCTIONS:
            raise parser._error(f"more than {_MAX_INSTRUCTIONS} instructions")
        values = tuple(cast("list[Operand]", operands))
        self._code.append(Instruction(tuple(pieces), values, guard, line, self._source))

    def _guard(self, scope: Scope) -> Guard:
        parser = self._parser
        negated = parser._take("!")
        register = self.lookup(parser._name(), scope)
        if not isinstance(register, Register) or register.bits != 1:
            raise parser._error("a guard is not a predicate register")
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
