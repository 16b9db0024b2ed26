"""The pages there are: files in ``views/``, in the order in which one meets them."""

from pathlib import Path

FOLDER = Path(__file__).parent / "views"
ORDER = ("learn", "setup", "live", "compare", "run", "papers", "library", "handbook")
PRODUCT = "Fedscape"
TITLES = {"setup": "Set up", "run": "Inside a run"}


def names() -> list[str]:
    """The first is at the root; a page that ORDER does not know comes last."""
    found = {path.stem for path in FOLDER.glob("[a-z]*.py")}
    return [name for name in ORDER if name in found] + sorted(found - set(ORDER))


def title(name: str) -> str:
    return TITLES.get(name, name.replace("_", " ").capitalize())


def tab_title(*parts: str) -> str:
    """What the browser calls a page: what it shows, the page, the product."""
    return " · ".join([*parts, PRODUCT])
