"""The Handbook page, run as a script: index, search, a page per method, and links to Set up."""

import json
import re
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.data.entry_text import needs, text_of
from app.data.families import FAMILIES, by_family
from app.handbook import method_page, methods
from app.handbook.measured import NETWORK, Measured, measured, takes_linear_model
from app.state.links import unpack_config
from app.wording import unbroken
from engine.config.schema import parse_experiment
from engine.core.registry import ALGORITHMS, DATASETS
from engine.core.results import RoundResult
from engine.simulation.preflight import check_runs
from engine.simulation.simulate import Simulation
from tests.app.pages import open_page, without_marks

opened = partial(open_page, "handbook")
PLAIN = '''"""My method, in one sentence."""

from dataclasses import dataclass

from engine.core.registry import ALGORITHMS


@ALGORITHMS.register("my_plain_method", title="Mine", paper="Nobody, 2026", family="A family of mine")
@dataclass(frozen=True)
class Mine:
    init = round = personalized = global_model = shared = None
'''


def html_of(page: AppTest) -> str:
    return without_marks("\n".join(h.proto.body for h in page.get("html")))


def link(page: AppTest, label: str) -> str:
    """Links are plain when a page runs alone."""
    return next(m[1] for m in (re.match(rf"\[{label}\]\((.*)\)$", text.value) for text in page.markdown) if m)


@pytest.mark.slow
def test_the_index_has_every_method_in_its_family_with_its_costs() -> None:
    html = html_of(opened())
    assert all(f"method={entry.name}" in html and entry.family in html for entry in ALGORITHMS)
    assert "…" not in re.sub(r"<small>.*?</small>", "", html), "a number is still being counted"
    assert [entry.name for entry in ALGORITHMS if measured(entry) is None] == [], "the costs of each are counted"


def test_families_are_in_didactic_order() -> None:
    families = list(by_family(ALGORITHMS))
    assert families[:2] == ["Baselines", "Regularized toward a shared model"]
    assert families[: len(FAMILIES)] == list(FAMILIES)


def test_a_search_finds_methods_with_all_words() -> None:
    page = opened(find="k-means contexts")
    assert "method=cgpfl" in html_of(page) and "method=fedavg" not in html_of(page)
    assert "No results for" in opened(find="zzz").info[0].value


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.slow
def test_a_methods_page_links_to_its_set_up(name: str) -> None:
    page, entry = opened(method=name), ALGORITHMS.get(name)
    assert page.title[0].value == unbroken(entry.title)
    assert page.latex and "gradients relative to FedAvg" in html_of(page)
    assert all(f"<code>{parameter.name}</code>" in html_of(page) for parameter in entry.parameters)
    packed = parse_qs(urlsplit(link(page, "Open in Set up")).query)["config"][0]
    experiment = parse_experiment(unpack_config(packed))
    assert {"fedavg", "local_train", name} == {choice.algorithm.name for choice in experiment.runs()}


def test_a_method_that_tells_layers_apart_is_set_up_with_several() -> None:
    assert methods.experiment(ALGORITHMS.get("ditto"))["model"] == {"name": "mlr"}
    for name in ("fedrep", "lg_fedavg", "plgu_lf", "lp_ft"):
        assert methods.experiment(ALGORITHMS.get(name))["model"] == NETWORK


@cache
def last_round(algorithm: str, config: str) -> RoundResult:
    """The result of one method of an experiment, both in JSON."""
    run = parse_experiment(json.loads(config) | {"algorithms": [json.loads(algorithm)], "seeds": [0]}).runs()[0]
    return list(Simulation(run).rounds())[-1]


def results(config: dict[str, Any]) -> dict[str, RoundResult]:
    algorithms = config.pop("algorithms")
    return {one["name"]: last_round(json.dumps(one), json.dumps(config)) for one in algorithms}


@pytest.mark.parametrize("name", [entry.name for entry in ALGORITHMS if needs(entry)])
@pytest.mark.slow
def test_a_method_has_an_effect_in_its_set_up(name: str) -> None:
    config = methods.experiment(ALGORITHMS.get(name))
    config["partition"]["num_clients"] = 4
    config["training"] |= {"rounds": 2} | ({"local_steps": 3} if "local_steps" in config["training"] else {})
    losses = {one: result.arrays["personalized.loss"] for one, result in results(config).items()}
    for other in ("fedavg", "local_train"):
        assert not np.allclose(losses[name], losses[other], atol=1e-7)


@pytest.mark.slow
def test_a_method_that_looks_for_groups_of_clients_finds_them_in_its_set_up() -> None:
    partitions = {entry.name: methods.experiment(entry)["partition"]["name"] for entry in ALGORITHMS}
    clustered = [name for name, partition in partitions.items() if partition == "feature_shift"]
    assert clustered == ["cfl", "cgpfl", "cgpfl_heur", "fl_hc", "ifca"]
    for name in clustered:
        config = methods.experiment(ALGORITHMS.get(name)) | {"evaluation": {"every": 40}}
        config["training"]["rounds"] = 40  # of 50
        found = results(config)
        assert found[name].scalars["diagnostics.ari"] == 1, name
        accuracy = {one: result.scalars["personalized.mean"] for one, result in found.items()}
        assert accuracy[name] > accuracy["local_train"] > accuracy["fedavg"]


def test_every_methods_set_up_can_be_queued() -> None:
    experiments = {entry.name: parse_experiment(methods.experiment(entry)) for entry in ALGORITHMS}
    check_runs(run for name, experiment in experiments.items() for run in experiment.runs() if run.seed == 0)
    public = {name for name, e in experiments.items() if e.raw["partition"].get("public_fraction")}
    assert public == {"fedmd", "kt_pfl"}


def test_an_unknown_name_opens_the_index() -> None:
    page = opened(method="dito", find="ditto")
    assert "did you mean 'ditto'" in page.warning[0].value
    assert "method=ditto" in html_of(page)


@pytest.mark.parametrize("section", ["datasets", "partitioners", "models"])
def test_data_splits_and_models_have_their_sections(section: str) -> None:
    page = opened(show=section)
    assert page.header and "<table" in html_of(page)


def test_every_data_set_is_described() -> None:
    assert {entry.title for entry in DATASETS} == {re.sub(r"\\", "", s.value) for s in opened(show="datasets").header}


def test_every_method_that_refuses_a_linear_model_needs_a_body() -> None:
    needed = {entry.name: needs(entry) for entry in ALGORITHMS}
    assert [name for name in needed if "body" not in needed[name] and not takes_linear_model(name)] == []
    assert "body" not in needed["ditto"] and takes_linear_model("ditto")
    assert [name for name in needed if "public samples" in needed[name]] == ["fedmd", "kt_pfl"]


def test_the_page_of_a_method_says_in_a_whole_clause_when_to_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(method_page.st, "html", drawn.append)
    for entry in ALGORITHMS:
        method_page.at_a_glance(entry, text_of(entry), None)
        found = re.search("<dt>When to use it</dt><dd>(.*?)</dd>", drawn[-1])
        assert found is None or re.match("When (?!When)", re.sub("<[^>]+>", "", found[1])), entry.name
    assert any("When a simple and strong reference is needed, with one " in page for page in drawn)


def test_the_table_says_what_is_sent_kept_and_needed_and_when_to_choose_a_method() -> None:
    table = methods.comparison_table(by_family([ALGORITHMS.get("fedbn")]), {})
    row = re.sub(r"<[^>]+>", "|", table)
    assert "When| inputs differ in contrast, color or sensor" in row
    assert "a model with normalizations (resnet18, |char_transformer|)" in row and ", both ways" in row
    assert table.count("…") == len(methods.NUMBERS)


BODY, HEAD = 64 * 20 + 20, 20 * 10 + 10


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("fedavg", Measured(False, "one", 1.0, 1.0, 1.0)),
        ("local_train", Measured(True, "none", 0.0, 0.0, 1.0)),
        ("ditto", Measured(True, "one", 1.0, 1.0, 2.0)),
        ("pfedme", Measured(True, "one", 1.0, 1.0, 5.0)),
        ("fedper", Measured(True, "none", BODY / (BODY + HEAD), BODY / (BODY + HEAD), 1.0)),
        ("ifca", Measured(False, "one for each group", 4.0, 1.0, 1.0)),
        ("fl_hc", Measured(False, "one for each group", 1.0, 1.0, 1.0)),
        ("cgpfl", Measured(True, "one for each group", 1.0, 1.0, 5.0)),
    ],
)
def test_costs_are_counted(name: str, cost: Measured) -> None:
    assert measured(ALGORITHMS.get(name)) == cost


def test_a_method_that_is_sent_the_models_of_others_is_measured_with_enough_of_them() -> None:
    costs = measured(ALGORITHMS.get("fedfomo"))
    assert costs and (costs.down, costs.up, costs.gradients) == (5.0, 1.0, 1.0)
    assert "5 ×</b> the model size down" in (page := html_of(opened(method="fedfomo"))) and "8 clients" in page


def test_fedbn_is_measured_on_a_network_with_normalizations() -> None:
    costs = measured(ALGORITHMS.get("fedbn"))
    assert costs and costs.is_personalized and 0.9 < costs.down < 1 and costs.down == costs.up and costs.gradients == 1
    assert "ResNet-18 on digits" in html_of(opened(method="fedbn"))


def test_bytes_that_depend_on_the_network_are_marked() -> None:
    for name, is_marked in {"fedmd": True, "fedper": True, "ditto": False, "fednova": False, "l2gd": False}.items():
        entry = ALGORITHMS.get(name)
        table = methods.comparison_table(by_family([entry]), {name: measured(entry)})
        assert ("×*</td>" in table) == ("(for this network)" in html_of(opened(method=name))) == is_marked, name


def test_one_off_costs_of_the_first_rounds_are_left_out() -> None:
    """FedALA's second round trains its weights until they settle; later rounds take one local training and 1.2 more."""
    assert measured(ALGORITHMS.get("fedala")) == Measured(True, "one", 1.0, 1.0, 2.2)


def test_costs_that_differ_by_round_are_shown_as_a_mean() -> None:
    """L2GD draws 10 coins a round, at p = 0.2: 0.8 of FedAvg's gradients and 1.6 exchanges are expected."""
    entry = ALGORITHMS.get("l2gd")
    costs = measured(entry)
    assert costs and costs.varies
    assert (costs.down, costs.up, costs.gradients) == pytest.approx((1.6, 1.6, 0.8), rel=0.05)
    shown = re.sub(r"<[^>]+>", "|", methods.comparison_table(by_family([entry]), {"l2gd": costs}))
    assert "|≈ 1.6 ×|" in shown and "|≈ 0.79 ×|" in shown
    page = html_of(opened(method="l2gd"))
    assert "<b>≈ 1.6 ×</b> the model size down" in page and "≈ marks the mean of rounds that differ" in page


def test_a_minimal_plugin_has_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "algorithms"
    folder.mkdir()
    (folder / "mine.py").write_text(PLAIN)
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    page = opened(method="my_plain_method")
    assert page.title[0].value == "Mine" and not page.latex
    assert "My method, in one sentence." in html_of(page)
    assert "method=my_plain_method" in html_of(opened(find="plain"))
    assert "A family of mine" in list(by_family(ALGORITHMS))[len(FAMILIES) :]
