"""tilesched-sim: prove the tile schedule and the mbarrier pipeline of persistent GPU GEMM kernels."""

__all__ = ["__version__"]

__version__ = "0.1.0"
