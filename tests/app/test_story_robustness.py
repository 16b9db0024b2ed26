"""The story on malicious clients: its shipped numbers, its claims and its figures."""

import numpy as np
import pytest

from app.stories import dial_run, method_changes
from app.stories import robustness as story
from app.stories.compared import side
from app.stories.figures import client_changes
from app.stories.method_rows import LOWEST, MEAN, values
from app.stories.robustness import (
    ALONE,
    ATTACKS,
    CLIENTS,
    DIFFERENT,
    DITTO,
    DITTO_KRUM,
    DITTO_MEDIAN,
    FEDAVG,
    KEPT,
    KRUM,
    MEDIAN,
    METHODS,
    SMALL,
    STORY,
    different,
    example,
)
from engine.config.schema import parse_experiment
from engine.partitioners.classes_per_client import ClassesPerClientOptions
from tests.support.stories import last_step, run_of, simulations_of


def of(method: str, stop: str, what: str = MEAN) -> np.ndarray:
    return values(example(), method, stop, what)


@pytest.mark.slow
def test_the_shipped_numbers_match_the_engine() -> None:
    """Of both rules and both kinds of models; the other methods combine these."""
    shown, last = (MEDIAN, DITTO_KRUM), last_step(story.experiment("flip"), MEDIAN, DITTO_KRUM)
    assert last.is_settled
    for method, (mean, lowest5), accuracies in zip(shown, last.scores, last.accuracies, strict=True):
        assert mean == pytest.approx(of(method, "flip")[0], abs=0.005)
        assert lowest5 == pytest.approx(of(method, "flip", LOWEST)[0], abs=0.03)
        assert accuracies.mean() == pytest.approx(mean)
        assert accuracies.shape == example().clients_at("flip")[method].shape == (CLIENTS - story.FEW,)


def test_the_same_clients_are_left_out_where_nobody_attacks() -> None:
    few = [simulations_of(STORY.steps({"attack": stop}))[0].task.data.malicious for stop in ("none", "replace")]
    assert few[0] is not None and few[0].sum() == story.FEW and (few[0] == few[1]).all()


def test_an_honest_attack_changes_nothing() -> None:
    config = dict(story.experiment("none", {FEDAVG: METHODS[FEDAVG]}))
    attacked, honest = (run_of(dial_run.steps(one)) for one in (config, {**config, "attack": None}))
    for run in (attacked, honest):
        run.advance(2)
    benign = ~simulations_of(dial_run.steps(config))[0].task.data.malicious
    assert attacked.now.accuracies[0].tolist() == honest.now.accuracies[0][benign].tolist()


def test_the_median_costs_more_the_more_clients_differ() -> None:
    assert side(of(MEDIAN, "none", LOWEST), of(FEDAVG, "none", LOWEST)) < 0
    costs = [
        (values(different(), FEDAVG, c, LOWEST) - values(different(), MEDIAN, c, LOWEST)).mean() for c in DIFFERENT
    ]
    assert costs[-1] > costs[-2] > max(costs[:2]) and max(costs[:2]) < 0.05


def test_a_personal_model_takes_more_than_half_of_it_back_under_wrong_labels() -> None:
    lost, kept = of(FEDAVG, "labels") - of(MEDIAN, "labels"), of(DITTO, "labels") - of(DITTO_MEDIAN, "labels")
    assert kept.mean() < lost.mean() / 2


def test_a_personal_model_is_no_shield() -> None:
    assert side(of(DITTO, "flip"), of(ALONE, "flip")) < 0
    assert side(of(SMALL, "flip"), of(DITTO, "flip")) > 0 and side(of(SMALL, "flip"), of(ALONE, "flip")) < 0


def test_rule_and_personal_model_together_hold() -> None:
    assert abs(of(DITTO_KRUM, "replace").mean() - of(DITTO_KRUM, "none").mean()) < 0.02
    assert of(DITTO_KRUM, "replace").mean() > max(
        of(method, "replace").mean() for method in METHODS if method != DITTO_KRUM
    )


def test_multi_krum_picks_the_attackers_where_they_agree_most() -> None:
    assert side(of(KRUM, "many"), of(FEDAVG, "many")) < 0
    assert example().values_at(KEPT, "many").mean() > story.MANY / CLIENTS
    assert example().values_at(KEPT, "replace").mean() < 0.01


def test_a_scene_about_two_methods_compares_these() -> None:
    assert story.ATTACKS["many"].compared == (KRUM, FEDAVG)


def test_every_finding_has_its_numbers() -> None:
    for scene, (stop, attack) in zip(STORY.scenes, ATTACKS.items(), strict=True):
        assert scene.place == {"attack": stop}
        assert attack.title and all(one in METHODS for one in attack.compared)
    assert story._pm(MEDIAN, "none", LOWEST) in STORY.scenes[0].finding
    assert story._pm(DITTO_KRUM, "replace") in STORY.scenes[3].finding


def test_set_up_opens_all_methods_with_their_rules() -> None:
    runs = parse_experiment(STORY.config({"attack": "many"})).runs()
    assert [run.label for run in runs] == list(METHODS)
    assert [run.aggregator.name if run.aggregator else None for run in runs].count("multi_krum") == 2
    assert all(run.attack and round(run.attack.options.share * CLIENTS) == story.MANY for run in runs)
    assert isinstance(runs[0].partition.options, ClassesPerClientOptions)


def test_the_names_of_methods_have_their_rule_and_strength() -> None:
    words = {"median": "median", "multi_krum": "multi-Krum", 0.1: "λ = 0.1"}
    for method, entry in METHODS.items():
        assert method.split(", ")[1:] == [words[value] for value in entry.values() if value in words]
    assert {METHODS[method]["lam"] for method in (DITTO, DITTO_MEDIAN, DITTO_KRUM)} == {1.0}


def test_changes_are_sorted_and_counted() -> None:
    df = client_changes.data(np.array([0.5, 0.9, 0.2]), np.array([0.5, 0.7, 0.6]))
    assert df["client"].tolist() == [1, 0, 2] and df["change"].tolist() == pytest.approx([20, 0, -40])
    moves, fig = client_changes.moving(df, 40), client_changes.figure(3, 40)
    assert moves["gain"] == {"x": [1], "y": [20]} and moves["loss"] == {"x": [3], "y": [-40]}
    assert moves["counts"]["text"] == ["▲ 1 client better", "▼ 1 client worse"]
    assert set(moves) <= {trace.name for trace in fig.data}
    assert "1 of 3 clients does better and 1 does worse" in client_changes.finding(df)


def test_the_shipped_changes_are_those_of_the_compared_methods() -> None:
    ended = example().clients_at("flip")
    df = method_changes.changes("robustness", list(METHODS), ATTACKS["flip"].compared, "flip", None)
    assert df is not None and df["change"].max() == pytest.approx(100 * (ended[DITTO] - ended[ALONE]).max())
