"""Draw a tile map: the grid coloured by worker and by wave, side by side, with missing and repeated tiles marked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import InputError

from .tilemap import TileMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_heatmap", "heatmap_figure", "require_writable"]

FORMATS = (".png", ".svg")
_MAX_LABELS = 24  # cells along an axis up to which each cell states its number
_MAX_MARKS = 400  # marked cells up to which each gets a mark larger than itself
_MARK_SHIFT = 5.0  # points, a little over the radius of a mark
_MARGIN = 0.15  # of a colour map that is left out at both ends, so that white and black cells stand out by themselves
_MISSING, _REPEATED = "white", "black"  # neither is a colour of the maps, in grey as little as in colour


def require_writable(path: str) -> None:
    """InputError if `path` does not end in .png or .svg, or its folder is not there."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InputError(f"heatmap={path!r} does not end in {' or '.join(FORMATS)}")
    if not Path(path).parent.is_dir():
        raise InputError(f"heatmap={path!r}: no such folder")


def draw_heatmap(tile_map: TileMap, path: str) -> None:
    """Write the picture to `path`.png or `path`.svg. Raises InputError for other names or an unwritable place."""
    require_writable(path)
    import matplotlib

    # A fixed salt and no date: the same schedule gives the same file.
    with matplotlib.rc_context({"svg.hashsalt": "tilesched", "svg.fonttype": "none"}):
        figure = heatmap_figure(tile_map)
        metadata = {"Date": None} if path.lower().endswith(".svg") else {"Software": "tilesched-sim"}
        try:
            figure.savefig(path, dpi=150, metadata=metadata)
        except OSError as error:
            raise InputError(f"heatmap={path!r}: {error.strerror}") from None


def heatmap_figure(tile_map: TileMap) -> Figure:
    """The figure of `draw_heatmap`."""
    from matplotlib.figure import Figure

    wide = tile_map.tiles_n > 3 * tile_map.tiles_m  # two flat panels read better one above the other
    figure = Figure(figsize=(13, 8) if wide else (13, 7), layout="compressed")
    upper, lower = figure.subplots(2, 1) if wide else figure.subplots(1, 2)
    figure.suptitle(_title(tile_map), fontsize=11)
    _panel(upper, tile_map, tile_map.worker, tile_map.num_workers - 1, "worker", "cividis")
    _panel(lower, tile_map, tile_map.wave, int(tile_map.wave.max()), "wave", "viridis")
    _legend(figure, tile_map)
    return figure


def _title(tile_map: TileMap) -> str:
    tiles = tile_map.tiles_m * tile_map.tiles_n
    lines = [f"{tile_map.title}   {tile_map.num_workers} workers"]
    wrong = [
        f"{count} {what}"
        for count, what in ((tile_map.missing_tiles, "missing"), (tile_map.repeated_tiles, "computed more than once"))
        if count
    ]
    lines.append(f"{tiles} tiles: " + (", ".join(wrong) if wrong else "each exactly once"))
    if tile_map.cell_m * tile_map.cell_n > 1:
        lines.append(
            f"one cell = {tile_map.cell_m} × {tile_map.cell_n} tiles, in the colour of its first; "
            "marked if any of them is missing or repeated"
        )
    return "\n".join(lines)


def _panel(
    axes: Axes, tile_map: TileMap, values: npt.NDArray[np.int64], largest: int, label: str, colours: str
) -> None:
    from matplotlib.ticker import MaxNLocator

    rows, columns = values.shape
    span = max(largest, 1)
    stretch = max(rows, columns) > 4 * min(rows, columns)
    image = axes.imshow(
        np.ma.masked_less(values, 0),
        cmap=colours,
        vmin=-_MARGIN * span,
        vmax=(1 + _MARGIN) * span,
        interpolation="nearest",
        aspect="auto" if stretch else "equal",
        extent=(-0.5, tile_map.tiles_n - 0.5, tile_map.tiles_m - 0.5, -0.5),
    )
    for flags, colour, mark, symbol, aside in (
        (tile_map.missing, _MISSING, _REPEATED, "x", -_MARK_SHIFT),
        (tile_map.repeated, _REPEATED, _MISSING, "+", _MARK_SHIFT),
    ):
        _fill(axes, flags, colour)
        if flags.sum() <= _MAX_MARKS:
            _mark(axes, tile_map, flags, colour, mark, symbol, aside)
    if max(rows, columns) <= _MAX_LABELS:
        _label_cells(axes, tile_map, values, largest)
    axes.set_title(f"by {label}")
    axes.set_xlabel("n (tile column)")
    axes.set_ylabel("m (tile row)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    if values.max() >= 0:
        colorbar = axes.figure.colorbar(image, ax=axes, shrink=0.8, label=label)
        colorbar.ax.set_ylim(0, span)
        colorbar.ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))


def _fill(axes: Axes, flags: npt.NDArray[np.bool_], colour: str) -> None:
    from matplotlib.colors import ListedColormap

    if flags.any():
        axes.imshow(
            np.ma.masked_equal(flags.astype(np.uint8), 0),
            cmap=ListedColormap([colour]),
            interpolation="nearest",
            aspect=axes.get_aspect(),
            extent=axes.images[0].get_extent(),
        )


def _mark(
    axes: Axes, tile_map: TileMap, flags: npt.NDArray[np.bool_], colour: str, mark: str, symbol: str, aside: float
) -> None:
    """Put a mark on each flagged cell that no scale can hide, nor the edge of the grid.

    A cell that holds both a missing and a repeated tile gets both marks, each `aside` points from its middle.
    """
    from matplotlib.transforms import ScaledTranslation

    both = tile_map.missing & tile_map.repeated
    for cells, points in ((flags & ~both, 0.0), (flags & both, aside)):
        if not cells.any():
            continue
        rows, columns = np.nonzero(cells)
        x, y = _centre(columns, tile_map.cell_n, tile_map.tiles_n), _centre(rows, tile_map.cell_m, tile_map.tiles_m)
        place = axes.transData + ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)
        axes.scatter(x, y, s=70, c=colour, edgecolors=mark, linewidths=1.2, zorder=3, transform=place, clip_on=False)
        axes.scatter(x, y, s=28, c=mark, marker=symbol, linewidths=1.4, zorder=4, transform=place, clip_on=False)


def _centre(cell: npt.NDArray[np.int64], width: int, tiles: int) -> npt.NDArray[np.float64]:
    """Middle of a cell in tiles; the last cell may be cut by the edge."""
    return (cell * width + np.minimum((cell + 1) * width, tiles) - 1) / 2


def _label_cells(axes: Axes, tile_map: TileMap, values: npt.NDArray[np.int64], largest: int) -> None:
    plain = (values >= 0) & ~tile_map.missing & ~tile_map.repeated
    for row, column in np.argwhere(plain):
        value = int(values[row, column])
        dark = value < 0.6 * max(largest, 1)  # both maps run from dark to light
        axes.text(column, row, str(value), ha="center", va="center", fontsize=7, color="white" if dark else "black")


def _legend(figure: Figure, tile_map: TileMap) -> None:
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], ls="", marker="o", ms=9, mfc=colour, mec="black", label=f"{label} ({symbol})")
        for count, colour, label, symbol in (
            (tile_map.missing_tiles, _MISSING, "missing: nobody computes it", "×"),
            (tile_map.repeated_tiles, _REPEATED, "computed more than once", "+"),
        )
        if count
    ]
    if entries:
        figure.legend(handles=entries, loc="outside lower center", ncols=2, frameon=False)
