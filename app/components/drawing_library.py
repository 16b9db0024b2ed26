"""Scripts of components, and what they share: cleaning up, polling, and the drawing library."""

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_SHARED = ("removal.js", "drawing_library.js", "polling.js")


@cache
def script(name: str) -> str:
    """A component's script behind the shared ones."""
    return "\n".join((_HERE / file).read_text(encoding="utf-8") for file in (*_SHARED, name))
