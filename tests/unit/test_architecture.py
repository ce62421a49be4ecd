"""Who may import whom (docs/architecture.md), and what the package may touch when it is imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "simulator": set[str](),
    "kernels": {"simulator"},
    "verify": {"simulator", "kernels"},
    "viz": {"simulator", "verify"},
    "cli": {"simulator", "kernels", "verify", "viz"},
}
THIRD_PARTY = {
    "simulator": {"numpy"},
    "kernels": {"numpy"},
    "verify": {"numpy", "hypothesis", "joblib", "distributed"},
    "viz": {"numpy", "matplotlib"},
    "cli": {"numpy"},
}
SOURCES = [path for room in MAY_IMPORT for path in sorted((ROOT / room).rglob("*.py"))]


def imported(path: Path) -> Iterator[str]:
    """Absolute names of all modules that a file imports, wherever in it."""
    package = ["tilesched", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            yield ".".join([*base, node.module] if node.module else base)


def violations(path: Path) -> list[str]:
    room = path.relative_to(ROOT).parts[0]
    wrong = []
    for name in imported(path):
        top, *rest = name.split(".")
        if top == "tilesched":
            if rest and rest[0] in MAY_IMPORT and rest[0] not in MAY_IMPORT[room] | {room}:
                wrong.append(name)
        elif top == "cupy":
            if path != ROOT / "kernels" / "launch.py":
                wrong.append(name)
        elif top not in sys.stdlib_module_names and top not in THIRD_PARTY[room]:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_rooms(path: Path) -> None:
    assert violations(path) == []


def test_a_wrong_import_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    bad = tmp_path / "simulator" / "schedulers" / "bad.py"
    bad.parent.mkdir(parents=True)
    bad.write_text("import cupy\nfrom ...verify import grid\nfrom tilesched.viz import x\nimport pandas\n")
    assert violations(bad) == ["cupy", "tilesched.verify", "tilesched.viz", "pandas"]


FILE_CALLS = {"open", "read_text", "write_text", "read_bytes", "write_bytes", "savez", "load", "fromfile", "tofile"}


@pytest.mark.parametrize("path", [p for p in SOURCES if p.is_relative_to(ROOT / "simulator")], ids=lambda p: p.name)
def test_the_model_does_not_print_and_only_the_trace_codec_opens_files(path: Path) -> None:
    functions = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    calls = {f.id if isinstance(f, ast.Name) else f.attr for f in functions if isinstance(f, (ast.Name, ast.Attribute))}
    assert "print" not in calls
    if path.name != "trace_codec.py":
        assert not calls & FILE_CALLS


def test_the_coverage_command_loads_nothing_heavy() -> None:
    code = (
        "import sys; from tilesched.cli.main import main; main(['--m', '8192', '--n', '8192', '--quiet']);"
        "print([m for m in ('matplotlib', 'cupy', 'hypothesis', 'difflib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
