"""Presets: those that ship are valid, and a file that is none says so."""

from pathlib import Path

import pytest

from engine.config import parse_experiment
from engine.errors import InvalidConfig, UnknownName
from engine.presets import load_preset, preset_names, presets

EXPERIMENT = "{name: e, dataset: digits, partition: {name: iid}, model: mlr, algorithms: [fedavg]}"


@pytest.mark.parametrize("name", preset_names())
def test_every_experiment_of_a_shipped_preset_is_valid(name: str) -> None:
    preset = load_preset(name)
    for scale in preset.scales:
        assert all(parse_experiment(config).runs() for config in preset.configs(scale))


def test_a_preset_is_quick_unless_asked_for_more() -> None:
    preset = load_preset("cgpfl-mnist-main")
    assert preset.configs() == preset.configs("quick") != preset.configs("paper")


def test_every_preset_names_its_source() -> None:
    assert all(preset.describe()["paper"] and preset.title for preset in presets())


def test_a_misspelt_preset_meets_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'digits-first'"):
        load_preset("digit-first")


def test_a_scale_that_a_preset_lacks_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"scale.*'paper'.*known: quick"):
        load_preset("digits-first").configs("paper")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: p\ntitle: t\nsource: s", "scales"),
        (f"name: other\ntitle: t\nsource: s\nscales: {{quick: [{EXPERIMENT}]}}", "name it as its file"),
        (f"title: t\nname: p\nscales: {{quick: [{EXPERIMENT}]}}", "source is missing"),
        (f"name: p\ntitle: t\nsource: s\nscales: {{quick: [{EXPERIMENT}, {EXPERIMENT}]}}", "names of their own"),
        ("name: p\ntitle: t\nsource: s\nscales: {quick: 3}", "list of experiments"),
        ("name: p\ntitle: t\nsource: s\nscales: {slow: []}", "quick, paper or both"),
    ],
)
def test_a_file_that_is_no_preset_says_why(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(InvalidConfig, match=words):
        load_preset("p", tmp_path)
