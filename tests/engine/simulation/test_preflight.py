"""What is refused before a run starts, and what is only checked by the worker."""

import re
import sys

import pytest

from engine.config.schema import ExperimentConfig, parse_experiment
from engine.config.tune import Tune
from engine.core.errors import InvalidConfig
from engine.models import build_model, num_parameters
from engine.simulation import preflight
from engine.simulation.simulate import Simulation

EXPERIMENT = {
    "name": "four clients",
    "dataset": "digits",
    "partition": {"name": "iid", "num_clients": 4},
    "model": "mlr",
    "algorithms": [{"name": "gpfl"}],
}


def test_a_method_that_cannot_start_is_refused_by_name() -> None:
    with pytest.raises(InvalidConfig, match=r"gpfl.*model"):
        preflight.check_runs(parse_experiment(EXPERIMENT).runs())


def test_models_too_large_to_check_are_left_to_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    four_models = 4 * (64 * 10 + 10) * 4  # clients x parameters of mlr on digits x bytes of a float32
    monkeypatch.setattr(Simulation, "__init__", lambda *_, **__: pytest.fail("set up"))
    monkeypatch.setattr(preflight, "MAX_BYTES", four_models - 1)
    preflight.check_runs(parse_experiment(EXPERIMENT).runs())
    monkeypatch.setattr(preflight, "MAX_BYTES", four_models)
    with pytest.raises(pytest.fail.Exception, match="set up"):
        preflight.check_runs(parse_experiment(EXPERIMENT).runs())


def test_models_far_too_large_to_build_are_still_counted() -> None:
    huge = parse_experiment(EXPERIMENT | {"model": {"name": "resnet18", "width": 512}}).model
    assert num_parameters(huge, (1, 8, 8), 10) > 7e8
    for name, options in (("dnn", {"hidden": 5}), ("mlr", {}), ("resnet18", {"width": 4})):
        model = parse_experiment(EXPERIMENT | {"model": {"name": name, **options}, "algorithms": ["fedavg"]}).model
        assert num_parameters(model, (1, 8, 8), 10) == build_model(model, (1, 8, 8), 10).num_parameters


@pytest.mark.parametrize(
    ("algorithm", "numbers"),
    [
        ({"name": "fedavg"}, 4 * 650),
        ({"name": "ifca", "K": 10**4}, 10**4 * 650),
        ({"name": "pfedhn", "hidden": 10**4, "hidden_layers": 2}, 4 * 650 + 10**4 * 650 + 2 * 10**8),
    ],
)
def test_the_state_of_a_method_is_counted_before_it_is_created(algorithm: dict, numbers: int) -> None:
    (run,) = parse_experiment(EXPERIMENT | {"algorithms": [algorithm]}).runs()
    assert preflight.num_model_values(run, num_clients=4, parameters=650) == numbers


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"model": {"name": "dnn", "hidden": 5}, "algorithms": [{"name": "plgu_lf", "D": 5}]},
            "^plgu_lf with D=5: the model has 2 layers, so D=1 is used",
        ),
        ({"algorithms": [{"name": "ifca", "K": 9}]}, "^ifca with K=9: there are 4 clients"),
        (
            {"training": {"batch_size": 400}},
            "fedavg: batch_size=400: 4 of 4 clients have only 337 to 338 training samples",
        ),
        ({"training": {"participation": 0.1}}, "fedavg: participation=0.1 of 4 clients is below one, so one takes"),
        (
            {"training": {"participation": 0.1}, "privacy": {"noise": 1.0}},
            "participation=0.1 of 4 clients is below one: .* many rounds have no participant",
        ),
        (
            {"training": {"participation": 0.1}, "privacy": {"noise": 1.0, "sampling": "fixed"}},
            "participation=0.1 of 4 clients is below one, so one takes part",
        ),
        (
            {"partition": {"name": "iid", "num_clients": 4, "test_fraction": 0}},
            "no client has test samples, .* raise partition.test_fraction, or set evaluation.on: val",
        ),
        (
            {"privacy": {"noise": 1.0, "covers": "all"}},
            "^fedavg: privacy.covers=all has no effect with unit: client; it is for unit: sample$",
        ),
        (
            {"privacy": {"noise": 1.0, "quantile": 0.7}},
            "privacy.quantile=0.7 has no effect with clip: 1; it is for clip: adaptive",
        ),
        (
            {"privacy": {"unit": "sample", "noise": 1.0, "sampling": "fixed"}},
            "privacy.sampling=fixed has no effect with unit: sample; it is for unit: client",
        ),
        (
            {"privacy": {"unit": "sample", "noise": 1.0, "count_noise": 3.0}},
            "privacy.count_noise=3.0 has no effect with unit: sample; it is for unit: client with clip: adaptive",
        ),
        (
            {"training": {"rounds": 5, "lr_schedule": "step"}},
            "lr_decay_rounds=20: the rate never decays within 5 rounds",
        ),
        ({"model": {"name": "resnet18", "width": 6}}, "groups=32: .*3 of 6 channels, 6 of 12 channels"),
        ({"partition": {"name": "iid", "num_clients": 800, "test_fraction": 0.1}}, "800 of 800 clients have too few"),
        (
            {"partition": {"name": "contexts", "num_clients": 4, "num_contexts": 1, "classes_per_context": 12}},
            "classes_per_context=12: the data set has 10 classes",
        ),
        ({"training": {"dtype": "tf32"}}, "^training.dtype: tf32 needs an NVIDIA GPU; there is none here"),
        (
            {"training": {"dtype": "bfloat16"}},
            "^training.dtype: bfloat16 is meant for an NVIDIA GPU; there is none here",
        ),
        (
            {"dataset": {"name": "synthetic"}},
            "the data come with 10 clients, which partition iid redistributes",
        ),
    ],
)
def test_options_with_a_different_effect_are_noted(changes: dict, words: str) -> None:
    notes = preflight.check_runs(parse_experiment(EXPERIMENT | {"algorithms": ["fedavg"]} | changes).runs())
    assert [note for note in notes if re.search(words, note)], notes


def test_options_with_the_expected_effect_need_no_note() -> None:
    assert preflight.check_runs(parse_experiment(EXPERIMENT | {"algorithms": ["fedavg", "ditto"]}).runs()) == ()
    only_val = {"partition": {"name": "iid", "num_clients": 4, "test_fraction": 0, "val_fraction": 0.2}}
    raw = EXPERIMENT | {"algorithms": ["fedavg"], "evaluation": {"on": "val"}} | only_val
    assert preflight.check_runs(parse_experiment(raw).runs()) == ()


@pytest.mark.parametrize(
    "privacy",
    [
        {"clip": "adaptive", "noise": 0.2, "quantile": 0.7, "clip_lr": 0.1, "count_noise": 0.5, "sampling": "fixed"},
        {"unit": "sample", "noise": 1.0, "covers": "all"},
    ],
)
def test_options_of_privacy_that_act_are_not_noted(privacy: dict) -> None:
    notes = preflight.check_runs(parse_experiment(EXPERIMENT | {"algorithms": ["fedavg"], "privacy": privacy}).runs())
    assert not [note for note in notes if "has no effect" in note]


def test_the_check_of_a_method_stops_before_it_evaluates_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.training.evaluate.evaluate", lambda *_: pytest.fail("evaluated"))
    preflight.check_runs(parse_experiment(EXPERIMENT | {"algorithms": [{"name": "ifca", "K": 2}]}).runs())


def study(**changes: object) -> ExperimentConfig:
    few = {"name": "iid", "num_clients": 200, "val_fraction": 0.1}
    return parse_experiment(
        EXPERIMENT | {"algorithms": ["fedavg"], "partition": few, "splits": [3], "tune": {"trials": 2}} | changes
    )


def test_few_validation_samples_are_noted() -> None:
    notes = preflight.check_runs(study().runs())
    assert any(note.startswith("split 3: 200 clients have fewer than 5 validation samples") for note in notes)
    assert preflight.validation_notes([5, 194], 0)[0].startswith("split 0: 199 validation samples, fewer than 200")
    assert preflight.validation_notes([5, 195], 0) == []
    assert "1 client has fewer than 5" in preflight.validation_notes([4, 196], 0)[0]


def test_trials_shorter_than_the_final_runs_are_noted() -> None:
    assert preflight.study_notes(study(tune={"rounds": 30})) == ("settings are chosen at 30 of 50 rounds",)
    (note,) = preflight.study_notes(study(tune={"trials": 4, "gradients": 1e6}))
    assert note.startswith("tune.trials: 4 is not used")
    assert preflight.study_notes(study()) == preflight.study_notes(parse_experiment(EXPERIMENT)) == ()


def test_selecting_by_the_global_model_needs_one_in_every_method() -> None:
    both = study(algorithms=["fedavg", "local_train"]).runs()
    assert preflight.check_runs(both)
    with pytest.raises(InvalidConfig, match=r"local_train trial 0: tune\.model: 'global', but this method has no"):
        preflight.check_runs(both, tune=Tune(model="global"))


def test_a_sampler_that_is_not_installed_is_named_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    found = study(tune={"sampler": "tpe"})
    with pytest.raises(InvalidConfig, match=r"tpe needs Optuna, which is not installed; run .*requirements-tpe\.txt"):
        preflight.check_runs(found.runs(), tune=found.tune)
    assert preflight.sampler_problems(Tune()) == preflight.sampler_problems(None) == []


def test_tpe_is_noted_to_end_the_shared_draws() -> None:
    (note,) = preflight.study_notes(study(tune={"sampler": "tpe"}))
    assert note.startswith("from trial 10 on, each method's settings depend on its own results, so methods share no")
