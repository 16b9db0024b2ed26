"""Methods are registered by name."""

from pathlib import Path

import pytest

from engine.core.errors import PluginBroken
from engine.core.registry import ALGORITHMS
from tests.app.options import every_options_class


def test_the_first_eight_methods_are_registered():
    assert {"local_train", "fedavg", "fedprox", "fedprox_onestage", "pfedme", "cgpfl", "cgpfl_heur", "ditto"} <= set(
        ALGORITHMS.names()
    )


@pytest.mark.parametrize(("kind", "options"), every_options_class())
def test_advanced_options_exist(kind, options):
    assert set(options.advanced) <= set(options.model_fields)
    assert len(set(options.advanced)) == len(options.advanced)
    assert not any(options.model_fields[name].is_required() for name in options.advanced)


PLUGIN = """
from engine.core.registry import ALGORITHMS

@ALGORITHMS.register({name!r}, title="Mine", paper="Nobody, 2026")
class Mine: ...
"""


def test_a_plugin_cannot_replace_a_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = ALGORITHMS.get("fedavg")
    (tmp_path / "mine.py").write_text(PLUGIN.format(name="fedavg"), encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    with pytest.raises(PluginBroken, match=r"mine\.py.*'fedavg' is already registered by engine\.algorithms\.fedavg"):
        ALGORITHMS.names()
    monkeypatch.delenv("FEDSCAPE_PLUGINS")
    assert ALGORITHMS.get("fedavg") is shipped


def test_two_plugins_cannot_have_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("first.py", "second.py"):
        (tmp_path / file).write_text(PLUGIN.format(name="mine"), encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    with pytest.raises(PluginBroken, match=r"second\.py.*'mine' is already registered by fedscape_plugin_first"):
        ALGORITHMS.names()
