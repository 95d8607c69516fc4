"""Format figures in readable units."""

from __future__ import annotations


def number(value: float, digits: int = 3) -> str:
    """Format with at least three significant digits, separated thousands and no exponent."""
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return text if "e" not in text else f"{value:.6f}".rstrip("0").rstrip(".")


def seconds(value: float) -> str:
    """Format seconds, or minutes and hours if there are many."""
    if value < 120:
        return f"{number(value)} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def size(count: float) -> str:
    """Format bytes in kB, MB or GB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{number(count / unit)} {name}"
    return f"{number(count / 1e3)} kB"
