"""The pages: files in ``views/``, in order."""

from pathlib import Path

FOLDER = Path(__file__).parent / "views"
ORDER = ("learn", "setup", "live", "compare", "study", "run", "papers", "library", "handbook")
PRODUCT = "Fedscape"
TITLES = {"setup": "Set up", "run": "Inside a run"}


def names() -> list[str]:
    """The first is at the root; pages not in ORDER come last."""
    found = {path.stem for path in FOLDER.glob("[a-z]*.py")}
    return [name for name in ORDER if name in found] + sorted(found - set(ORDER))


def title(name: str) -> str:
    return TITLES.get(name, name.replace("_", " ").capitalize())


def tab_title(*parts: str) -> str:
    """The browser title of a page: its content, the page, the product."""
    return " · ".join([*parts, PRODUCT])
