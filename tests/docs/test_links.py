"""Links between Markdown files resolve."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("assets/**/*.md")])
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_relative_links_resolve() -> None:
    for page in PAGES:
        missing = [link for link in links(page.read_text(encoding="utf-8")) if not resolves(page, link)]
        assert not missing, f"{page.relative_to(ROOT)}: no such file or heading: {', '.join(missing)}"


def test_links_are_found_but_not_in_code() -> None:
    text = "See [a](b.md) and `[x](code.md)`.\n\n```python\nf[0](y.md)\n```\n\n![c](d.png)"
    assert links(text) == ["b.md", "d.png"]


def test_headings_have_githubs_anchors() -> None:
    headings = "# The `run` command\n\n## Data sets\n\n```console\n# no heading\n```\n\n## Data sets\n"
    assert anchors(headings) == {"the-run-command", "data-sets", "data-sets-1"}


def links(text: str) -> list[str]:
    return LINK.findall(CODE.sub("", text))


def resolves(page: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return True  # other hosts are not checked
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text(encoding="utf-8"))


def anchors(text: str) -> set[str]:
    """Anchors as made by GitHub: lower case, no punctuation, hyphens for spaces, repeated ones numbered."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.*?) *$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {f"{anchor}-{n}" if n else anchor for anchor, count in found.items() for n in range(count + 1)}
