"""Attacks and aggregators in a run: who is malicious, what is refused, what is recorded, and when nothing changes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.attacks.labels import LabelOptions, Labels
from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import InvalidConfig, Unsupported
from engine.core.registry import AGGREGATORS, ATTACKS
from engine.federation.malicious import with_malicious
from engine.metrics import summarize_clients
from engine.simulation.preflight import check_runs
from engine.simulation.simulate import Simulation
from tests.support.builders import assert_close, assert_equal, config, federation, personalized, supports
from tests.support.dials import METHODS

SPLIT = {"name": "dnn", "hidden": 6}
SIZES = (6, 9, 4, 7, 5, 8, 6, 7)
EACH_UPLOAD = ("fedavg", "scaffold", "ifca", "cgpfl", "pfedhn", "fedproto", "l2gd")  # a method for each kind


def configured(algorithm="fedavg", *, attack=None, aggregator=None, system=None, **changed) -> RunConfig:
    sections = {"attack": attack, "aggregator": aggregator, "system": system}
    run = config(algorithm, **changed).to_dict()
    return RunConfig.from_dict(run | {n: s for n, s in sections.items() if s is not None})


def finished(algorithm="fedavg", **changed) -> tuple[Simulation, list]:
    run = Simulation(configured(algorithm, **changed), data=federation(SIZES))
    return run, [*run.rounds()]


def test_absent_sections_are_absent_from_the_configuration_and_its_digest():
    plain = configured()
    assert not {"attack", "aggregator"} & set(plain.to_dict())
    attacked = configured(attack={"name": "sign_flip", "scale": 5})
    assert attacked.digest != plain.digest and attacked.to_dict()["attack"]["scale"] == 5
    assert RunConfig.from_dict(attacked.to_dict()) == attacked


def test_an_entry_replaces_or_removes_the_dials_of_its_experiment():
    raw = configured().as_experiment() | {"attack": "alie", "aggregator": "median", "seeds": [0]}
    raw["algorithms"] = [
        {"name": "fedavg", "sweep": {"aggregator": ["mean", "krum"]}},
        {"name": "fedavg", "label": "plain", "attack": None, "aggregator": None},
        "ditto",
    ]
    runs = {run.label: run for run in parse_experiment(raw).runs()}
    assert runs["fedavg aggregator=krum"].aggregator.name == "krum"
    assert runs["ditto"].attack.name == "alie" and runs["ditto"].aggregator.name == "median"
    assert runs["plain"].attack is None and runs["plain"].aggregator is None
    assert parse_experiment(runs["ditto"].as_experiment()).runs()[0] == runs["ditto"]


def test_mistakes_in_a_dial_are_reported_once():
    raw = configured().as_experiment() | {"attack": {"name": "alei"}, "aggregator": {"name": "krum", "f": -1}}
    with pytest.raises(InvalidConfig) as error:
        parse_experiment(raw | {"algorithms": ["fedavg", "ditto"]})
    first, second = error.value.problems
    assert "did you mean 'alie'" in first and second.startswith("aggregator.f: -1")


def test_malicious_clients_are_the_same_for_every_attack_and_method():
    data = [
        finished(method, attack={"name": attack, "share": 0.25}, rounds=1)[0].task.data
        for method, attack in (("fedavg", "alie"), ("ditto", "labels"))
    ]
    assert data[0].malicious.sum() == 2 and np.array_equal(data[0].malicious, data[1].malicious)
    assert data[0].summary.to_dict()["malicious"] == tuple(data[0].malicious.tolist())
    assert "malicious" not in federation().summary.to_dict()


@pytest.mark.parametrize(("sizes", "share"), [(SIZES, 0.95), (SIZES[:1], 0.6)])
def test_an_attack_that_leaves_no_benign_client_is_refused_before_training(sizes, share):
    run = configured(attack={"name": "sign_flip", "share": share})
    N = len(sizes)
    words = rf"attack\.share={share} of {N} clients? leaves no benign client to measure; lower it"
    with pytest.raises(Unsupported, match=words):
        Simulation(run, data=federation(sizes))
    with pytest.raises(InvalidConfig, match=words):
        check_runs([run], build=lambda *_: federation(sizes))


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({}, "attack: with 2 of 8 uploads malicious, z is 0, so alie sends the benign mean"),
        ({"participation": 0.5}, "attack: with 1 of 4 uploads malicious, z is -0.43, so alie sends about the benign"),
        ({"participation": 0.5, "system": {"over_select": 2}}, "attack: with 2 of 8 uploads malicious"),
        ({"attack": {"name": "alie", "share": 0.25, "z": 1}}, None),
        ({"attack": {"name": "sign_flip", "share": 0.25}}, None),
        ({"algorithm": "local_train"}, None),
    ],
)
def test_an_attack_that_sends_what_benign_clients_would_is_noted(changed, note):
    run = Simulation(configured(**{"attack": {"name": "alie", "share": 0.25}} | changed), data=federation(SIZES))
    assert [own.startswith(note or "") for own in run.task.notes if own.startswith("attack: ")] == [True] * bool(note)


def test_only_training_labels_of_malicious_clients_are_poisoned():
    clean = federation(SIZES)
    data = with_malicious(clean, Labels(LabelOptions(how="next")), 0.5, seed=0)
    for client in range(len(SIZES)):
        before, after = clean.train.of_client(client)[1], data.train.of_client(client)[1]
        assert torch.equal(after, (before + 1) % 3 if data.malicious[client] else before)
    assert torch.equal(data.test.of_everyone()[1], clean.test.of_everyone()[1])
    assert torch.equal(data.class_counts.sum(1), clean.class_counts.sum(1))
    assert not torch.equal(data.class_counts, clean.class_counts)


def test_summaries_leave_malicious_clients_out_and_arrays_keep_them():
    run, rounds = finished(attack={"name": "sign_flip", "share": 0.5})
    accuracy, bad = rounds[-1].arrays["personalized.accuracy"], run.task.data.malicious
    assert np.isfinite(accuracy).all()
    benign = summarize_clients(accuracy[~bad], run.task.data.test_sizes[~bad])
    assert run.summary()["personalized"] == benign
    assert run.best["personalized"].score == max(r.scalars["personalized.weighted_mean"] for r in rounds)


@pytest.mark.parametrize("name", [*EACH_UPLOAD, "fedmd", "fedfomo"])
def test_an_attack_by_nobody_changes_nothing(name):
    options = {"algorithm": name, "model": SPLIT, "rounds": 1}
    plain, expected = finished(**options)
    run, rounds = finished(**options, attack={"name": "replace", "share": 0.0})
    same = assert_close if name == "l2gd" else assert_equal  # whose mean is computed once an exchange
    same(personalized(run), personalized(plain))
    assert rounds[-1].scalars["bytes_up"] == expected[-1].scalars["bytes_up"]
    assert any("no client is malicious" in note for note in run.task.notes)


@pytest.mark.parametrize("name", EACH_UPLOAD)
def test_flipping_by_minus_one_is_honest(name):
    options = {"algorithm": name, "model": SPLIT, "rounds": 2}
    honest, _ = finished(**options)
    flipped, _ = finished(**options, attack={"name": "sign_flip", "scale": -1, "share": 0.5})
    assert_close(personalized(flipped), personalized(honest))


@pytest.mark.parametrize("attack", ATTACKS.names())
def test_an_attack_moves_the_global_model_and_no_model_that_stays(attack):
    honest, _ = finished("ditto", rounds=1)
    run, _ = finished("ditto", rounds=1, attack={"name": attack, "share": 0.25})
    assert not torch.equal(run.state.global_params["head.weight"], honest.state.global_params["head.weight"])
    benign = torch.from_numpy(~run.task.data.malicious)
    own, before = (r.state.personal_params["head.weight"][benign] for r in (run, honest))
    assert torch.equal(own, before)  # in round 1 all start from the common model


WITHOUT_AVERAGE = {"pfedhn", "plgu_ghn", "fedproto", "fedamp", "fedfomo", "mocha", "kt_pfl"}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.slow
def test_every_method_accepts_robust_rules_or_refuses_them_before_training(name):
    options = {"model": SPLIT if supports(name, SPLIT) else "mlr", "rounds": 1}
    accepted = []
    for rule in ("median", "multi_krum"):
        run = configured(name, aggregator=rule, attack={"name": "sign_flip", "share": 0.25}, **options)
        if name in WITHOUT_AVERAGE or (name in ("scaffold", "fedpac") and rule == "multi_krum"):
            with pytest.raises(Unsupported, match="use aggregator: mean"):
                Simulation(run, data=federation(SIZES))
        else:
            accepted.append(Simulation(run, data=federation(SIZES)))
    if accepted:
        *_, last = accepted[-1].rounds()  # one is enough: the channel applies the rule, not the method
        assert last.diverged is None and last.scalars["diagnostics.aggregator.fell_back"] >= 0


@pytest.mark.parametrize("rule", sorted({*AGGREGATORS.names()} - {"multi_krum"}))
def test_every_rule_runs_in_clusters_and_with_one_model(rule):
    for name in ("fedavg", "ifca", "cgpfl"):
        _, rounds = finished(name, model=SPLIT, aggregator=rule, attack={"name": "sign_flip", "share": 0.25}, rounds=1)
        assert rounds[-1].diverged is None


def test_a_refusal_is_reported_by_the_checks_before_a_run():
    run = replace(configured("scaffold", aggregator="krum"), partition=configured().partition)
    with pytest.raises(InvalidConfig, match="scaffold sends two things, and krum might keep different clients"):
        check_runs([run], build=lambda *_: federation(SIZES))


def test_the_update_of_each_client_is_recorded():
    run, rounds = finished(attack={"name": "sign_flip", "scale": 3, "share": 0.25}, aggregator="krum", rounds=1)
    arrays, bad = rounds[-1].arrays, run.task.data.malicious
    weight = arrays["diagnostics.aggregator.weight"]
    assert sorted(weight.tolist()) == [0.0] * 7 + [1.0] and not weight[bad].any()
    assert rounds[-1].scalars["diagnostics.aggregator.fell_back"] == 0
    assert arrays["diagnostics.update_cosine"][weight == 1] == pytest.approx(1)
    norms = arrays["diagnostics.update_norm"]
    honest = finished(aggregator="krum", rounds=1)[1][-1].arrays["diagnostics.update_norm"]
    np.testing.assert_allclose(norms / honest, np.where(bad, 3, 1))


def test_clients_outside_the_cohort_have_no_share_and_no_norm():
    _, rounds = finished(aggregator="median", rounds=1, participation=0.5)
    arrays, last = rounds[-1].arrays, rounds[-1]
    outside = np.setdiff1d(np.arange(8), last.cohort)
    assert not arrays["diagnostics.aggregator.weight"][outside].any()
    assert np.isnan(arrays["diagnostics.update_norm"][outside]).all()


def test_krum_with_too_few_uploads_takes_the_mean_and_counts_it():
    plain, _ = finished()
    run, rounds = finished(aggregator={"name": "krum", "f": 3})
    assert rounds[-1].scalars["diagnostics.aggregator.fell_back"] == 1
    assert_equal(personalized(run), personalized(plain))


@pytest.mark.parametrize(
    ("rule", "changed", "needed"),
    [
        ({"name": "krum", "f": 50}, {}, "103 uploads to act, and 8 are expected"),
        (
            "multi_krum",
            {"participation": 0.5, "attack": {"name": "alie", "share": 0.25}},
            "5 uploads to act, and 4 are",
        ),
        ("trimmed_mean", {"participation": 0.5}, "5 uploads to act, and 4 are expected"),
        ("trimmed_mean", {"participation": 0.5, "system": {"over_select": 1.5}}, "5 uploads to act, and 4 are"),
        ("trimmed_mean", {"system": {"drop_out": 0.5}}, "5 uploads to act, and 4 are expected"),
        ("geometric_median", {"participation": 0.25}, "3 uploads to act, and 2 are expected"),
        ("norm_clip", {"participation": 0.125}, "2 uploads to act, and 1 is expected"),
    ],
)
def test_a_rule_that_expects_too_few_uploads_to_act_is_noted(rule, changed, needed):
    run = Simulation(configured(aggregator=rule, **changed), data=federation(SIZES))
    (note,) = [note for note in run.task.notes if note.startswith("aggregator: ")]
    assert f"{run.config.aggregator.name} needs at least {needed}" in note


def test_a_rule_that_gets_enough_uploads_is_not_noted():
    malicious = {"name": "alie", "share": 0.25}
    for rule, attack in (("krum", None), ("trimmed_mean", None), ("geometric_median", None), ("multi_krum", malicious)):
        run = Simulation(configured(aggregator=rule, attack=attack), data=federation(SIZES))
        assert not any("aggregator" in note for note in run.task.notes)


def test_a_trimmed_mean_that_trims_nothing_counts_as_a_fallback():
    _, rounds = finished(aggregator={"name": "trimmed_mean", "trim": 0.1}, rounds=1)
    assert rounds[-1].scalars["diagnostics.aggregator.fell_back"] == 1


@pytest.mark.parametrize("rule", ["mean", {"name": "norm_clip", "at": 1e6}])
@pytest.mark.parametrize("name", ["fedavg", "ifca", "cgpfl", "scaffold"])
def test_rules_that_leave_nothing_out_give_the_run_without_them(name, rule):
    plain, _ = finished(name, model=SPLIT, participation=0.75)
    run, _ = finished(name, model=SPLIT, participation=0.75, aggregator=rule)
    assert_close(personalized(run), personalized(plain))


def test_a_run_continues_from_a_checkpoint():
    options = {"attack": {"name": "gaussian", "share": 0.25}, "aggregator": "median", "rounds": 3}
    whole, _ = finished(**options)
    first = Simulation(configured(**options), data=federation(SIZES))
    rounds = first.rounds()
    next(rounds), next(rounds)
    second = Simulation(configured(**options), data=federation(SIZES))
    second.restore(first.checkpoint())
    assert [r.round for r in second.rounds()] == [2, 3]
    assert_equal(personalized(second), personalized(whole))
    assert second.channel_state == whole.channel_state and second.channel_state.rounds == 3


def test_a_method_that_sends_nothing_says_so():
    run, rounds = finished("local_train", aggregator="median", attack="alie", rounds=1)
    assert "local_train: nothing is sent; aggregator has no effect" in run.task.notes
    assert rounds[-1].scalars["bytes_up"] == 0
