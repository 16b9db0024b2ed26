"""Scripts of components, and the drawing library, which they load with their first figure."""

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_SHARED = ("removal.js", "drawing_library.js")


@cache
def script(name: str) -> str:
    """A component's script behind what scripts share: when to close, and how to load the library."""
    return "\n".join((_HERE / file).read_text(encoding="utf-8") for file in (*_SHARED, name))
