"""An experiment with ``tune`` expands into trials and final runs; what cannot be a fair study is refused."""

from math import isclose, log
from typing import Any

import pytest

from engine.config.sampler import MAX_TRIALS
from engine.config.schema import RunConfig, parse_experiment
from engine.config.study import Study, spaces_of
from engine.config.tune import StudyRun, Tune
from engine.core.errors import InvalidConfig
from engine.core.registry import ALGORITHMS

STUDY: dict[str, Any] = {
    "name": "s",
    "dataset": "digits",
    "partition": {"name": "iid", "num_clients": 8, "val_fraction": 0.25},
    "model": "mlr",
    "training": {"rounds": 6, "local_steps": 2},
    "algorithms": ["fedavg", "ditto"],
    "splits": [4, 7],
    "seeds": [0, 1, 2],
    "tune": {"trials": 4},
}


def study(**changes: Any) -> Study:
    return Study(parse_experiment(STUDY | changes))


def problems(**changes: Any) -> str:
    with pytest.raises(InvalidConfig) as caught:
        parse_experiment(STUDY | changes)
    return "\n".join(caught.value.problems)


def test_every_method_has_the_same_number_of_trials_on_every_split() -> None:
    runs = study().config.runs()
    assert len(runs) == 2 * 2 * 4
    assert {(r.study.role, r.evaluation.on, r.seed) for r in runs} == {("trial", "val", 1000)}
    assert [r.label for r in runs[:5]] == [*(f"fedavg trial {k}" for k in range(4)), "fedavg trial 0"]
    assert {r.data_seed for r in runs} == {4, 7}


def test_trial_0_has_the_defaults_and_trials_of_a_split_share_their_learning_rates() -> None:
    s = study()
    assert s.setting("ditto", 4, 0) == {}
    for trial in (1, 2, 3):
        (fedavg,), (ditto,) = (s.trials(entry, 4, trial) for entry in ("fedavg", "ditto"))
        assert fedavg.training.lr == ditto.training.lr == s.setting("ditto", 4, trial)["training.lr"]
        assert ditto.hparams["lam"] == s.setting("ditto", 4, trial)["lam"] != 1.0
        assert ditto.hparams["personal_lr"] == ditto.training.lr
    assert s.setting("ditto", 4, 1) != s.setting("ditto", 7, 1)


def test_final_runs_are_choice_and_defaults_with_fresh_seeds_and_test_data() -> None:
    s = study()
    finals = list(s.finals({("fedavg", 4): 0, ("fedavg", 7): 2, ("ditto", 4): 3, ("ditto", 7): 1}))
    assert [(r.label, r.split, r.study.trial) for r in finals if r.seed == 1] == [
        ("fedavg", 4, 0),
        ("fedavg defaults", 7, 0),
        ("fedavg", 7, 2),
        ("ditto defaults", 4, 0),
        ("ditto", 4, 3),
        ("ditto defaults", 7, 0),
        ("ditto", 7, 1),
    ]
    assert {(r.evaluation.on, r.study.role) for r in finals} == {("both", "final")}
    (trial,) = s.trials("ditto", 4, 3)
    final = next(r for r in finals if r.label == "ditto" and r.split == 4)
    assert (final.algorithm, final.training) == (trial.algorithm, trial.training)


def test_a_final_run_of_the_defaults_is_the_run_of_the_plain_experiment() -> None:
    plain = parse_experiment({k: v for k, v in STUDY.items() if k != "tune"}).runs()
    finals = study().finals(dict.fromkeys(study().tuned, 0))
    assert [r.digest for r in finals] == [r.digest for r in plain]


@pytest.mark.parametrize("tune", [{"trials": 4}, {"gradients": 1e6, "seeds": [5, 6]}, {"trials": 2, "per": "first"}])
def test_every_run_has_a_position_of_its_own(tune: dict[str, Any]) -> None:
    s = study(tune=tune)
    runs = [r for chosen in (0, 1) for r in s.finals(dict.fromkeys(s.tuned, chosen))]
    runs += [
        r for entry, split in s.tuned for trial in range(min(s.max_trials, 5)) for r in s.trials(entry, split, trial)
    ]
    places = {s.position(r): (r.study, r.seed) for r in runs}
    assert len(places) == len({(r.study, r.seed) for r in runs})
    assert max(places) < s.num_positions and min(places) == 0
    order = [s.position(r) for r in s.config.runs()]
    assert order == sorted(order) and order[0] > max(s.position(r) for r in runs if r.study.role == "final")


def test_shorter_trials_and_several_seeds() -> None:
    runs = study(tune={"trials": 1, "rounds": 3, "seeds": [5, 6]}).config.runs()
    assert [(r.seed, r.training.rounds) for r in runs[:2]] == [(5, 3), (6, 3)]
    assert Tune(seeds=7).seeds == (7,)


def test_the_first_split_may_choose_for_all() -> None:
    s = study(tune={"trials": 3, "per": "first"})
    assert s.tuned == (("fedavg", 4), ("ditto", 4))
    on_seven = [r for r in s.finals({("fedavg", 4): 1, ("ditto", 4): 2}) if r.label == "ditto" and r.split == 7]
    assert on_seven[0].hparams["lam"] == s.setting("ditto", 4, 2)["lam"]


def test_a_budget_of_gradients_starts_with_two_trials() -> None:
    assert len(study(tune={"gradients": 1e6}).config.runs()) == 2 * 2 * 2


def test_failing_trials_that_compute_no_gradients_spend_a_budget_of_gradients_after_ten() -> None:
    s = study(tune={"gradients": 1e6})
    assert not s.is_spent(9, 0) and s.is_spent(10, 0)
    assert not s.is_spent(10, 9e5) and s.is_spent(2, 1e6)


def test_a_study_that_would_draw_a_refused_setting_later_is_refused_before_it_starts() -> None:
    fedamp = {"name": "fedamp", "tune": {"variant": ["heur", "amp"], "sigma": [0, 10]}}
    for tune in ({"gradients": 1e6}, TPE):
        assert "change its search spaces" in problems(algorithms=["fedavg", fedamp], tune=tune, splits=[0])
        assert study(algorithms=[{"name": "ditto", "tune": {"lam": [0.1, 1, "log"]}}], tune=tune)


def test_what_an_entry_sets_is_not_tuned() -> None:
    entries = [{"name": "ditto", "lam": 2, "label": "a"}, {"name": "ditto", "training": {"lr": 0.1}, "label": "b"}]
    entries += [{"name": "ditto", "tune": {}, "label": "c"}]
    entries += [{"name": "fedper", "tune": {"training.lr": [0.01, 0.3, "log"], "training.momentum": [0.0, 0.9]}}]
    s = study(algorithms=entries)
    assert {name: list(s.spaces(name)) for name in s.entries} == {
        "a": ["training.lr"],
        "b": ["lam"],
        "c": [],
        "fedper": ["training.lr", "training.momentum"],
    }
    assert s.spaces("fedper")["training.lr"].low == 0.01
    assert {s.setting("fedper", 4, k)["training.momentum"] for k in (1, 2, 3)} == {0.0, 0.9}


def test_methods_that_train_by_moreau_envelopes_draw_the_product_of_rate_and_pull() -> None:
    s = study(algorithms=["pfedme", {"name": "pfedme", "lam": 12, "label": "fixed"}, "ditto"])
    ditto, drawn, fixed = (s.setting(entry, 4, 2) for entry in ("ditto", "pfedme", "fixed"))
    product = 0.01 * 100 ** (s_log(ditto["training.lr"], 0.001, 0.5))
    assert isclose(drawn["training.lr"] * drawn["lam"], product) and isclose(fixed["training.lr"] * 12, product)
    own = study(algorithms=[{"name": "pfedme", "tune": {"training.lr": [0.01, 0.02, "log"]}}])
    assert 0.01 <= own.setting("pfedme", 4, 2)["training.lr"] <= 0.02


def s_log(value: float, low: float, high: float) -> float:
    """u of a value on a logarithmic scale."""
    return log(value / low) / log(high / low)


def test_a_distance_threshold_leaves_no_number_of_clusters_to_tune() -> None:
    threshold = {"name": "fl_hc", "distance_threshold": 2.0}
    for entry in (threshold, threshold | {"tune": {"training.lr": [0.01, 0.3, "log"]}}):
        s = study(algorithms=[entry])
        assert list(s.spaces("fl_hc")) == ["training.lr", "at_round"]
    assert s.trials("fl_hc", 4, 1)[0].algorithm.options.n_clusters is None


def test_bounds_that_depend_on_the_run_become_numbers() -> None:
    s = study(algorithms=["cgpfl", "cfl", "plgu_lf"], model="dnn", tune={"trials": 2, "rounds": 4})
    assert s.spaces("cgpfl")["K"].ends == (2, 4)
    assert s.spaces("cfl")["warmup"].ends == (1, 2)
    assert s.spaces("plgu_lf")["D"].ends == (0, 1)


def test_a_space_whose_low_end_becomes_0_is_a_mistake() -> None:
    entry = {"name": "fedala", "tune": {"layers": ["clients/4", "clients", "intlog"]}}
    few = STUDY["partition"] | {"num_clients": 3}
    assert problems(algorithms=[entry], partition=few) == (
        "fedala: tune.layers: clients/4 to clients (intlog): its low end is 0 in this run, and must be above 0 on a "
        "logarithmic scale; use lin or int"
    )


def test_every_method_can_be_tuned() -> None:
    s = study(algorithms=list(ALGORITHMS.names()), model="dnn", splits=[0], seeds=[0])
    assert len(s.config.runs()) == 4 * len(ALGORITHMS.names())
    assert all("training.lr" in spaces_of(entry) for entry in s.entries.values())


def test_the_place_in_a_study_is_stored_and_does_not_change_the_digest() -> None:
    run = study().config.runs()[5]
    assert RunConfig.from_dict(run.to_dict()) == run
    assert run.study == StudyRun("trial", "fedavg", 7, 1) and run.to_dict()["study"]["trial"] == 1
    without = {k: v for k, v in run.to_dict().items() if k != "study"}
    assert RunConfig.from_dict(without).digest == run.digest
    with pytest.raises(InvalidConfig, match=r"study: .* role must be trial or final"):
        RunConfig.from_dict(without | {"study": {"role": "x", "entry": "a", "split": 0, "trial": 0}})


def test_a_run_of_a_document_is_found_by_its_place() -> None:
    s = study()
    for run in (*s.config.runs(), *s.finals(dict.fromkeys(s.tuned, 2))):
        assert s.found(run.study, run.seed, run.label) == run
    study_run = StudyRun("final", "ditto", 4, 2)
    for study_run, seed, label in (
        (StudyRun("final", "ditto", 4, 2), 1000, "ditto"),
        (StudyRun("final", "other", 4, 2), 0, "other"),
        (StudyRun("final", "ditto", 5, 2), 0, "ditto"),
        (StudyRun("final", "ditto", 4, 4), 0, "ditto"),
        (StudyRun("trial", "ditto", 4, 2), 1000, "ditto"),
    ):
        with pytest.raises(ValueError, match=r"is not a run|has trial 4|has the label"):
            s.found(study_run, seed, label)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"partition": {"name": "iid"}}, "there is none; set partition.val_fraction, for instance 0.2"),
        ({"splits": None}, "splits: not set"),
        ({"tune": {"seeds": [2, 9]}}, "tune.seeds: [2], trials and final runs would share a seed"),
        ({"tune": {"seeds": []}}, "tune.seeds"),
        ({"tune": {"trials": 513}}, "tune.trials: 513"),
        ({"tune": {"sampler": "grid"}}, "tune.sampler: 'grid'"),
        ({"tune": {"sampler": "tpe", "trials": 10}}, "tune.trials: 10, but tpe draws the first 10 as sobol does"),
        ({"tune": {"trails": 5}}, "did you mean 'trials'"),
        ({"tune": {"rounds": 7}}, "tune.rounds: 7, must be at most the 6 rounds of fedavg"),
        ({"tune": {"trials": 512, "seeds": list(range(1000, 1010))}}, "at most 10,000 are allowed"),
        ({"evaluation": {"on": "val"}}, "final runs of tune need test data"),
        (
            {"algorithms": ["fedavg", {"name": "ditto", "label": "fedavg defaults"}]},
            "'fedavg defaults' is reserved",
        ),
        (
            {"algorithms": [{"name": "ditto", "sweep": {"lam": [1]}, "tune": {}}]},
            "sweep and tune are mutually exclusive",
        ),
        ({"algorithms": [{"name": "ditto", "tune": {"lam": [-1, 1, "lin"]}}]}, "tune.lam: -1 to 1 (lin): -1"),
        ({"algorithms": [{"name": "ditto", "tune": {"lamb": [1, 2, "lin"]}}]}, "did you mean 'lam'"),
        ({"algorithms": [{"name": "ditto", "tune": {"lam": [2, 1, "lin"]}}]}, "must be below its high end"),
        ({"algorithms": [{"name": "ditto", "lam": 1, "tune": {"lam": [1, 2, "lin"]}}]}, "is also set by the entry"),
        ({"algorithms": [{"name": "fedavg", "tune": {"training.rounds": [1, 2]}}]}, "tune.training.rounds"),
        ({"algorithms": [{"name": "fedavg", "tune": {"training.lr": [0.1, "high"]}}]}, "'high'"),
        ({"partition": {"name": "natural", "val_fraction": 0.2}, "algorithms": ["cgpfl"]}, "number of clients is not"),
        ({"tune": None, "algorithms": [{"name": "ditto", "tune": {}}]}, "no effect without tune at the top level"),
    ],
)
def test_an_unfair_or_impossible_study_is_refused(changed: dict[str, Any], words: str) -> None:
    assert words in problems(**changed)


def test_a_range_that_depends_on_the_layers_is_known_for_models_of_characters() -> None:
    assert study(model="char_lstm", algorithms=["plgu_lf"]).spaces("plgu_lf")["D"].ends == (0, 3)
    assert study(model="char_transformer", algorithms=["plgu_lf"]).spaces("plgu_lf")["D"].ends == (0, 10)


def test_a_range_that_depends_on_an_unknown_size_may_be_replaced_by_the_one_that_the_message_names() -> None:
    natural = {"name": "natural", "val_fraction": 0.2}
    for method, parameter in (("cgpfl", "K"), ("fl_hc", "n_clusters")):
        message = problems(partition=natural, algorithms=[method])
        assert message.endswith("give numbers, as in [2, 10, intlog]")
        entry = {"name": method, "tune": {parameter: [2, 10, "intlog"]}}
        assert study(partition=natural, algorithms=[entry]).spaces(method)[parameter].ends == (2, 10)


def test_the_plan_counts_all_runs_of_a_study() -> None:
    s = study()
    planned = list(s.planned())
    assert [(run.label, count) for run, count in planned[:2]] == [("fedavg trial 0", 2 * 4), ("fedavg", 2 * 2 * 3)]
    most = len(s.config.runs()) + len(list(s.finals(dict.fromkeys(s.tuned, 1))))
    assert sum(count for _, count in planned) == most
    assert sum(count for _, count in study(tune={"trials": 1}).planned()) == 2 * 2 * (1 + 3)


TPE = {"sampler": "tpe", "trials": 12}


def test_the_first_trials_of_tpe_are_those_of_sobol_and_the_others_are_not_queued_yet() -> None:
    s, sobol = study(tune=TPE), study(tune={"trials": 12})
    assert [s.setting("ditto", 4, k) for k in range(10)] == [sobol.setting("ditto", 4, k) for k in range(10)]
    assert [r.study.trial for r in s.config.runs()][:11] == [*range(10), 0]
    (_, trials), *_ = s.planned()
    assert trials == 12 * len(s.splits)
    assert [s.is_spent(count, 0.0) for count in (10, 11, 12)] == [False, False, True]


def test_a_point_that_depended_on_results_gives_the_settings_of_its_trial_and_final_runs() -> None:
    s, point = study(tune=TPE), (0.5, 0.25)
    (trial,) = s.trials("ditto", 4, 11, point)
    assert isclose(trial.training.lr, 0.001 * 500**0.5) and isclose(trial.hparams["lam"], 0.01 * 1000**0.25)
    chosen = dict.fromkeys(s.tuned, 0) | {("ditto", 4): 11}
    final = next(r for r in s.finals(chosen, {("ditto", 4): point}) if r.study.trial == 11)
    assert (final.algorithm, final.training, final.study.point) == (trial.algorithm, trial.training, point)
    assert final.to_dict()["study"]["point"] == [0.5, 0.25]
    assert RunConfig.from_dict(final.to_dict()) == final
    with pytest.raises(InvalidConfig, match="trial 11 of ditto on split 4 has no point; restore this trial"):
        list(s.finals(chosen))


def test_a_run_without_such_a_point_is_stored_as_before() -> None:
    assert set(study().config.runs()[1].to_dict()["study"]) == {"role", "entry", "split", "trial"}


@pytest.mark.parametrize(
    "point", [None, [], [1.0], [-0.1], [True], ["0.5"], [float("nan")], [float("inf")], [0.5] * 33, 0.5, {"0": 0.5}]
)
def test_what_is_no_point_is_refused(point: Any) -> None:
    with pytest.raises(ValueError, match="point must be a list of 1 to 32 numbers from 0, below 1"):
        StudyRun.from_dict({"role": "trial", "entry": "ditto", "split": 4, "trial": 11, "point": point})


@pytest.mark.parametrize(
    ("tune", "trial", "point"),
    [
        (TPE, 11, None),
        (TPE, 11, (0.5,)),
        (TPE, 11, (0.5, 0.5, 0.5)),
        (TPE, 9, (0.5, 0.5)),
        (TPE, 0, (0.5, 0.5)),
        ({"trials": 12}, 11, (0.5, 0.5)),
    ],
)
def test_a_document_has_points_where_the_sampler_draws_by_results_and_nowhere_else(
    tune: dict[str, Any], trial: int, point: Any
) -> None:
    s = study(tune=tune)
    assert study(tune=TPE).found(StudyRun("trial", "ditto", 4, 11, (0.5, 0.5)), 1000, "ditto trial 11")
    with pytest.raises(ValueError, match=r"has a point of \d numbers, must have \d"):
        s.found(StudyRun("trial", "ditto", 4, trial, point), 1000, f"ditto trial {trial}")


def test_the_defaults_have_a_point_where_drawing_it_gives_them_back() -> None:
    s = study(algorithms=["ditto", "fedprox_onestage", "pfedme", {"name": "fedavg", "tune": {}}], tune=TPE)
    lr, lam = s.point_of_defaults("ditto")
    assert isclose(lr, log(50) / log(500)) and isclose(lam, 2 / 3)
    assert s.point_of_defaults("fedprox_onestage") is None, "its default is a word"
    assert s.point_of_defaults("pfedme") is None, "its rate is a product of what is drawn"
    assert s.next_point("fedavg", 4, dict.fromkeys(range(10), 0.0), {}) is None, "nothing is tuned"


def test_a_budget_of_gradients_pays_for_as_many_trials_as_it_takes_to_spend_it() -> None:
    s = study(tune={"gradients": 1e6, "seeds": [5, 6]})
    assert [s.num_trials(gradients) for gradients in (None, 1e5, 1.2e5, 1e7, 1.0)] == [2, 5, 5, 2, MAX_TRIALS]
    (_, trials), *_ = s.planned(lambda run: 1e5 if run.label == "fedavg trial 0" else None)
    assert trials == 5 * 2 * len(s.splits)
