"""Trace files: npz (ours) and JSON lines (for programs that have no NumPy). docs/trace.md describes both.

Files are hostile until proven otherwise: nothing is unpickled or evaluated, and every size is checked before
memory is taken. A file that is not right gives a TraceError of one line that begins with its path.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np

from .errors import TraceError
from .trace import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, Column, Trace, TraceHeader

__all__ = ["load", "save"]

_MAX_BYTES = 1 << 29  # of a file, and unpacked in all
_MAX_LINES_BYTES = 1 << 28  # of JSON lines
_MAX_FIRST_LINE = 1 << 24  # bytes: parsed JSON takes many times its text
_MAX_LINE = 1 << 16  # bytes, of a record
_MAX_NUMBERS = 1 << 26  # records times columns, 8 bytes each once they are read
_MAX_HEADER_BYTES = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every member, so that equal traces are equal files
_COLUMNS = REQUIRED_COLUMNS + OPTIONAL_COLUMNS
_NPY_HEADER = re.compile(
    r"\{'descr': '(?P<descr>[<>|][iu][1248])', 'fortran_order': False, "
    r"'shape': \((?P<shape>(?:\d{1,18}, ?)*\d{0,18})\),? ?\} *\n?"
)


def save(trace: Trace, path: str) -> None:
    """Write a trace; a name that ends in .jsonl gives JSON lines, any other npz. Raises TraceError."""
    try:
        if path.endswith(".jsonl"):
            Path(path).write_text("".join(_lines(trace)), encoding="utf-8")
        else:
            Path(path).write_bytes(_npz(trace))
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None


def load(path: str) -> Trace:
    """Read a trace of either form, told apart by content. Raises TraceError."""
    try:
        size = Path(path).stat().st_size
        if size > _MAX_BYTES:
            raise TraceError(f"{size} bytes are more than {_MAX_BYTES}")
        with open(path, "rb") as file:
            start = file.read(4)
            file.seek(0)
            if start == b"PK\x03\x04":
                return _from_npz(file)
            if start[:1] == b"{":
                if size > _MAX_LINES_BYTES:
                    raise TraceError(f"{size} bytes of JSON lines are more than {_MAX_LINES_BYTES}")
                return _from_lines(file)
        raise TraceError("neither npz nor JSON lines")
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def _header(trace: Trace) -> dict[str, object]:
    """The header with a statement of what follows it, so that a part that is lost is missed."""
    columns = [name for name in _COLUMNS if name in trace.columns]
    contents = {"records": len(trace.columns["cta"]), "columns": columns, "counted": trace.wanted is not None}
    return {**trace.header.to_json(), **contents}


def _trace(body: object, columns: dict[str, Column], wanted: Column | None) -> Trace:
    """The trace of a parsed file, if it holds what its header states. Raises TraceError."""
    trace = Trace(TraceHeader.from_json(body), columns, wanted)
    stated, found = body if isinstance(body, dict) else {}, _header(trace)
    for name in ("records", "counted"):
        if stated.get(name, found[name]) != found[name]:
            raise TraceError(f"the header states {name}={stated[name]!r}, the file holds {found[name]!r}")
    names = stated.get("columns", found["columns"])
    if not isinstance(names, list) or sorted(map(str, names)) != sorted(columns):
        raise TraceError(f"the header states columns {repr(names)[:80]}, the file holds {sorted(columns)}")
    return trace


def _npz(trace: Trace) -> bytes:
    arrays: dict[str, np.ndarray] = {
        "header": np.frombuffer(json.dumps(_header(trace)).encode(), np.uint8),
        **{name: trace.columns[name] for name in _COLUMNS if name in trace.columns},
    }
    if trace.wanted is not None:
        arrays["wanted"] = trace.wanted
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, member.getvalue())
    return buffer.getvalue()


def _from_npz(file: io.BufferedReader) -> Trace:
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename: info for info in archive.infolist()}
            known = {f"{name}.npy" for name in ("header", "wanted", *_COLUMNS)}
            if unknown := sorted(set(members) - known):
                raise TraceError(f"member {unknown[0]!r} is unknown")
            if len(members) != len(archive.infolist()):
                raise TraceError("a member stands in the archive twice")
            total = sum(info.file_size for info in members.values())
            if total > _MAX_BYTES:
                raise TraceError(f"{total} bytes unpacked are more than {_MAX_BYTES}")
            if "header.npy" not in members:
                raise TraceError("member 'header.npy' is absent: not a trace")
            arrays = {name.removesuffix(".npy"): _member(archive, info) for name, info in members.items()}
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, struct.error) as error:
        # ValueError: names that are no text, offsets before the file; RuntimeError: encrypted members.
        raise TraceError(f"damaged archive: {repr(str(error))[1:-1][:200]}") from None
    header = arrays.pop("header")
    numbers = sum(array.size for array in arrays.values())
    if numbers > _MAX_NUMBERS:
        raise TraceError(f"{numbers} numbers are more than {_MAX_NUMBERS}")
    if header.dtype != np.uint8 or header.size > _MAX_HEADER_BYTES:
        raise TraceError(f"the header is not at most {_MAX_HEADER_BYTES} bytes of JSON")
    columns = {name: _int64(name, array) for name, array in arrays.items()}
    wanted = columns.pop("wanted", None)
    return _trace(_json(header.tobytes(), "the header"), columns, wanted)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """One array. Its header is matched, not evaluated, and held against the size of its member."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise TraceError(f"member {info.filename!r} is packed by method {info.compress_type}, not stored or deflated")
    with archive.open(info) as member:
        data = member.read()
    begin = 10 + int.from_bytes(data[8:10], "little")
    if data[:8] != b"\x93NUMPY\x01\x00" or len(data) < begin:
        raise TraceError(f"member {info.filename!r} is no array of npy version 1.0")
    form = _NPY_HEADER.fullmatch(data[10:begin].decode("latin-1"))
    shape = tuple(int(axis) for axis in form["shape"].split(",") if axis.strip()) if form is not None else ()
    if form is None or len(shape) > 2:
        raise TraceError(f"member {info.filename!r} is not an integer array of at most two axes")
    dtype = np.dtype(form["descr"])
    if math.prod(shape) * dtype.itemsize != len(data) - begin:
        raise TraceError(
            f"member {info.filename!r} holds {len(data) - begin} bytes, its header says "
            f"{math.prod(shape) * dtype.itemsize}"
        )
    return np.frombuffer(data, dtype, offset=begin).reshape(shape)


def _int64(name: str, array: np.ndarray) -> Column:
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise TraceError(f"column {name!r} leaves 63 bits")
    return array.astype(np.int64)


def _lines(trace: Trace) -> Iterator[str]:
    body = _header(trace)
    if trace.wanted is not None:
        body["wanted"] = trace.wanted.tolist()
    yield json.dumps(body) + "\n"
    names = [name for name in _COLUMNS if name in trace.columns]
    for row in zip(*(trace.columns[name].tolist() for name in names), strict=True):
        record = dict(zip(names, row, strict=True))
        yield json.dumps({**record, "role": trace.header.roles[record["role"]]}) + "\n"


def _from_lines(file: io.BufferedReader) -> Trace:
    body = _json(_line(file, 1, _MAX_FIRST_LINE), "line 1")
    header = TraceHeader.from_json(body)
    roles = {name: index for index, name in enumerate(header.roles)}
    names: list[str] = []
    numbers = array("q")
    records = 0
    for number in count(2):
        line = _line(file, number, _MAX_LINE)
        if not line:
            break
        if not line.strip():
            continue
        record = _json(line, f"line {number}")
        if not isinstance(record, dict):
            raise TraceError(f"line {number} is a {type(record).__name__}, not an object")
        if isinstance(record.get("role"), str):
            if record["role"] not in roles:
                raise TraceError(f"line {number}: role={record['role'][:40]!r} is not in the header")
            record["role"] = roles[record["role"]]
        if not records:  # the first record says which optional columns there are
            names = [name for name in _COLUMNS if name in record or name in REQUIRED_COLUMNS]
        numbers.extend(_integer(record, name, number) for name in names)
        records += 1
    names = names or list(REQUIRED_COLUMNS)
    table = np.array(numbers, np.int64).reshape(records, len(names))
    columns = {name: table[:, index] for index, name in enumerate(names)}
    return _trace(body, columns, _wanted(body.get("wanted") if isinstance(body, dict) else None))


def _line(file: io.BufferedReader, number: int, most: int) -> bytes:
    line = file.readline(most + 1)
    if len(line) > most:
        raise TraceError(f"line {number} is longer than {most} bytes")
    return line


def _wanted(value: object) -> Column | None:
    if value is None:
        return None
    flat = isinstance(value, list) and all(
        isinstance(row, list) and len(row) == len(value[0]) and all(type(item) is int for item in row) for row in value
    )
    if not flat:
        raise TraceError("header field wanted is not a list of equally long lists of integers")
    try:
        return np.array(value, np.int64)
    except OverflowError:
        raise TraceError("header field wanted leaves 63 bits") from None


def _integer(record: dict[str, object], name: str, number: int) -> int:
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > np.iinfo(np.int64).max:
        raise TraceError(f"line {number}: {name}={repr(value)[:40]} is not an integer of 63 bits")
    return value


def _json(data: bytes, what: str) -> object:
    try:
        body: object = json.loads(data)
        return body
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{what} is not JSON: {str(error)[:80]}") from None
