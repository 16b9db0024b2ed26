"""Private clients in a run: what is bit-identical, what is recorded, who takes part, and resuming."""

import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.algorithms import fedala
from engine.channel import Arrived
from engine.channel.plain_channel import PlainChannel
from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import InvalidConfig, Unsupported
from engine.core.registry import ALGORITHMS, Registry
from engine.simulation.refusals import refuse
from engine.simulation.simulate import Simulation
from tests.support.builders import assert_close, assert_equal, config, federation, personalized

EQUAL = (6, 6, 6, 6)


def private(algorithm="fedavg", privacy=None, system=None, **changed) -> RunConfig:
    run = config(algorithm, **changed).to_dict() | ({} if system is None else {"system": system})
    return RunConfig.from_dict(run if privacy is None else run | {"privacy": {"delta": 0.01} | privacy})


def finished(algorithm="fedavg", privacy=None, sizes=EQUAL, **changed) -> tuple[Simulation, list]:
    run = Simulation(private(algorithm, privacy, **changed), data=federation(sizes))
    return run, [*run.rounds()]


def scalar(result, name: str) -> float:
    return result.scalars[f"diagnostics.{name}"]


def test_an_absent_section_is_absent_from_the_configuration():
    assert "privacy" not in private().to_dict()
    run = private(privacy={"noise": 2.0})
    assert RunConfig.from_dict(run.to_dict()) == run and run.digest != private().digest


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedopt", "fedem", {"name": "fedprox_onestage", "lam": 0.1}])
def test_without_noise_and_with_a_large_norm_nothing_changes_where_clients_are_equal(name):
    plain, _ = finished(name)
    run, _ = finished(name, {"noise": 0, "clip": 1e6})
    assert_close(personalized(run), personalized(plain))


def test_training_alone_is_bit_identical_and_costs_no_epsilon():
    plain, _ = finished("local_train")
    run, rounds = finished("local_train", {"noise": 1.0})
    assert_equal(run.state.personal_params, plain.state.personal_params)
    assert [scalar(r, "privacy.epsilon") for r in rounds if r.evaluated] == [0] * len(
        [r for r in rounds if r.evaluated]
    )
    assert any("nothing is sent, so clients are private anyway" in note for note in run.task.notes)


def test_the_guarantee_of_a_run_is_known_before_it_starts():
    run, rounds = finished(privacy={"noise": 1.0})
    spent = scalar(rounds[-1], "privacy.epsilon")
    (note,) = [note for note in run.task.notes if "guarantees" in note]
    assert (
        note.startswith(f"privacy: noise z = 1 guarantees ε = {spent:.3g} at δ = ")
        and f"{len(rounds) - 1} rounds" in note
    )
    without, _ = finished(privacy={"noise": 0, "clip": 1e6})
    assert "privacy: without noise there is no guarantee" in without.task.notes


@pytest.mark.parametrize(("delta", "is_large"), [("auto", True), (1e-5, False)])
def test_a_large_delta_is_noted(delta, is_large):
    run = Simulation(private(privacy={"noise": 2.0, "delta": delta}, rounds=1), data=federation(EQUAL))
    (note,) = [note for note in run.task.notes if "guarantees" in note]
    assert note.endswith("set privacy.delta, for instance to 1e-5") == is_large


def test_epsilon_rises_from_round_to_round():
    _, rounds = finished(privacy={"noise": 1.0})
    spent = [scalar(r, "privacy.epsilon") for r in rounds]
    assert spent[0] == 0 and all(b > a for a, b in itertools.pairwise(spent))


def test_a_personal_model_that_is_not_pulled_is_that_of_a_run_without_privacy():
    plain, _ = finished("apfl", rounds=1)
    run, _ = finished("apfl", {"noise": 5.0}, rounds=1)
    assert_equal(run.state.personal_params, plain.state.personal_params)
    new, old = run.state.global_params, plain.state.global_params
    assert all((p != old[n]).any() for n, p in new.items())


@pytest.mark.slow
def test_participants_are_drawn_on_their_own_or_in_a_fixed_number():
    sizes = (5,) * 20
    poisson, _ = finished(privacy={"noise": 1.0}, sizes=sizes, participation=0.3, rounds=1)
    fixed, _ = finished(privacy={"noise": 1.0, "sampling": "fixed"}, sizes=sizes, participation=0.3, rounds=1)
    assert {len(fixed.task.participants(t)) for t in range(20)} == {6}
    counts = [len(poisson.task.participants(t)) for t in range(200)]
    assert len(set(counts)) > 5 and np.mean(counts) == pytest.approx(6, abs=0.6)


@pytest.mark.parametrize("rare", [{"participation": 0.01}, {"system": {"availability": 0.01}}])
def test_a_round_without_participants_still_releases_noise(rare):
    run = Simulation(private(privacy={"noise": 1.0}, rounds=1, **rare), data=federation(EQUAL))
    assert run.task.is_empty_draw(1) and len(run.task.participants(1)) == 1
    before = run.task.initial_model()
    _, result = run.rounds()
    assert scalar(result, "privacy.signal_norm") == 0 and scalar(result, "privacy.noise_norm") > 0
    moved = torch.cat([(p - before[n]).flatten() for n, p in run.state.global_params.items()])
    assert torch.linalg.vector_norm(moved).item() == pytest.approx(scalar(result, "privacy.noise_norm"), rel=1e-6)


def test_a_run_with_an_adaptive_norm_continues_from_a_checkpoint():
    privacy = {"noise": 1.0, "clip": "adaptive", "count_noise": 5}
    whole, results = finished("ditto", privacy, rounds=4)
    assert len({scalar(r, "privacy.clip") for r in results[1:]}) == 4
    half = Simulation(private("ditto", privacy, rounds=4), data=federation(EQUAL))
    rounds = half.rounds()
    for _ in range(3):
        next(rounds)
    other = Simulation(private("ditto", privacy, rounds=4), data=federation(EQUAL))
    other.restore(half.checkpoint())
    rest = [*other.rounds()]
    assert_equal(personalized(other), personalized(whole))
    assert other.channel_state == whole.channel_state and rest[-1].scalars.keys() == results[-1].scalars.keys()


@dataclass(frozen=True)
class Calls(PlainChannel):
    """A channel that lists the calls to it."""

    made: list[str] = field(default_factory=list)

    def deliver(self, *arguments, **named) -> Arrived:
        self.made.append("deliver")
        return super().deliver(*arguments, **named)

    def aggregate(self, *arguments, **named):
        self.made.append("aggregate")
        return super().aggregate(*arguments, **named)


@pytest.mark.parametrize("name", [entry.name for entry in ALGORITHMS if "client" in entry.privacy])
def test_a_method_for_which_client_level_holds_makes_one_aggregate_a_round(name):
    run = Simulation(config(name, model={"name": "dnn", "hidden": 3}), data=federation((4, 4)))
    calls = Calls()
    task = replace(run.task, channel=calls)
    state = run.state
    for t in (1, 2):
        calls.made.clear()
        state, _ = run.algorithm.round(state, task.cohort(t), task)
        assert calls.made == ([] if name == "local_train" else ["aggregate"])


@pytest.mark.parametrize(
    ("algorithm", "changed", "message"),
    [
        ("scaffold", {}, r"scaffold reads single uploads .*; choose a method .*, or privacy.unit: sample"),
        ("ifca", {}, r"ifca reads single uploads .*; choose a method that averages models$"),
        ({"name": "fedprox_onestage", "lam": "adaptive"}, {}, "outside the mechanism; give lam as a number"),
        ({"name": "fedprox_onestage", "lam": 0.1, "local_lr": "theory"}, {}, "local_lr: 'theory' .*; give a number"),
        ("fedavg", {"aggregator": {"name": "median"}}, "calibrated to a mean, not to median; use aggregator: mean"),
        ("per_fedavg", {"unit": "sample"}, r"beyond sums of per-sample gradients .*, or privacy.unit: client"),
        ("fedavg", {"unit": "sample", "clip_norm": 1.0}, "clip_norm would clip one gradient twice; remove it"),
        ("fedavg", {"unit": "sample", "batch_size": "full"}, "sampling is part of the guarantee; give a batch size"),
        ("fedavg", {"attack": {"name": "alie"}}, "alie one client changes what the malicious ones send"),
        ("fedala", {"system": {"compute_s": 1.0, "deadline_s": 9.0}}, "remove deadline_s and over_select of system"),
    ],
)
def test_what_privacy_cannot_do_is_refused_before_training(algorithm, changed, message):
    training = {n: v for n, v in changed.items() if n in ("clip_norm", "batch_size")}
    raw = config(algorithm, **training).to_dict() | {"privacy": {"unit": changed.get("unit", "client")}}
    raw |= {n: v for n, v in changed.items() if n in ("aggregator", "attack", "system")}
    with pytest.raises(Unsupported, match=message):
        Simulation(RunConfig.from_dict(raw), data=federation(EQUAL))


def test_a_plugin_that_computes_until_something_settles_must_not_drop_late_uploads(tmp_path, monkeypatch):
    text = Path(fedala.__file__).read_text(encoding="utf-8").replace('"fedala"', '"mine"', 1)
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    refuse(private("mine", {"unit": "client"}))
    with pytest.raises(Unsupported, match=r"mine computes until its weights settle, .*; remove deadline_s"):
        refuse(private("mine", {"unit": "client"}, {"compute_s": 1.0, "deadline_s": 9.0}))


def test_over_selection_costs_as_much_as_replacing_a_client():
    many, devices = (5,) * 20, {"over_select": 1.5, "compute_s": 1.0}
    run, rounds = finished(privacy={"noise": 4.0}, sizes=many, participation=0.5, system=devices)
    _, of_half = finished(privacy={"noise": 2.0}, sizes=many)
    _, of_everyone = finished(privacy={"noise": 2.0}, sizes=many, system=devices)
    spent = [scalar(results[-1], "privacy.epsilon") for results in (rounds, of_half, of_everyone)]
    assert spent == pytest.approx([spent[0]] * 3)
    assert any("another client takes the place of an absent one" in note for note in run.task.notes)


def test_a_method_that_declares_nothing_is_refused():
    declared = Registry("algorithm", "engine.algorithms")
    declared.register("mine", title="Mine", paper="none")(Calls)
    assert declared._entries["mine"].privacy == ()


def test_an_entry_with_epsilon_drops_the_noise_of_its_experiment():
    raw = private(privacy={"noise": 2.0}).as_experiment() | {"seeds": [0]}
    raw["algorithms"] = [
        {"name": "fedavg", "privacy": {"epsilon": 4}},
        {"name": "ditto", "sweep": {"privacy.noise": [1.0, 3.0]}},
        {"name": "apfl", "privacy": None},
    ]
    runs = {run.label: run.privacy for run in parse_experiment(raw).runs()}
    assert (runs["fedavg"].epsilon, runs["fedavg"].noise, runs["fedavg"].delta) == (4, None, 0.01)
    assert runs["ditto noise=3"].noise == 3 and runs["apfl"] is None


def test_noise_and_epsilon_together_are_a_mistake():
    raw = private().as_experiment() | {"privacy": {"noise": 1, "epsilon": 2}}
    with pytest.raises(InvalidConfig, match="noise and epsilon are mutually exclusive"):
        parse_experiment(raw)
