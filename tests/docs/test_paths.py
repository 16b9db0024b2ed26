"""Files named in the docs exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMED = re.compile(r"`((?:app|engine|storage|assets|benchmarks|tests|docs)/[\w./-]*)`")
HISTORY = {"CHANGELOG.md"}  # names files of earlier versions


def test_named_files_exist() -> None:
    for page in (page for page in PAGES if page.name not in HISTORY):
        missing = [name for name in NAMED.findall(page.read_text(encoding="utf-8")) if not (ROOT / name).exists()]
        assert not missing, f"{page.relative_to(ROOT)} names {', '.join(missing)}"


def test_the_architecture_names_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = [path for top in ("app", "engine") for path in (ROOT / top).iterdir() if any(path.glob("*.py"))]
    missing = [name for path in folders if f"`{(name := f'{path.parent.name}/{path.name}/')}`" not in text]
    assert not missing, f"docs/architecture.md lacks {', '.join(missing)}"
