"""The examples of docs/python-api.md run in order and print what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the examples define, and ``printed``: their whole output."""
    text = (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")
    printed: list[str] = []
    names: dict[str, Any] = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("api"))
        for example in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            exec(compile(example, "docs/python-api.md", "exec"), names)
        assert Path("result.json").read_text(encoding="utf-8") == names["result"].to_json()
    return {**names, "printed": printed}


@pytest.mark.slow
def test_the_tables_have_the_documented_rows(shown: dict[str, Any]) -> None:
    assert len(shown["summary"]) == 3
    assert len(shown["rounds"]) == 6 * 6 and len(shown["last"]) == 6
    assert len(shown["clients"]) == 6 * 6 * 10
    assert shown["summary"].loc[0, "label"] == "local_train"


def test_every_client_has_a_model(shown: dict[str, Any]) -> None:
    assert len(shown["models"].personalized) == 10 and shown["distance"] > 0
    assert shown["result"].models[0].global_model is None


def test_progress_and_problems_are_printed_as_the_page_says(shown: dict[str, Any]) -> None:
    lines = shown["printed"]
    assert any(re.match(r"fedavg seed 0 round 5: \d", line) for line in lines)
    assert any(line.startswith("training.batchsize: 32, unknown key; did you mean 'batch_size'?") for line in lines)
    assert str(["ditto lam=0.1, seed 0", "ditto lam=0.1, seed 1", "ditto lam=1, seed 0"])[:-1] in "\n".join(lines)


@pytest.mark.slow
def test_a_resumed_run_ends_as_an_uninterrupted_one(shown: dict[str, Any]) -> None:
    whole = shown["Simulation"](shown["chosen"])
    *_, last = whole.rounds()
    assert last.round == 5
    assert shown["resumed"].summary() == whole.summary()
