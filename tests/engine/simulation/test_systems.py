"""Simulated devices in a run: what stays the same, what a deadline changes, what is recorded and refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import InvalidConfig, Unsupported
from engine.core.registry import ALGORITHMS
from engine.simulation.preflight import check_runs
from engine.simulation.simulate import Simulation
from tests.support.builders import assert_close, assert_equal, config, federation, personalized, shared_model, supports

SPLIT = {"name": "dnn", "hidden": 6}
SIZES = (6, 9, 4, 7, 5, 8, 6, 7)
OPTIONS = {"l2gd": {"p": 0.5}, "ifca": {"K": 2}, "cgpfl": {"K": 2}, "fl_hc": {"at_round": 1, "n_clusters": 2}}
OPTIONS |= {"cfl": {"warmup": 0, "eps1": 100.0, "eps2": 1e-6}, "fedprox_onestage": {"estimate_steps": 20}}
DEVICES = {"compute_s": 0.0136, "up_mbit": 8, "down_mbit": 40}
NOBODY_IN_TIME = {"compute_s": 1.0, "up_mbit": 1e-6, "deadline_s": 1e-3}  # l2gd may send before it trains


def configured(algorithm="fedavg", system=None, **changed) -> RunConfig:
    run = config(algorithm, **changed).to_dict()
    return RunConfig.from_dict(run if system is None else run | {"system": system})


def finished(algorithm="fedavg", system=None, data=None, **changed) -> tuple[Simulation, list]:
    run = Simulation(configured(algorithm, system, **changed), data=data or federation(SIZES))
    return run, [*run.rounds()]


def of_method(name: str) -> dict:
    model = "mlr" if supports(name, "mlr") else SPLIT
    return {"algorithm": {"name": name, **OPTIONS.get(name, {})}, "model": model, "participation": 0.75}


def test_an_absent_section_is_absent_from_the_configuration_and_its_digest():
    plain, timed = configured(), configured(system=DEVICES)
    assert "system" not in plain.to_dict()
    assert timed.digest != plain.digest and RunConfig.from_dict(timed.to_dict()) == timed
    assert timed.to_dict()["system"]["compute_spread"] == 0.6


def test_an_entry_changes_single_keys_of_its_experiment_or_removes_the_section():
    raw = configured().as_experiment() | {"system": DEVICES, "seeds": [0]}
    raw["algorithms"] = [
        {"name": "fedavg", "sweep": {"system.deadline_s": [1.4, 2.8]}},
        {"name": "fedavg", "label": "plain", "system": None},
        "ditto",
    ]
    runs = {run.label: run.system for run in parse_experiment(raw).runs()}
    assert runs["fedavg deadline_s=1.4"].deadline_s == 1.4 and runs["fedavg deadline_s=2.8"].up_mbit == 8
    assert runs["plain"] is None and runs["ditto"].compute_s == 0.0136


@pytest.mark.parametrize(
    ("system", "problem"),
    [
        ({"deadline": 1}, "system.deadline: 1, unknown key; did you mean 'deadline_s'"),
        ({"drop_out": 1}, "system.drop_out: 1: Input should be less than 1"),
        ({"over_select": 3}, "system.over_select: 3"),
        ({"tie": "speed"}, "system.tie: 'speed'"),
        ("fast", "system: 'fast', must be a mapping"),
    ],
)
def test_mistakes_are_refused_with_what_is_allowed(system, problem):
    raw = configured().as_experiment() | {"system": system}
    with pytest.raises(InvalidConfig) as error:
        parse_experiment(raw)
    assert problem.replace("Input should", "should").split(": should")[0] in error.value.problems[0]


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.slow
def test_a_clock_changes_no_model_and_an_open_channel_counts_the_bytes_of_the_method(name):
    plain, expected = finished(**of_method(name))
    run, rounds = finished(**of_method(name), system=DEVICES)
    assert_equal(personalized(run), personalized(plain))
    assert run.summary() == plain.summary()
    assert [r.cohort.tolist() for r in rounds] == [r.cohort.tolist() for r in expected]
    assert [r.scalars["bytes_up"] for r in rounds] == [r.scalars["bytes_up"] for r in expected]
    assert rounds[0].scalars["diagnostics.simulated_s"] == 0 < rounds[1].scalars["diagnostics.simulated_s"]


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.slow
def test_every_method_trains_where_uploads_are_lost(name):
    _, rounds = finished(**of_method(name), system={"drop_out": 0.5, "availability": 0.7})
    assert rounds[-1].diverged is None and rounds[-1].round == 2
    _, (_, *unheard) = finished(**of_method(name), system=NOBODY_IN_TIME)
    assert unheard[-1].diverged is None and not any(r.arrays["diagnostics.arrived"].any() for r in unheard)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fedprox", "fedopt", "feddyn", "qffl"])
def test_a_global_model_that_hears_of_nobody_never_moves(name):
    run, _ = finished(name, NOBODY_IN_TIME)
    start = run.task.initial_model()
    assert_equal(shared_model(run), start)


def test_without_uploads_personal_models_of_ditto_are_pulled_to_the_start():
    run, _ = finished({"name": "ditto", "lam": 0.5}, NOBODY_IN_TIME)
    far, _ = finished({"name": "ditto", "lam": 0.0}, NOBODY_IN_TIME)
    start = run.task.initial_clients()
    assert_equal(shared_model(run), run.task.initial_model())

    def distance(one):
        return sum((p - start[n]).square().sum() for n, p in personalized(one).items())

    assert 0 < distance(run) < distance(far)
    alone, _ = finished("local_train")
    assert_close(personalized(far), personalized(alone))


def test_late_clients_keep_the_personal_model_that_they_trained():
    plain, _ = finished("ditto", rounds=1)
    late, _ = finished("ditto", NOBODY_IN_TIME, rounds=1)
    assert_equal(personalized(late), personalized(plain))  # in round 1 all start from the common model


def test_the_mean_is_that_of_the_clients_in_time():
    system = {"compute_s": 1.0, "compute_spread": 1.0, "deadline_s": 10.0}
    run, rounds = finished("fedavg", system, rounds=1)
    arrived = rounds[-1].arrays["diagnostics.arrived"].astype(bool)
    assert 0 < arrived.sum() < 8
    local, _ = finished("local_train", rounds=1)
    own, sizes = personalized(local), np.array(SIZES)[arrived]
    weights = torch.tensor(sizes / sizes.sum())
    mean = {n: torch.einsum("s,s...->...", weights, p[torch.from_numpy(arrived)]) for n, p in own.items()}
    assert_close(shared_model(run), mean)


def test_the_same_clients_are_slow_for_every_method():
    system = DEVICES | {"deadline_s": 0.17, "tie": "labels", "tie_strength": 0.5}
    found = [finished(name, system)[1] for name in ("fedavg", "fedprox")]
    for name in ("speed", "link"):
        assert np.array_equal(*(rounds[0].arrays[f"diagnostics.{name}"] for rounds in found))
    assert np.array_equal(*(rounds[-1].arrays["diagnostics.arrived"] for rounds in found))


def test_a_clock_runs_by_the_slowest_client_and_counts_two_models_twice():
    system = {"compute_s": 0.0136, "compute_spread": 0}
    samples = finished()[0].task.cohort(1).plan.samples
    for name, times in (("fedavg", 1), ("ditto", 2), ("local_train", 1), ("fedsam", 2)):
        _, rounds = finished(name, system, rounds=1)
        assert rounds[-1].scalars["diagnostics.simulated_s"] == pytest.approx(times * 0.0136 * max(samples))


def test_the_consensus_of_feddbe_takes_the_time_of_all_clients_and_a_round_that_of_its_cohort():
    run, rounds = finished("feddbe", {"compute_s": 1.0}, model=SPLIT, participation=0.5, batch_size=4)
    everyone, once = run.task.cohort_of([*range(8)], 0), np.zeros(8)
    once[list(everyone.client_ids)] = everyone.plan.samples
    once /= rounds[0].arrays["diagnostics.speed"]
    first, second = (once[r.cohort].max() for r in rounds[1:])
    expected = max(once.max(), 2 * first)
    assert [r.scalars["diagnostics.simulated_s"] for r in rounds[1:]] == pytest.approx([expected, expected + second])
    _, rounds = finished("feddbe", NOBODY_IN_TIME, model=SPLIT, participation=0.5)
    for r in rounds[1:]:
        assert r.scalars["diagnostics.wasted_gradients"] == r.scalars["gradient_evaluations"]


def test_a_round_records_who_arrived_and_what_was_wasted():
    _, rounds = finished("fedavg", NOBODY_IN_TIME, rounds=1, participation=0.5)
    scalars, count = rounds[-1].scalars, len(rounds[-1].cohort)
    own = {n.removeprefix("diagnostics."): v for n, v in scalars.items()}
    assert (own["late"], own["dropped"], own["simulated_s"]) == (count, 0, 1e-3)
    assert own["wasted_gradients"] == scalars["gradient_evaluations"]
    assert own["wasted_bytes"] == scalars["bytes_up"] + scalars["bytes_down"] > 0


def test_only_available_clients_take_part():
    _, rounds = finished("fedavg", {"availability": 0.5}, rounds=6)
    assert len({len(r.cohort) for r in rounds[1:]}) > 1 and max(len(r.cohort) for r in rounds) < 8


def test_over_selection_trains_more_clients_than_it_uses():
    run, rounds = finished("fedavg", DEVICES | {"over_select": 1.5}, participation=0.5)
    for r in rounds[1:]:
        assert len(r.cohort) == 6 and r.arrays["diagnostics.arrived"].sum() == 4
        assert r.scalars["diagnostics.late"] == 2
    assert run.config.sampled_share == 0.75


def test_over_selection_keeps_as_many_of_a_poisson_cohort():
    private = {"unit": "client", "noise": 1.0, "sampling": "poisson"}
    raw = configured(system=DEVICES | {"over_select": 1.5}, participation=0.5, rounds=8).to_dict()
    rounds = [*Simulation(RunConfig.from_dict(raw | {"privacy": private}), data=federation(SIZES)).rounds()][1:]
    drawn = [len(r.cohort) for r in rounds]
    assert max(drawn) > 6
    assert [r.arrays["diagnostics.arrived"].sum() for r in rounds] == [min(4, count) for count in drawn]


def test_a_clock_continues_from_a_checkpoint():
    system = DEVICES | {"drop_out": 0.3, "availability": 0.8}
    whole, expected = finished("ditto", system, rounds=3)
    first = Simulation(configured("ditto", system, rounds=3), data=federation(SIZES))
    rounds = first.rounds()
    next(rounds), next(rounds)
    second = Simulation(configured("ditto", system, rounds=3), data=federation(SIZES))
    second.restore(first.checkpoint())
    rest = [*second.rounds()]
    assert [r.scalars["diagnostics.simulated_s"] for r in rest] == [
        r.scalars["diagnostics.simulated_s"] for r in expected[2:]
    ]
    assert_equal(personalized(second), personalized(whole))
    assert second.channel_state == whole.channel_state


def test_devices_go_with_attacks_and_robust_rules():
    raw = configured("fedavg", DEVICES | {"drop_out": 0.3}).to_dict()
    raw |= {"attack": {"name": "sign_flip", "share": 0.25}, "aggregator": "median"}
    *_, last = Simulation(RunConfig.from_dict(raw), data=federation(SIZES)).rounds()
    assert last.diverged is None


def test_a_tie_to_missing_contexts_is_reported_by_the_checks_before_a_run():
    run = configured(system={"tie": "context", "availability": 0.5})
    with pytest.raises(InvalidConfig, match="these data have no contexts; use tie: labels or size"):
        check_runs([run], build=lambda *_: federation(SIZES))
    with pytest.raises(Unsupported):
        Simulation(run, data=federation(SIZES))
    known = replace(federation(SIZES), contexts=np.arange(8) % 2)
    assert Simulation(run, data=known).task.systems is not None


@pytest.mark.parametrize(
    ("system", "note"),
    [
        ({"deadline_s": 1}, "nothing takes time, so no upload is late"),
        ({"over_select": 1.5}, "all clients participate already"),
        ({"tie": "labels", "up_mbit": 1}, "no client computes slower or is available less"),
        ({"tie": "labels", "availability": 0.02}, "no client computes slower or is available less"),
    ],
)
def test_settings_without_effect_are_noted(system, note):
    run = Simulation(configured(system=system), data=federation(SIZES))
    assert [own for own in run.task.notes if note in own]


@pytest.mark.parametrize(
    ("system", "seconds"),
    [
        ({"compute_s": 1, "compute_spread": 0, "deadline_s": 8.9}, "9"),  # of 9 samples, in 3 batches of 4
        ({"compute_s": 1, "compute_spread": 0, "deadline_s": 9}, None),
        ({"down_mbit": 1e-3, "link_spread": 0, "deadline_s": 1}, "1.15"),  # 18 numbers of 64 bits
        ({"compute_s": 1, "down_mbit": 1e-3, "compute_spread": 0, "link_spread": 0, "deadline_s": 10}, "10.2"),
    ],
)
def test_a_deadline_that_no_client_can_meet_is_noted_before_training(system, seconds):
    run, rounds = finished("fedavg", system)
    notes = [note for note in run.task.notes if note.startswith("system.deadline_s=")]
    assert len(notes) == (seconds is not None)
    assert all(f"the fastest client needs {seconds} s to receive the model and compute" in note for note in notes)
    assert any(r.arrays["diagnostics.arrived"].any() for r in rounds[1:]) == (seconds is None)


def test_a_method_that_sends_nothing_says_so():
    run = Simulation(configured("local_train", DEVICES | {"deadline_s": 1}), data=federation(SIZES))
    assert any(note.startswith("local_train: nothing is sent; deadline_s") for note in run.task.notes)
