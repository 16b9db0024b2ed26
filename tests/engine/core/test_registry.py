"""Methods are registered by name."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from pydantic import ValidationError

from engine.core.errors import PluginBroken
from engine.core.registry import AGGREGATORS, ALGORITHMS, MODELS, Options, Registry
from tests.app.options import every_options_class


def test_the_first_eight_methods_are_registered():
    assert {"local_train", "fedavg", "fedprox", "fedprox_onestage", "pfedme", "cgpfl", "cgpfl_heur", "ditto"} <= set(
        ALGORITHMS.names()
    )


def test_advanced_options_exist():
    for name, options in every_options_class():
        assert set(options.advanced) <= set(options.model_fields), name
        assert len(set(options.advanced)) == len(options.advanced), name
        assert not any(options.model_fields[option].is_required() for option in options.advanced), name


SAME_TIME = (1e9, 1e9)  # atime, mtime
PLUGIN = """
from engine.core.registry import ALGORITHMS

@ALGORITHMS.register({name!r}, title="Mine", paper="Nobody, 2026")
class Mine:
    init = round = personalized = global_model = shared = None
"""


def test_a_plugin_cannot_replace_a_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = ALGORITHMS.get("fedavg")
    (tmp_path / "mine.py").write_text(PLUGIN.format(name="fedavg"), encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    with pytest.raises(PluginBroken, match=r"mine\.py.*'fedavg' is already registered by engine\.algorithms\.fedavg"):
        ALGORITHMS.names()
    monkeypatch.delenv("FEDSCAPE_PLUGINS")
    assert ALGORITHMS.get("fedavg") is shipped


@pytest.mark.parametrize("place", [".", "algorithms"])
def test_a_plugin_added_later_is_found(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / place).mkdir(exist_ok=True)
    (folder / "first.py").write_text(PLUGIN.format(name="first"), encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    assert "first" in ALGORITHMS  # importing it adds __pycache__ to the folder
    os.utime(folder, SAME_TIME)
    assert "second" not in ALGORITHMS
    (folder / "second.py").write_text(PLUGIN.format(name="second"), encoding="utf-8")
    os.utime(folder, SAME_TIME)  # some programs restore the time of a folder that they copy into
    assert "second" in ALGORITHMS


def test_a_plugin_whose_link_is_replaced_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "plugins").mkdir()
    link = folder / "mine.py"
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(folder))
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(PLUGIN.format(name=name), encoding="utf-8")
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / f"{name}.py")
        assert name in ALGORITHMS
        os.utime(folder, SAME_TIME)
        assert name in ALGORITHMS


def test_paths_in_an_unchanged_plugin_folder_are_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN.format(name="mine"), encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    assert "mine" in ALGORITHMS  # importing it adds __pycache__ to the folder
    assert "mine" in ALGORITHMS
    with monkeypatch.context() as patch:
        patch.setattr(Path, "resolve", None)
        assert "mine" in ALGORITHMS and ALGORITHMS.get("mine").title == "Mine"


def test_two_plugins_cannot_have_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("first.py", "second.py"):
        (tmp_path / file).write_text(PLUGIN.format(name="mine"), encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    with pytest.raises(PluginBroken, match=r"second\.py.*'mine' is already registered by fedscape_plugin_first"):
        ALGORITHMS.names()


@pytest.fixture
def assert_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Expects this problem from a plugin ``mine.py`` with this text."""

    def check(text: str, problem: str, registry: Registry = ALGORITHMS) -> None:
        (tmp_path / "mine.py").write_text(text, encoding="utf-8")
        monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
        with pytest.raises(PluginBroken, match=rf"mine\.py.*{problem}"):
            registry.names()

    return check


def test_the_options_of_a_plugin_must_be_options(assert_refused: Callable[..., None]) -> None:
    text = PLUGIN.format(name="mine").replace("class Mine:", "class Mine:\n    hparams: int")
    assert_refused(text, r"'mine': <class 'int'> must be a subclass of .*Options")


def test_a_plugin_that_lacks_a_method_is_an_error(assert_refused: Callable[..., None]) -> None:
    text = PLUGIN.format(name="mine").replace(" = global_model = shared", "")
    assert_refused(text, "'mine': Mine lacks global_model, shared")


AGGREGATOR = """
from engine.aggregators import Aggregator
from engine.core.registry import AGGREGATORS, Options

class Own(Options): pass

@AGGREGATORS.register("mine", title="Mine", paper="Nobody, 2026")
class Mine(Aggregator):
    options: Own
"""


@pytest.mark.parametrize(
    ("added", "problem"), [("", "Mine lacks combine"), ("    combine = None\n", r"Mine\(\) does not take its options")]
)
def test_what_a_plugin_inherits_from_a_protocol_does_not_count(
    added: str, problem: str, assert_refused: Callable[..., None]
) -> None:
    assert_refused(AGGREGATOR + added, problem, AGGREGATORS)


def test_a_plugin_that_cannot_take_its_options_is_an_error(assert_refused: Callable[..., None]) -> None:
    text = PLUGIN.format(name="mine").replace("class Mine:", "class Mine:\n    hparams: NoOptions")
    text = text.replace("import ALGORITHMS", "import ALGORITHMS, Options\nclass NoOptions(Options): pass")
    assert_refused(text, r"Mine\(\) does not take its options; add @dataclass")


def test_a_plugin_folder_that_is_missing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_PLUGINS", os.pathsep.join([str(tmp_path), str(tmp_path / "plugin")]))
    with pytest.raises(PluginBroken, match=r"FEDSCAPE_PLUGINS: .*/plugin is not a folder; .*separated by ':'"):
        ALGORITHMS.get("fedavg")


def test_a_plugin_folder_without_plugins_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    good, odd = tmp_path / "good", tmp_path / "odd"
    (good / "models").mkdir(parents=True)
    (odd / "algorithm").mkdir(parents=True)
    monkeypatch.setenv("FEDSCAPE_PLUGINS", f"{good}{os.pathsep}{odd}")
    assert "fedavg" in ALGORITHMS and "mlr" in MODELS
    (line,) = caplog.messages
    assert f"{odd} has no .py files and none of the folders algorithms, datasets" in line


def test_true_and_false_are_not_numbers() -> None:
    class Some(Options):
        count: int = 1
        rate: float | Literal["auto"] = "auto"
        sizes: tuple[int, ...] = ()
        is_on: bool = False
        name: str = ""

    assert Some(is_on=True, count=2, rate=0.5, sizes=[3]).is_on
    for wrong in ({"count": True}, {"rate": False}, {"sizes": [True, 2]}):
        with pytest.raises(ValidationError, match="should be a number, not true or false"):
            Some.model_validate(wrong)
    with pytest.raises(ValidationError, match="valid string"):
        Some.model_validate({"name": True})
