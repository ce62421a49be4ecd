"""Trace files: what is written is read back, and no file of any content does more than give one line."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesched.cli.main import main
from tilesched.simulator.errors import TraceError
from tilesched.simulator.problem import Problem
from tilesched.simulator.trace import OPTIONAL_COLUMNS, Trace, TraceHeader
from tilesched.simulator.trace_codec import load, save

PRINTABLE = st.characters(exclude_categories=["C", "Z"]) | st.just(" ")


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    roles = draw(st.lists(st.text(PRINTABLE, min_size=1, max_size=6), min_size=1, max_size=3, unique=True))
    header = TraceHeader(
        kernel=draw(st.text(PRINTABLE, max_size=5)),
        source=draw(st.text(PRINTABLE, max_size=5)),
        roles=tuple(roles),
        leader_roles=tuple(draw(st.sets(st.sampled_from(roles)))),
        ctas=draw(st.integers(1, 5)),
        problem=Problem(m=draw(st.integers(1, 999)), n=7, k=3, cluster_m=draw(st.integers(1, 2))),
        scheduler=draw(st.none() | st.text(PRINTABLE, max_size=5)),
        params=draw(
            st.dictionaries(
                st.text(PRINTABLE, max_size=3), st.integers(-9, 9) | st.text(PRINTABLE, max_size=3), max_size=2
            )
        ),
        capacity=draw(st.none() | st.integers(1, 99)),
        device=draw(st.dictionaries(st.text(PRINTABLE, max_size=3), st.text(PRINTABLE, max_size=3), max_size=2)),
        provenance=draw(st.text(PRINTABLE, max_size=9)),
    )
    length = draw(st.integers(0, 6))
    value, coordinate = st.integers(-(2**62), 2**62 - 1), st.integers(-(2**31), 2**31 - 1)
    limits = {"cta": st.integers(0, header.ctas - 1), "role": st.integers(0, len(roles) - 1)}
    limits |= {"m": coordinate, "n": coordinate}
    names = ["cta", "role", "m", "n", *draw(st.sets(st.sampled_from(OPTIONAL_COLUMNS)))] if length else None
    columns = {
        name: np.array(draw(st.lists(limits.get(name, value), min_size=length, max_size=length)), np.int64)
        for name in names or ("cta", "role", "m", "n")
    }
    trace = Trace(header, columns)
    if draw(st.booleans()):
        trace = Trace(header, columns, trace.stored() + draw(st.integers(0, 3)))
    return trace


def same(one: Trace, other: Trace) -> bool:
    wanted = (one.wanted is None) == (other.wanted is None) and np.array_equal(one.wanted, other.wanted)  # type: ignore[arg-type]
    columns = one.columns.keys() == other.columns.keys()
    return (
        one.header == other.header
        and wanted
        and columns
        and all(np.array_equal(column, other.columns[name]) for name, column in one.columns.items())
    )


@pytest.mark.parametrize("suffix", ["npz", "jsonl"])
@given(trace=traces())
def test_what_is_written_is_read_back(suffix: str, trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("trace")
    path, again = str(folder / f"a.{suffix}"), str(folder / f"b.{suffix}")
    save(trace, path)
    save(trace, again)
    assert same(load(path), trace)
    assert Path(path).read_bytes() == Path(again).read_bytes()


def example() -> Trace:
    header = TraceHeader(
        kernel="probe", source="gpu", roles=("tma", "mma"), ctas=2, problem=Problem(m=256, n=256, k=64), capacity=1
    )
    columns = {name: np.array([0, 0, 1, 1]) for name in ("cta", "m")}
    columns |= {"role": np.array([0, 1, 0, 1]), "n": np.zeros(4, np.int64), "linear": np.array([0, 0, 1, 1])}
    return Trace(header, columns, np.ones((2, 2), np.int64))


def refusal(content: bytes, folder: Path) -> str:
    """The one line that a file of this content gives, by the library and by the command."""
    path = folder / "t"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        load(str(path))
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert main(["verify", str(path)]) == 2
    return text


def npz(folder: Path) -> bytes:
    path = folder / "whole.npz"
    save(example(), str(path))
    return path.read_bytes()


def test_the_example_is_right(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(npz(tmp_path))
    assert same(load(str(path)), example())


@settings(max_examples=200)
@given(st.integers(0, 10**6))
def test_a_truncated_archive(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    folder = tmp_path_factory.mktemp("cut")
    whole = npz(folder)
    refusal(whole[: cut % len(whole)], folder)


@settings(max_examples=200)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_flipped_byte_is_refused_or_harmless(tmp_path_factory: pytest.TempPathFactory, place: int, flip: int) -> None:
    folder = tmp_path_factory.mktemp("flip")
    data = bytearray(npz(folder))
    data[place % len(data)] ^= flip
    path = folder / "t"
    path.write_bytes(data)
    with contextlib.suppress(TraceError):
        assert same(load(str(path)), example())  # a byte of a date or an attribute that nothing depends on


@settings(max_examples=200)
@given(st.binary(max_size=300), st.sampled_from([b"", b"PK\x03\x04", b"{", b'{"schema": "tilesched/trace/1"}\n']))
def test_noise(tmp_path_factory: pytest.TempPathFactory, noise: bytes, start: bytes) -> None:
    refusal(start + noise, tmp_path_factory.mktemp("noise"))


def edited(folder: Path, change: Callable[[dict[str, bytes]], None]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(npz(folder))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array))
    return buffer.getvalue()


def npy_header(text: str, data: bytes = b"") -> bytes:
    padded = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode() + data


def put(name: str, data: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.update({name: data})


def header(**changes: Any) -> Callable[[dict[str, bytes]], None]:
    body = json.dumps({**example().header.to_json(), **changes}).encode()
    return put("header.npy", npy(np.frombuffer(body, np.uint8)))


class Bomb:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_ways_to_pack_are_refused(method: int, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("header.npy", bytes(1000))
    damaged = bytearray(buffer.getvalue())
    damaged[50:54] = bytes(4)  # LZMA's own error, if it were unpacked
    assert f"is packed by method {method}, not stored or deflated" in refusal(bytes(damaged), tmp_path)


def test_a_member_whose_name_is_no_text(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("h\u00e9ader.npy", b"")
    damaged = buffer.getvalue().replace("h\u00e9".encode(), b"h\xff\xff")
    assert "damaged archive" in refusal(damaged, tmp_path)


def test_lines_that_do_not_end(tmp_path: Path) -> None:
    """Parsed JSON takes many times its text: `{},` is three bytes and 64 in memory."""
    start = json.dumps(example().header.to_json()).encode()
    assert "line 1 is longer than 16777216 bytes" in refusal(start[:-1] + b', "x": [' + b"{}," * 2**23, tmp_path)
    assert "line 2 is longer than 65536 bytes" in refusal(start + b'\n{"cta": [' + b"{}," * 2**15, tmp_path)


STATED = {"records": 4, "columns": ["cta", "role", "m", "n", "linear"], "counted": True}
EDITS: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "no header": (lambda members: members.pop("header.npy") and None, "'header.npy' is absent"),
    "foreign member": (put("weights.npy", npy([1])), "member 'weights.npy' is unknown"),
    "climbing member": (put("../m.npy", npy([1])), "member '../m.npy' is unknown"),
    "no column": (lambda members: members.pop("n.npy") and None, "column 'n' is absent"),
    "a longer column": (put("m.npy", npy([0, 0, 1, 1, 1])), "column 'm' has shape (5,), column 'cta' has (4,)"),
    "two axes": (put("m.npy", npy([[0, 0], [1, 1]])), "column 'm' has shape (2, 2)"),
    "floats": (put("m.npy", npy([0.0, 0, 1, 1])), "is not an integer array"),
    "complex": (put("m.npy", npy([0j, 0, 1, 1])), "is not an integer array"),
    "beyond 63 bits": (put("m.npy", npy(np.array([2**64 - 1] * 4, np.uint64))), "column 'm' leaves 63 bits"),
    "no array": (put("m.npy", b"text"), "'m.npy' is no array"),
    "a huge shape": (
        put("m.npy", npy_header("{'descr': '<i8', 'fortran_order': False, 'shape': (230584300921369395,)}")),
        "holds 0 bytes, its header says 1844674407370955160",
    ),
    "a negative shape": (
        put("m.npy", npy_header("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}")),
        "is not an integer array",
    ),
    "trailing bytes": (put("m.npy", npy([0, 0, 1, 1]) + b"12345678"), "holds 40 bytes, its header says 32"),
    "two negative axes": (
        put("m.npy", npy_header("{'descr': '<i8', 'fortran_order': False, 'shape': (-2, -2)}", bytes(32))),
        "is not an integer array",
    ),
    "another order of axes": (
        put("wanted.npy", npy_header("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 2)}", bytes(32))),
        "is not an integer array of at most two axes",
    ),
    "three axes": (put("wanted.npy", npy([[[1]]])), "is not an integer array of at most two axes"),
    "another npy version": (put("m.npy", b"\x93NUMPY\x02\x00" + bytes(200)), "no array of npy version 1.0"),
    "exactly 2^63": (put("m.npy", npy(np.array([2**63] * 4, np.uint64))), "column 'm' leaves 63 bits"),
    "too many roles": (header(roles=[f"r{i}" for i in range(65)]), "are not 1 to 64 different names"),
    "a header to evaluate": (put("m.npy", npy_header("__import__('os').abort()")), "'m.npy' is not an integer array"),
    "a header that does not end": (put("m.npy", npy_header("{'descr': '<i8', 'shape': (4,")), "not an integer array"),
    "a header of nested brackets": (put("m.npy", npy_header("(" * 900)), "not an integer array"),
    "a header that cannot be hashed": (put("m.npy", npy_header("{[]: 1}")), "not an integer array"),
    "a header that is cut off": (put("m.npy", b"\x93NUMPY\x01\x00\xff\xff{"), "no array of npy version 1.0"),
    "no axes": (put("cta.npy", npy(np.array(0))), "column 'cta' has shape (), not one axis"),
    "coordinates beyond 32 bits": (put("m.npy", npy([0, 0, 1, 2**31])), "record 3: m=2147483648 is outside"),
    "ids beyond 62 bits": (put("linear.npy", npy([0, 0, 1, 2**62])), "record 3: linear=4611686018427387904 is outs"),
    "half a surrogate pair": (header(kernel="\ud800"), "kernel='\\ud800' is not printable text"),
    "a role with a line feed": (header(roles=["a\nb", "mma"]), "roles='a\\nb' is not printable text"),
    "a device that clears the screen": (header(device={"name": "\x1b[2J"}), "device='\\x1b[2J' is not printable"),
    "a parameter of control characters": (header(params={"\x07": 1}), "params='\\x07' is not printable text"),
    "a text without end": (header(provenance="x" * 10_001), "is not printable text of at most 10000 characters"),
    "a problem that no file can hold": (
        header(problem={"m": 2**20, "n": 2**20, "k": 1, "block_m": 32, "block_n": 64}),
        "are more than 268435456",
    ),
    "CTA out of range": (put("cta.npy", npy([0, 0, 1, 2])), "record 3: cta=2 is outside [0, 1]"),
    "negative role": (put("role.npy", npy([0, -1, 0, 1])), "record 1: role=-1 is outside [0, 1]"),
    "wanted of another shape": (put("wanted.npy", npy([1, 1, 1, 1])), "'wanted' has shape (4,), not (2, 2)"),
    "wanted too small": (put("wanted.npy", npy([[1, 0], [1, 1]])), "CTA 0 role 'mma': 1 records stand in the file"),
    "another version": (header(schema="tilesched/trace/2"), "schema='tilesched/trace/2' is not 'tilesched/trace/1'"),
    "no schema": (header(schema=None), "schema=None is not"),
    "a header of no object": (put("header.npy", npy(np.frombuffer(b"[]", np.uint8))), "the header is a list"),
    "a header of no JSON": (put("header.npy", npy(np.frombuffer(b"{", np.uint8))), "the header is not JSON"),
    "a header of another type": (put("header.npy", npy([1, 2])), "bytes of JSON"),
    "no roles": (header(roles=[]), "roles=[] are not 1 to 64"),
    "equal roles": (header(roles=["a", "a"]), "different names"),
    "roles of numbers": (header(roles=[1]), "roles are not names"),
    "an unknown leader role": (header(leader_roles=["x"]), "leader_roles has 'x', which is not in roles"),
    "leader roles of numbers": (header(leader_roles=[1]), "leader_roles are not names"),
    "too many CTAs": (header(ctas=2**31 - 1), "ctas*roles=4294967294 is outside"),
    "no CTAs": (header(ctas=0), "ctas=0 is outside"),
    "CTAs of text": (header(ctas="2"), "header field ctas='2' is of the wrong type"),
    "true CTAs": (header(ctas=True), "header field ctas=True is of the wrong type"),
    "capacity of none": (header(capacity=0), "capacity=0 is outside"),
    "half a problem": (header(problem={"m": 3}), "problem lacks one of m, n, k"),
    "a problem out of bounds": (header(problem={"m": 0, "n": 1, "k": 1}), "header field problem: m=0"),
    "a column that is lost": (
        lambda members: members.pop("linear.npy") and header(**STATED)(members),
        "the header states columns ['cta', 'role', 'm', 'n', 'linear'], the file holds",
    ),
    "counts that are lost": (
        lambda members: members.pop("wanted.npy") and header(**STATED)(members),
        "the header states counted=True, the file holds False",
    ),
    "records that are lost": (header(**{**STATED, "records": 5}), "the header states records=5, the file holds 4"),
    "columns of another type": (header(columns=3), "the header states columns 3"),
    "params of lists": (header(params={"a": []}), "params: a=[] is neither integer nor text"),
}


@pytest.mark.parametrize(("change", "text"), EDITS.values(), ids=EDITS.keys())
def test_an_edited_archive(change: Callable[[dict[str, bytes]], None], text: str, tmp_path: Path) -> None:
    assert text in refusal(edited(tmp_path, change), tmp_path)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    array = np.empty(4, object)
    array[:] = Bomb(mark)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    assert "is not an integer array" in refusal(edited(tmp_path, put("m.npy", buffer.getvalue())), tmp_path)
    refusal(pickle.dumps(Bomb(mark)), tmp_path)
    assert not mark.exists()


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("m.npy", "w") as member:
        for _ in range(1100):
            member.write(bytes(1 << 20))
    assert len(buffer.getvalue()) < 2 << 20
    assert "bytes unpacked are more than 536870912" in refusal(buffer.getvalue(), tmp_path)


def test_a_member_twice(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("m.npy", npy([1]))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("m.npy", npy([2]))
    assert "a member stands in the archive twice" in refusal(buffer.getvalue(), tmp_path)


FIRST = json.dumps(example().header.to_json())
LINES: dict[str, tuple[str, str]] = {
    "a record of no object": (f"{FIRST}\n3\n", "line 2 is a int, not an object"),
    "a record of no JSON": (f"{FIRST}\n{{\n", "line 2 is not JSON"),
    "an unknown role": (
        f'{FIRST}\n{{"cta": 0, "role": "x", "m": 0, "n": 0}}\n',
        "line 2: role='x' is not in the header",
    ),
    "a lacking field": (f'{FIRST}\n{{"cta": 0, "role": "tma", "m": 0}}\n', "line 2: n=None is not an integer"),
    "an empty record": (f"{FIRST}\n{{}}\n", "line 2: cta=None is not an integer"),
    "a field lacking later": (
        f'{FIRST}\n{{"cta": 0, "role": 0, "m": 0, "n": 0}}\n\n{{"cta": 0, "role": 0, "m": 0}}\n',
        "line 4: n=None is not an integer",
    ),
    "a fraction": (f'{FIRST}\n{{"cta": 0, "role": 0, "m": 0.5, "n": 0}}\n', "line 2: m=0.5 is not an integer"),
    "a large number": (f'{FIRST}\n{{"cta": 0, "role": 0, "m": {2**70}, "n": 0}}\n', "is not an integer of 63 bits"),
    "wanted of text": (json.dumps({**example().header.to_json(), "wanted": "x"}), "wanted is not a list"),
    "ragged wanted": (json.dumps({**example().header.to_json(), "wanted": [[1], [1, 2]]}), "wanted is not a list"),
    "ragged wanted, long first": (
        json.dumps({**example().header.to_json(), "wanted": [[1, 2], [1]]}),
        "wanted is not a list",
    ),
    "true": (f'{FIRST}\n{{"cta": 0, "role": 0, "m": true, "n": 0}}\n', "m=True is not an integer"),
    "a large negative number": (f'{FIRST}\n{{"cta": 0, "role": 0, "m": {-(2**70)}, "n": 0}}\n', "of 63 bits"),
    "huge wanted": (json.dumps({**example().header.to_json(), "wanted": [[2**70]]}), "wanted leaves 63 bits"),
    "a lost line": (json.dumps({**example().header.to_json(), "records": 1}), "the header states records=1"),
    "deep": ("{" + '"a":{' * 100000, "is not JSON"),
}


@pytest.mark.parametrize(("content", "text"), LINES.values(), ids=LINES.keys())
def test_lines_that_are_wrong(content: str, text: str, tmp_path: Path) -> None:
    assert text in refusal(content.encode(), tmp_path)


def test_lines_as_others_may_write_them(tmp_path: Path) -> None:
    first = {"schema": "tilesched/trace/1", "roles": ["all"], "ctas": 1, "problem": {"m": 128, "n": 512, "k": 64}}
    records = [{"cta": 0, "role": "all", "m": 0, "n": n, "comment": "mine"} for n in (1, 0)]
    path = tmp_path / "t.txt"
    path.write_text("\n".join(map(json.dumps, [first, *records])))
    trace = load(str(path))
    assert trace.columns["n"].tolist() == [1, 0]
    assert main(["verify", str(path)]) == 0
    path.write_text("\n".join(map(json.dumps, [first, records[0], records[0]])))
    assert main(["verify", str(path)]) == 1


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        load(str(tmp_path / "absent.npz"))
    with pytest.raises(TraceError, match="Is a directory"):
        load(str(tmp_path))
    with pytest.raises(TraceError, match="No such file"):
        save(example(), str(tmp_path / "no" / "t.npz"))
