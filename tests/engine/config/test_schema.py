"""A configuration reports all mistakes at once, and expands into runs."""

from typing import Any

import pytest

from engine.config.alike import without_seeds
from engine.config.files import load_config, parse_value, set_value
from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import InvalidConfig


def experiment(**changed):
    raw = {
        "name": "trade-off",
        "dataset": {"name": "digits"},
        "partition": {"name": "iid", "num_clients": 4},
        "model": {"name": "mlr"},
        "training": {"rounds": 3, "local_steps": 2, "lr": 0.05},
        "algorithms": [{"name": "fedavg"}],
        "seeds": [0, 1],
    }
    return {**raw, **changed}


def problems(changed: dict | None = None, **more) -> tuple[str, ...]:
    with pytest.raises(InvalidConfig) as caught:
        parse_experiment(experiment() | (changed or {}) | more)
    return caught.value.problems


def test_an_experiment_has_a_run_per_algorithm_and_seed():
    runs = parse_experiment(experiment(algorithms=["fedavg", {"name": "ditto", "lam": 2}])).runs()
    assert [(r.label, r.seed) for r in runs] == [("fedavg", 0), ("fedavg", 1), ("ditto", 0), ("ditto", 1)]


def test_a_sweep_has_a_run_per_combination_named_by_its_values():
    entry = {"name": "fedprox", "sweep": {"mu": [0.0, 0.1], "training.lr": [0.01, 0.1]}}
    runs = parse_experiment(experiment(algorithms=[entry], seeds=[0])).runs()
    assert [r.label for r in runs] == [
        "fedprox mu=0 lr=0.01",
        "fedprox mu=0 lr=0.1",
        "fedprox mu=0.1 lr=0.01",
        "fedprox mu=0.1 lr=0.1",
    ]
    assert [(r.hparams["mu"], r.training.lr) for r in runs] == [(0, 0.01), (0, 0.1), (0.1, 0.01), (0.1, 0.1)]


def test_an_entry_may_override_training_options():
    entries = ["fedavg", {"name": "fedavg", "label": "by epochs", "training": {"local_epochs": 2}}]
    first, second = (r.training for r in parse_experiment(experiment(algorithms=entries, seeds=[0])).runs())
    assert (first.local_steps, first.local_epochs) == (2, None)
    assert (second.local_steps, second.local_epochs) == (None, 2)


def test_hyper_parameters_default_to_training_options():
    run = parse_experiment(experiment(algorithms=["ditto"])).runs()[0]
    assert run.hparams == {"lam": 1.0, "personal_steps": 2, "personal_lr": 0.05}


def test_a_run_survives_serialization():
    for run in parse_experiment(experiment(algorithms=["cgpfl_heur", {"name": "ditto", "label": "D 1"}])).runs():
        again = RunConfig.from_dict(run.to_dict())
        assert again == run and again.digest == run.digest


def test_the_digest_covers_everything_that_affects_results():
    digests = {
        parse_experiment(experiment(**c)).runs()[0].digest
        for c in (
            {},
            {"name": "other"},
            {"threads": 1},
            {"cuda_graphs": True},
            {"seeds_together": 8},
            {"algorithms": [{"name": "fedavg", "label": "x"}]},
        )
    }
    assert len(digests) == 1
    assert parse_experiment(experiment(seeds=[5])).runs()[0].digest not in digests


def test_runs_that_differ_in_seeds_alone_may_be_trained_together() -> None:
    runs = parse_experiment(experiment(seeds=[0, 1], splits=[4, 5])).runs()
    (other,) = parse_experiment(experiment(seeds=[0], model="dnn")).runs()
    first, *same = (without_seeds(run.to_dict()) for run in runs)
    assert all(config == first for config in same)
    assert without_seeds(other.to_dict()) != first


def test_ten_local_steps_are_the_default():
    assert parse_experiment(experiment(training={"rounds": 1})).runs()[0].training.local_steps == 10


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"colour": 1}, ["colour", "unknown key", "known: name"]),
        ({"training": {"batchsize": 8}}, ["training.batchsize", "did you mean 'batch_size'"]),
        ({"training": {"lr": -1}}, ["training.lr", "-1", "greater than 0"]),
        ({"training": {"batch_size": "half"}}, ["training.batch_size", "'half'", "full"]),
        ({"training": {"local_steps": 1, "local_epochs": 1}}, ["mutually exclusive"]),
        (
            {"training": {"rounds": True}, "threads": True},
            ["training.rounds: True: should be a number", "threads: True"],
        ),
        ({"training": {"participation": 0}}, ["training.participation", "greater than 0"]),
        ({"training": {"dtype": "float16"}}, ["training.dtype", "float32"]),
        ({"algorithms": [{"name": "fedawg"}]}, ["fedawg", "did you mean 'fedavg'"]),
        ({"algorithms": []}, ["algorithms", "at least one"]),
        ({"algorithms": [{"name": "ditto", "lambda": 1}]}, ["algorithms.0.lambda", "lam"]),
        ({"algorithms": ["fedavg", "fedavg"]}, ["'fedavg' is used twice", "label"]),
        ({"algorithms": [{"name": "ditto", "sweep": {"lam": [0, 1, 0.0]}}]}, ["sweep.lam: 0 is listed twice"]),
        ({"algorithms": [{"name": "ditto", "sweep": {"lam": 3}}]}, ["sweep.lam", "list"]),
        ({"dataset": {"name": "digit"}}, ["did you mean 'digits'"]),
        ({"dataset": None}, ["dataset", "name"]),
        ({"partition": {"name": "iid", "num_clients": 0}}, ["partition.num_clients", "0"]),
        ({"model": {"name": "dnn", "hidden": 0}}, ["model.hidden"]),
        ({"seeds": [1, 1]}, ["seeds", "distinct"]),
        ({"seeds": [-1]}, ["seeds"]),
        ({"seeds": [2**32]}, ["seeds", "4294967295"]),
        ({1: 2}, ["1: 2", "unknown key"]),
        ({"rounds": 5}, ["rounds: 5, unknown key; did you mean training.rounds?"]),
        ({"algorithms": [{"name": "local_train", "lr": 1}]}, ["did you mean training.lr?; there are none here"]),
        ({"training": {1: 2}}, ["training.1: 2", "unknown key"]),
        ({"algorithms": [{"name": "ditto", "sweep": {1: [2]}}]}, ["algorithms.0.1", "unknown key"]),
        ({"evaluation": {"every": 0}}, ["evaluation.every"]),
        (
            {"algorithms": [{"name": "ditto", "sweep": {"lam": [*range(101)], "batch": [*range(100)]}}]},
            ["10000"],
        ),
        ({"seeds": list(range(10_001))}, ["10000 runs"]),
        ({"dataset": {"name": "synthetic", "num_clients": 10**6, "dim": 10**6}}, ["lower one of them"]),
        ({"device": "tpu"}, ["device", "cuda"]),
        ({"name": ""}, ["name"]),
    ],
)
def test_a_mistake_is_reported_with_its_field_and_a_fix(changed, words):
    text = "\n".join(problems(changed))
    assert all(word in text for word in words), text


def test_all_mistakes_are_reported_at_once():
    assert len(problems(training={"lr": -1}, dataset={"name": "nothing"}, seeds=[], color=3)) == 4


def test_values_are_set_by_path():
    raw = set_value(experiment(), "training.rounds", 7)
    assert raw["training"]["rounds"] == 7 and experiment()["training"]["rounds"] == 3
    raw = set_value(raw, "algorithms.0.finetune_steps", 3)
    assert raw["algorithms"] == [{"name": "fedavg", "finetune_steps": 3}]
    assert set_value({"dataset": "digits"}, "dataset.standardize", True)["dataset"]["name"] == "digits"
    assert set_value({"algorithms": ["ditto"]}, "algorithms.0.lam", 2)["algorithms"] == [{"name": "ditto", "lam": 2}]
    with pytest.raises(InvalidConfig, match="no key can be set"):
        set_value(raw, "seeds.0.x", 1)
    with pytest.raises(InvalidConfig, match="use an item from 0 to 0"):
        set_value(raw, "algorithms.4.lam", 1)


def test_a_date_is_read_as_text():
    assert parse_value("2024-13-45") == "2024-13-45" and parse_value("2024-01-01") == "2024-01-01"


def test_values_are_yaml_with_exponents_in_numbers():
    assert [parse_value(t) for t in ("1e-3", "[1, 2]", "full", "true", "0.5")] == [0.001, [1, 2], "full", True, 0.5]


def test_a_file_without_a_mapping_is_refused(tmp_path):
    for text in ("- 1\n", "{", "just words", "[" * 5000):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        with pytest.raises(InvalidConfig, match=r"c\.yaml"):
            load_config(path)
    with pytest.raises(InvalidConfig, match="cannot be read"):
        load_config(tmp_path / "absent.yaml")


def test_every_mistake_in_a_run_is_named() -> None:
    run = parse_experiment(experiment(algorithms=["ditto"])).runs()[0].to_dict()
    wrong = {"algorithm": {"name": "ditto", "lamb": 2}, "training": {"lr": -1}, "seed": -1, "label": "", "rounds": 5}
    with pytest.raises(InvalidConfig) as refused:
        RunConfig.from_dict(run | wrong)
    message = str(refused.value)
    assert all(
        problem in message for problem in ("rounds: 5, unknown key", "algorithm.lamb", "training.lr", "seed", "label")
    )


@pytest.mark.parametrize("key", ["seed", "data_seed"])
@pytest.mark.parametrize("wrong", [[4, 5], [4], "x", -1, 2**32, 1.0, True])
def test_a_run_has_one_seed(key: str, wrong: object) -> None:
    document = parse_experiment(experiment(splits=[7])).runs()[0].to_dict()
    with pytest.raises(InvalidConfig) as caught:
        RunConfig.from_dict(document | {key: wrong})
    assert caught.value.problems == (f"{key}: {wrong!r}, must be one whole number from 0 to 4294967295",)


def test_every_split_is_run_with_all_seeds() -> None:
    runs = parse_experiment(experiment(splits=[5, 6], seeds=[0, 1])).runs()
    assert [(r.data_seed, r.split, r.seed) for r in runs] == [(5, 5, 0), (5, 5, 1), (6, 6, 0), (6, 6, 1)]
    for run in runs:
        assert RunConfig.from_dict(run.to_dict()) == run
        assert [again.digest for again in parse_experiment(run.as_experiment()).runs()] == [run.digest]


def test_without_splits_a_run_is_stored_as_before() -> None:
    (run,) = parse_experiment(experiment(seeds=[3])).runs()
    assert "data_seed" not in run.to_dict() and run.split == 3
    assert run.digest == "f712ab13bc7147569005e1cbfd7f8cc1c964e1f00065c3f4fd9e67eb297eee13"


@pytest.mark.parametrize(("option", "default", "other"), [("cuda_graphs", False, True), ("seeds_together", 1, 16)])
def test_a_run_without_a_newer_machine_option_is_stored_as_before(option: str, default: Any, other: Any) -> None:
    (off,) = parse_experiment(experiment(seeds=[3], **{option: default})).runs()
    (on,) = parse_experiment(experiment(seeds=[3], **{option: other})).runs()
    assert option not in off.to_dict() and on.to_dict()[option] == other
    assert RunConfig.from_dict(on.to_dict()) == on and RunConfig.from_dict(off.to_dict()) == off


def test_a_split_with_the_number_of_the_seed_is_the_same_run() -> None:
    (plain,) = parse_experiment(experiment(seeds=[3])).runs()
    same, other = parse_experiment(experiment(seeds=[3], splits=[3, 4])).runs()
    assert same.digest == plain.digest != other.digest


def test_bad_splits_are_reported_by_their_name() -> None:
    assert problems(splits=[1, 1])[0].startswith("splits: [1, 1], must be a list of distinct whole numbers")
    assert "10000 runs" in problems(splits=list(range(200)), seeds=list(range(60)))[0]


def test_an_entry_without_a_name_changes_single_options_of_a_dial():
    entries = [
        {"name": "fedavg", "attack": {"share": 0.5}},
        {"name": "ditto", "attack": {"name": "gaussian"}},
        {"name": "apfl", "attack": None},
        {"name": "fedprox", "sweep": {"attack.scale": [1, 2], "system.drop_out": [0.5]}},
    ]
    shared = {"attack": {"name": "sign_flip", "share": 0.1}, "system": {"compute_s": 1.0}}
    runs = parse_experiment(experiment(algorithms=entries, seeds=[0], **shared)).runs()
    attacks = [run.attack and (run.attack.name, *run.attack.options.model_dump().values()) for run in runs]
    assert attacks == [
        ("sign_flip", 0.5, 1.0),
        ("gaussian", 0.2, 1.0),
        None,
        ("sign_flip", 0.1, 1.0),
        ("sign_flip", 0.1, 2.0),
    ]
    assert [(run.system.compute_s, run.system.drop_out) for run in runs] == [(1.0, 0.0)] * 3 + [(1.0, 0.5)] * 2
    assert [run.label for run in runs][3:] == [f"fedprox attack.scale={s} drop_out=0.5" for s in (1, 2)]


def test_a_dial_of_an_entry_needs_a_name_where_the_experiment_has_none():
    (problem,) = problems(algorithms=[{"name": "fedavg", "attack": {"share": 0.5}}])
    assert problem.startswith("algorithms.0.attack: {'share': 0.5}, must be a mapping with a `name`")
    named = parse_experiment(experiment(algorithms=[{"name": "fedavg", "aggregator": {"f": 1}}], aggregator="krum"))
    assert named.runs()[0].aggregator.to_dict() == {"name": "krum", "f": 1}
