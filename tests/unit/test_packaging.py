"""The wheel holds every package and every source file that is not Python."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import tilesched

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = ("simulator", "kernels", "verify", "viz", "cli")


def test_every_package_is_listed() -> None:
    found = {"tilesched"}
    for room in ROOMS:
        for init in (ROOT / room).rglob("__init__.py"):
            found.add(".".join(["tilesched", *init.parent.relative_to(ROOT).parts]))
    assert set(CONFIG["tool"]["setuptools"]["packages"]) == found


def test_every_room_is_typed_and_type_checked() -> None:
    for room in ROOMS:
        assert (ROOT / room / "py.typed").exists()
        assert (ROOT / ".typecheck" / "tilesched" / room).resolve() == ROOT / room


def test_cuda_sources_are_package_data() -> None:
    patterns = CONFIG["tool"]["setuptools"]["package-data"]["tilesched.kernels"]
    shipped = {path for pattern in patterns for path in (ROOT / "kernels").glob(pattern)}
    assert shipped == {path for path in (ROOT / "kernels" / "cuda").iterdir() if path.is_file()}
    assert shipped


def test_the_version_is_stated_once_in_effect() -> None:
    assert tilesched.__version__ == CONFIG["project"]["version"] == version("tilesched-sim")
