"""The README and the settings page match the code."""

import re
from pathlib import Path

import yaml

from engine.config.schema import parse_experiment
from engine.core.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONERS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
READ = re.compile(r"""(?:environ|environment)(?:\.get\(|\[)["']([A-Z_]+)["']|["'](FEDSCAPE_[A-Z_]+)["']""")


def test_the_readme_counts_what_ships() -> None:
    counts = [(ALGORITHMS, "methods"), (DATASETS, "data sets"), (PARTITIONERS, "ways to split"), (MODELS, "models")]
    for registry, noun in counts:
        assert f"{len(registry.names())} {noun}" in " ".join(README.split())


def test_the_experiment_of_the_readme_is_valid() -> None:
    (experiment,) = re.findall(r"^```yaml\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert len(parse_experiment(yaml.safe_load(experiment)).runs()) == 3 * (1 + 3)


def test_every_environment_variable_is_documented() -> None:
    files = [path for folder in ("app", "engine", "storage") for path in (ROOT / folder).rglob("*.py")]
    found = {a or b for path in files for a, b in READ.findall(path.read_text(encoding="utf-8"))}
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs" / "settings.md").read_text("utf-8"), re.MULTILINE))
    assert found - {"PYTHONPATH"} == listed
