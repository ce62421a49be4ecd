"""Integer arithmetic of tilings. A leaf: imports nothing of the package."""

__all__ = ["ceil_div", "round_up"]


def ceil_div(a: int, b: int) -> int:
    """Smallest q with q * b >= a, for a >= 0 and b > 0."""
    return -(-a // b)


def round_up(a: int, b: int) -> int:
    """Smallest multiple of b that is >= a, for a >= 0 and b > 0."""
    return ceil_div(a, b) * b
