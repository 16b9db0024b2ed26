"""Sizes in words."""


def size_in_words(num_bytes: float) -> str:
    """``940 B``, ``12.3 kB``, ``4.56 MB``; decimal units, as in the papers' communication costs."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(num_bytes) < 999.5:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.3g} TB"
