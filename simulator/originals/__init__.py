"""Schedulers of libraries, written out as they are, to be held against what the libraries do. Adding one: an Original
in a module here, and the module in the table."""

from __future__ import annotations

from . import cutedsl, cutlass, cutlass_stream_k, deepgemm, flash_attention, quack, reported, tilelang
from .listing import Coordinates, Fixup, Listing, Original, Pairs, Piece, Work

__all__ = ["ORIGINALS", "Coordinates", "Fixup", "Listing", "Original", "Pairs", "Piece", "Work"]

_MODULES = (tilelang, cutlass, cutlass_stream_k, cutedsl, deepgemm, quack, flash_attention, reported)

ORIGINALS: dict[str, Original] = {original.name: original for module in _MODULES for original in module.ORIGINALS}
