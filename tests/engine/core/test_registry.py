"""Methods are registered by name."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from pydantic import ValidationError

from engine.core import registry
from engine.core.errors import PluginBroken
from engine.core.registry import AGGREGATORS, ALGORITHMS, METRICS, MODELS, Options, Registry
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


def test_a_plugin_edited_in_the_same_second_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    file = tmp_path / "mine.py"
    for title in ("Mine", "Ours"):
        file.write_text(PLUGIN.format(name="mine").replace("Mine", title), encoding="utf-8")
        os.utime(file, SAME_TIME)
        made = ALGORITHMS.get("mine").make
        assert made.__name__ == title
        del sys.modules[made.__module__]  # as in a new process
        ALGORITHMS.forget(made.__module__)


@pytest.mark.parametrize("place", [".", "algorithms"])
def test_a_plugin_added_later_is_found(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / place).mkdir(exist_ok=True)
    (folder / "first.py").write_text(PLUGIN.format(name="first"), encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    assert "first" in ALGORITHMS
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

    def check(text: str, problem: str, of: Registry = ALGORITHMS) -> None:
        (tmp_path / "mine.py").write_text(text, encoding="utf-8")
        monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
        with pytest.raises(PluginBroken, match=rf"mine\.py.*{problem}"):
            of.names()

    return check


def test_two_classes_of_a_file_cannot_have_the_same_name(assert_refused: Callable[..., None]) -> None:
    second = PLUGIN.format(name="mine").replace("class Mine", "class Other")
    assert_refused(
        PLUGIN.format(name="mine") + second, r"'mine' is already registered by fedscape_plugin_mine_\w+\.Mine;"
    )


def test_a_file_that_is_executed_again_registers_its_class_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registries", [])
    own = Registry("algorithm", "engine.algorithms")
    text, made = PLUGIN.format(name="mine").replace("from engine.core.registry import ALGORITHMS", ""), []
    for _ in range(2):
        exec(text, {"ALGORITHMS": own, "__name__": "mine"})
        made.append(own._entries["mine"].make)
    assert made[0] is not made[1]


def test_a_plugin_that_is_corrected_may_rename_its_class(assert_refused: Callable[..., None], tmp_path: Path) -> None:
    assert_refused(PLUGIN.format(name="mine") + "1 / 0", "ZeroDivisionError")
    corrected = PLUGIN.format(name="mine").replace("class Mine", "class Renamed")
    (tmp_path / "mine.py").write_text(corrected + "# of another length", encoding="utf-8")
    assert ALGORITHMS.get("mine").make.__name__ == "Renamed"


def test_a_broken_plugin_leaves_nothing_registered(
    assert_refused: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_refused(PLUGIN.format(name="half") + "1 / 0", "ZeroDivisionError")
    monkeypatch.delenv("FEDSCAPE_PLUGINS")
    assert "half" not in ALGORITHMS


def test_a_plugin_that_ends_the_program_is_an_error_each_time(assert_refused: Callable[..., None]) -> None:
    for _ in range(2):
        assert_refused("import sys\nsys.exit(3)\n", r"cannot be imported \(SystemExit: 3\)")


def test_a_plugin_that_is_interrupted_is_loaded_at_the_next_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = "import os\nif not os.environ.pop('INTERRUPTED', ''):\n    raise KeyboardInterrupt\n"
    (tmp_path / "mine.py").write_text(first + PLUGIN.format(name="late"), encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        ALGORITHMS.names()
    monkeypatch.setenv("INTERRUPTED", "before")
    assert "late" in ALGORITHMS


SLOW_PLUGIN = """
import sys
from engine.core.registry import METRICS, MODELS

started, go_on = sys.modules["events_of_a_test"]
started.set()
go_on.wait(10)

@METRICS.register("slow_metric", title="Slow", paper="Nobody, 2026")
class Metric:
    __call__ = None

@MODELS.register("slow_model", title="Slow", paper="Nobody, 2026")
class Model:
    build = None
"""


def test_a_thread_waits_for_a_plugin_that_another_registry_is_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "events_of_a_test", (started, go_on))  # type: ignore[arg-type]
    assert METRICS.names() and MODELS.names()
    (tmp_path / "slow.py").write_text(SLOW_PLUGIN, encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    found = {}

    def ask(of: Registry, name: str) -> None:
        found[name] = name in of

    first = threading.Thread(target=ask, args=(METRICS, "slow_metric"))
    second = threading.Thread(target=ask, args=(MODELS, "slow_model"))
    first.start()
    assert started.wait(10)
    second.start()
    second.join(0.2)  # without waiting, it would have ended
    go_on.set()
    first.join(10)
    second.join(10)
    assert found == {"slow_metric": True, "slow_model": True}


FRAGILE = """
import sys

own, failures = sys.modules["given_by_a_test"]
if failures:
    raise failures.pop()

@own.register("late", title="Late", paper="Nobody, 2026")
class Late:
    pass
"""


def test_a_scan_that_failed_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registries", [])
    own = Registry("thing", "things_of_a_test")
    monkeypatch.setitem(sys.modules, "given_by_a_test", (own, [MemoryError()]))  # type: ignore[arg-type]
    (package := tmp_path / "things_of_a_test").mkdir()
    (package / "__init__.py").touch()
    (package / "late.py").write_text(FRAGILE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MemoryError):
        own.names()
    assert own.names() == ("late",)


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


def test_a_misspelled_folder_of_plugins_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for folder in ("metrics", "metric", "helpers", "tests", "utils", "data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text("")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    ALGORITHMS.names()
    (line,) = caplog.messages
    assert line == f"FEDSCAPE_PLUGINS: the plugins in {tmp_path / 'metric'} are not loaded; did you mean 'metrics'?"


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
