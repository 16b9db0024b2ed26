"""The drawing library in the browser: where it is, and scripts that load it when their first figure asks for it."""

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent


@cache
def script(name: str) -> str:
    """A component's script, with the loading of the library that such scripts share."""
    return "\n".join((_HERE / file).read_text(encoding="utf-8") for file in ("drawing_library.js", name))
