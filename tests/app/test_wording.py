"""The format of numbers and configurations on the screen."""

import math
from pathlib import Path

import pytest

from app import wording


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wording.percent(0.97406), "97.41 %"),
        (wording.percent(math.nan), "–"),
        (wording.percent(None), "–"),
        (wording.percent(20 / 22, samples=22), "91 %"),
        (wording.percent(0.90909, samples=440), "90.9 %"),
        (wording.percent(0.90909, samples=1001), "90.91 %"),
        (wording.percent(0.5, samples=math.nan), "50.00 %"),
        (wording.percent_pm(0.814, 0.0321), "81.4 ± 3.2 %"),
        (wording.percent_pm(0.64, 0.123), "64 ± 12 %"),
        (wording.percent_pm(0.9741, 0.0, samples=66), "97 ± 0 %"),
        (wording.percent_pm(0.9741, 0.0049, samples=66), "97 ± <1 %"),
        (wording.percent_pm(0.9741, 0.0051, samples=66), "97 ± 1 %"),
        (wording.percent_pm(0.9741, 0.00001), "97.41 ± <0.01 %"),
        (wording.signed_points(0.0454, 22), "+5"),
        (wording.signed_points(-0.0001, 22), "+0"),
        (wording.points(0.032), "3.2 points"),
        (wording.points(0.0001), "less than 0.05 points"),
        (wording.points(0.0101), "1.0 point"),
        (wording.points(0.03, 22), "3 points"),
        (wording.points(0.001, 22), "less than 0.5 points"),
        (wording.names("abc", last="or"), "a, b or c"),
        (wording.percent_pm(0.9741, 0.0012), "97.41 ± 0.12 %"),
        (wording.percent_pm(0.9741, math.nan), "97.41 %"),
        (wording.capital("alone CGPFL"), "Alone CGPFL"),
        (wording.capital("α rises"), "α rises"),
        (wording.capitals("Dirichlet α = 0.5, 3 µs"), "DIRICHLET α = 0.5, 3 µS"),
        (wording.capital(""), ""),
        (wording.signed_points(0.021), "+2.10"),
        (wording.signed_points(-0.0035), "−0.35"),
        (wording.seconds(0.0123), "12 ms"),
        (wording.seconds(1.44), "1.4 s"),
        (wording.seconds(38.2), "38 s"),
        (wording.duration(7.2), "8 s"),
        (wording.duration(200), "3 min 20 s"),
        (wording.duration(7500), "2 h 05 min"),
        (wording.duration(273600), "3 d 4 h"),
        (wording.duration(3599), "1 h 00 min"),
        (wording.size_bytes(940), "940 B"),
        (wording.size_bytes(12_300), "12.3 kB"),
        (wording.size_bytes(4.56e6), "4.56 MB"),
        (wording.count(12345), "12\u2009345"),
        (wording.plural(1, "run"), "1 run"),
        (wording.plural(2, "loss", "losses"), "2 losses"),
        (wording.tail_note(40), "2 of 40 clients"),
        (wording.tail_note(5), "1 of 5 clients"),
        (wording.names(["a"]), "a"),
        (wording.names(["a", "b", "c"]), "a, b and c"),
        (wording.names("abcdef"), "a, b, c, d and 2 more"),
    ],
)
def test_numbers_are_formatted_consistently(text: str, expected: str) -> None:
    assert text == expected


def test_numbers_and_names_of_methods_are_not_broken() -> None:
    assert wording.unbroken("at 44 ± 2 % now") == "at 44\u00a0±\u00a02\u00a0% now"
    assert wording.unbroken("PLGU-LF on CIFAR-10") == "PLGU\u2011LF on CIFAR\u201110"
    assert wording.unbroken("k-means is one-stage, -5") == "k-means is one-stage, -5"


OWN = """
from engine.core.registry import DATASETS, PARTITIONERS
from engine.partitioners import SplitOptions

@DATASETS.register("my_data", title="Data of mine, measured at night", short="Mine", paper="Nobody, 2026")
class Data:
    present = load = None

class Options(SplitOptions):
    share: float = 0.5

    def in_words(self) -> str:
        return f"{100 * self.share:g} % apart"

@PARTITIONERS.register("my_split", title="A split of mine", paper="Nobody, 2026")
class Split:
    split = None
    def __init__(self, options: Options) -> None: ...
    options: Options
"""


def test_the_line_above_a_title_summarizes_the_configuration() -> None:
    config = {
        "dataset": "mnist",
        "partition": {"name": "classes_per_client", "num_clients": 40, "classes_per_client": 3},
        "training": {"participation": 0.1},
        "seeds": [0, 1, 2],
    }
    assert wording.kicker(config) == "MNIST · 40 CLIENTS · 3 CLASSES EACH · C = 10 % · 3 SEEDS"
    assert wording.setting(config) == "MNIST · 40 clients · 3 classes each · C = 10 % · 3 seeds"
    assert wording.kicker(config | {"splits": [0, 1]}).endswith("C = 10 % · 2 SPLITS · 3 SEEDS")


def test_greek_letters_stay_lower_case_above_a_title() -> None:
    split = {"name": "dirichlet", "alpha": 0.1, "num_clients": 20}
    config = {"dataset": "digits", "partition": split, "seeds": [0]}
    assert wording.kicker(config) == "DIGITS · 20 CLIENTS · DIRICHLET α = 0.1 · 1 SEED"


def test_plugin_data_and_partitioners_are_named_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"dataset": "my_data", "partition": {"name": "my_split", "share": 0.4}, "seeds": [0]}
    assert wording.setting(config) == "my data · my split · 1 seed"
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    assert wording.setting(config) == "Mine · 40 % apart · 1 seed"
    assert wording.setting(config | {"partition": {"name": "my_split", "share": "all"}}) == "Mine · my split · 1 seed"


def test_a_natural_partition_has_the_data_sets_number_of_clients() -> None:
    config = {"dataset": {"name": "synthetic", "num_clients": 10}, "partition": {"name": "natural"}, "seed": 3}
    assert wording.kicker(config) == "SYNTHETIC · 10 CLIENTS · NATURAL CLIENTS · 1 SEED"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a*b_[c]", r"a\*b\_\[c\]"),
        ("![](http://evil/x.png)", "\\!\\[\\](http\\:\u2060//evil/x.png)"),
        ("HTTPS://evil www.evil.example &lt;", "HTTPS\\:\u2060//evil www\u2060.evil.example \\&lt;"),
        ("me@evil.example", "me\u2060\\@evil.example"),
        ("a\n---\nb\n=", "a\n\\---\nb\n\\="),
        ("- a\n1. b", "\\- a\n1\\. b"),
        ("97.41 % of -3", "97.41 % of -3"),
    ],
)
def test_plain_text_escapes_markdown(text: str, expected: str) -> None:
    assert wording.plain(text) == expected


def test_ordinals_have_the_right_suffix() -> None:
    assert [wording.ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st",
        "2nd",
        "3rd",
        "4th",
        "11th",
        "12th",
        "13th",
        "21st",
        "102nd",
        "111th",
    ]


@pytest.mark.parametrize(
    ("x", "text"), [(0.01234, "0.0123"), (-12.34, "−12.3"), (999.6, "1000"), (1665.2, "1665"), (2.5e7, "2.5e+07")]
)
def test_numbers_have_three_digits_and_full_thousands(x: float, text: str) -> None:
    assert wording.number(x) == text


@pytest.mark.parametrize(
    ("s", "text"), [(3, "under 1 min"), (60, "1 min"), (515, "9 min"), (3569, "59 min"), (3570, "1 h 00 min")]
)
def test_estimates_are_rounded_to_minutes(s: float, text: str) -> None:
    assert wording.about(s) == text


def test_every_priority_has_a_name() -> None:
    assert [wording.priority(n) for n in (5, 1, 0, -1, -9)] == ["high", "high", "normal", "low", "low"]
    assert all(wording.priority(n) == name for name, n in wording.PRIORITIES.items())
