"""Clients that never train: who they are, what each method gives them, and where it is told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine import run as run_experiment
from engine.config import parse_experiment
from engine.datasets import Pool
from engine.errors import ImpossiblePartition, InvalidConfig
from engine.federation import lay_out
from engine.local import local_sgd
from engine.ops import broadcast, in_client_order
from engine.partitioners import Partition, hold_out, summarize
from engine.reading import read_export
from engine.registry import DATASETS, PARTITIONERS
from engine.simulate import Simulation
from engine.streams import numpy_stream
from engine.task import Task
from tests.support.builders import assert_close, assert_equal, beyond, federation, shared_model, simulation, trained
from tests.support.builders import with_newcomers as newcomers_too

DIGITS = {
    "name": "newcomers",
    "dataset": "digits",
    "partition": {"name": "classes_per_client", "num_clients": 10, "assignment": "cyclic", "holdout_clients": 0.3},
    "model": "mlr",
    "training": {"rounds": 2, "local_steps": 3},
    "algorithms": ["fedavg", {"name": "cgpfl", "K": 2}],
}


def pool_of(num_samples: int = 100) -> Pool:
    y = np.arange(num_samples, dtype=np.int64) % 10
    return Pool(np.arange(num_samples, dtype=np.float64)[:, None], y, 10)


def whole(num_clients: int = 10, **options: Any) -> Partition:
    entry = PARTITIONERS.get("classes_per_client")
    made = entry.make(entry.options(num_clients=num_clients, assignment="cyclic", min_samples=1, **options))
    return made.split(pool_of(), np.random.default_rng(0))


def held_out(share: float, seed: int = 0) -> Partition:
    return hold_out(whole(), share, numpy_stream(seed, "holdout"))


# Who is held out


def test_the_share_of_clients_is_held_out_and_the_others_move_up():
    partition, everyone = held_out(0.3), whole()
    assert len(partition.train) == 7 and len(partition.unseen.train) == 3
    assert sorted([*partition.clients, *partition.unseen.clients]) == list(range(10))
    for part in (partition, partition.unseen):
        for new, old in enumerate(part.clients):
            assert (part.train[new] == everyone.train[old]).all()
            assert (part.test[new] == everyone.test[old]).all()
            assert part.contexts[new] == everyone.contexts[old]


def test_who_is_held_out_depends_on_the_seed_alone():
    first, again, other = (held_out(0.3, seed).unseen.clients.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_without_a_share_nothing_changes():
    partition = held_out(0.0)
    assert partition.unseen is None and partition.clients is None and partition.notes == ()
    assert summarize(pool_of(), partition).unseen is None


def test_a_share_of_less_than_one_client_is_noted():
    assert "holdout_clients=0.04 of 10 clients is less than one" in held_out(0.04).notes[0]


def test_somebody_has_to_train():
    with pytest.raises(ImpossiblePartition, match=r"holdout_clients=0\.96 leaves none of 10 clients to train; lower"):
        held_out(0.96)


@pytest.mark.parametrize("entry", list(PARTITIONERS), ids=lambda entry: entry.name)
def test_every_partitioner_can_hold_clients_out(entry):
    assert "holdout_clients" in entry.options.model_fields


def test_the_truth_of_generated_data_goes_with_its_clients():
    data = DATASETS.get("synthetic")
    pool = data.make(data.options(num_clients=6, samples_per_client=20)).load(Path(), np.random.default_rng(0), None)
    natural = PARTITIONERS.get("natural")
    partition = natural.make(natural.options()).split(pool, np.random.default_rng(0))
    laid = lay_out(pool, hold_out(partition, 0.5, np.random.default_rng(1)), torch.float64, torch.device("cpu"))
    seen = sorted(set(range(6)) - set(laid.summary.unseen.clients))
    assert (laid.truth["weights"] == pool.truth["weights"][seen]).all()
    assert (laid.unseen.truth["weights"] == pool.truth["weights"][list(laid.summary.unseen.clients)]).all()


# What they are given


def unseen_models(run: Simulation) -> dict[str, torch.Tensor]:
    task = run.task.of_unseen()
    return dict(run.algorithm.adapted(run.state, task.everyone(stream="newcomers"), task).params)


def alone(run: Simulation, start: dict[str, torch.Tensor] | None = None, **changed: Any) -> dict[str, torch.Tensor]:
    """A newcomer's participation, done by hand: local SGD from ``start``, by default the common one."""
    task: Task = run.task.of_unseen()
    cohort = task.everyone(stream="newcomers")
    received = broadcast(start or task.initial_model(), cohort.size)
    return in_client_order(local_sgd(task, received, cohort, **changed).params, cohort.clients)


def test_training_does_not_notice_newcomers():
    with_them, without = (trained("fedavg", data) for data in (newcomers_too(), federation()))
    assert_equal(shared_model(with_them), shared_model(without))


def test_local_train_and_ditto_without_pull_train_newcomers_alone():
    for method in ("local_train", {"name": "ditto", "lam": 0.0}, {"name": "fedprox_onestage", "lam": 0.0}):
        run = trained(method, newcomers_too())
        assert_close(unseen_models(run), alone(run))


def test_fedavg_and_fedprox_lend_the_global_model():
    for method in ("fedavg", "fedprox"):
        run = trained(method, newcomers_too())
        assert_equal(unseen_models(run), shared_model(run))


def test_a_strong_pull_brings_the_newcomer_of_ditto_to_the_global_model():
    run = trained({"name": "ditto", "lam": 1e4, "personal_lr": 1e-4, "personal_steps": 30}, newcomers_too())
    assert_close(unseen_models(run), {n: p.expand(3, *p.shape) for n, p in shared_model(run).items()}, 1e-3)


def test_a_newcomer_of_cgpfl_joins_the_context_of_least_training_loss():
    """Two contexts, each fitted to one newcomer; theta stays where it starts, because the inner steps are tiny."""
    data = replace(federation(), unseen=federation((6, 9), seed=7))
    run = trained({"name": "cgpfl", "K": 2, "personal_lr": 1e-12}, data)
    fitted = alone(run)
    run.state = replace(run.state, contexts={n: p.flip(0) for n, p in fitted.items()})
    assert_close(unseen_models(run), fitted, 1e-9)


def test_the_first_steps_of_a_newcomers_longer_plan_are_its_own():
    """Extra steps come from the newcomers' stream, not from that of the clients that train."""
    run = simulation({"name": "ditto", "lam": 0.0, "personal_steps": 1}, newcomers_too())
    task = run.task.of_unseen()
    once = task.everyone(stream="newcomers", steps=1).plan
    assert torch.equal(task.same_batches(task.everyone(stream="newcomers"), 1).rows, once.rows)
    assert not torch.equal(once.rows, task.everyone(steps=1).plan.rows)


# Where it is told


def test_the_last_round_and_the_summary_tell_of_them():
    run = simulation("local_train", newcomers_too())
    *earlier, last = run.rounds()
    assert not any("unseen.accuracy" in r.arrays for r in earlier)
    assert last.arrays["unseen.accuracy"].shape == last.arrays["unseen.loss"].shape == (3,)
    assert run.summary()["unseen"]["mean"] == pytest.approx(last.arrays["unseen.accuracy"].mean())
    assert last.scalars["unseen.mean"] == run.summary()["unseen"]["mean"]


def test_without_them_nothing_tells_of_them():
    run = trained("local_train")
    assert "unseen" not in run.summary()


def test_newcomers_begin_at_the_learning_rate_of_the_first_round():
    losses = []
    for schedule in ("constant", "cosine"):
        *_, last = simulation("local_train", newcomers_too(), rounds=3, lr_schedule=schedule).rounds()
        losses.append(last.arrays["unseen.loss"].tolist())
    assert losses[0] == losses[1]


def test_a_diverged_run_does_not_adapt():
    run = beyond("local_train", newcomers_too(), training={"lr": 1e308}, rounds=50, local_steps=5)
    *_, last = run.rounds()
    assert last.diverged and "unseen.accuracy" not in last.arrays


@pytest.mark.parametrize(("method", "has_model"), [("fedavg", True), ("local_train", False)])
def test_a_method_without_a_rule_lends_its_global_model_or_says_so(method: str, has_model: bool):
    class OfAnotherHouse:
        """Everything that ``method`` has, but for ``adapted``."""

        def __init__(self, own: Any) -> None:
            for name in ("init", "round", "personalized", "global_model", "shared"):
                setattr(self, name, getattr(own, name))

    run = simulation(method, newcomers_too())
    run.algorithm = OfAnotherHouse(run.algorithm)
    *_, last = run.rounds()
    assert ("unseen.accuracy" in last.arrays) == has_model
    assert any("never took part" in note for note in run.task.notes) != has_model


def test_the_original_numbers_of_the_clients_are_in_the_partition(document: dict[str, Any]):
    unseen = document["runs"][0]["partition"]["unseen"]
    assert len(unseen["clients"]) == len(unseen["test_sizes"]) == 3
    assert unseen["contexts"] == unseen["clients"]  # ten clients, cyclic: a context of each
    assert len(document["runs"][0]["partition"]["test_sizes"]) == 7


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(run_experiment(DIGITS).to_json())


def test_an_export_tells_of_them_in_the_last_round_and_the_summary(document: dict[str, Any]):
    for run in document["runs"]:
        first, *_, last = run["rounds"]
        assert "unseen" not in first
        assert len(last["unseen"]["accuracy"]) == len(last["unseen"]["loss"]) == 3
        assert run["summary"]["unseen"]["mean"] == pytest.approx(np.mean(last["unseen"]["accuracy"]))


def test_an_export_is_read_back_with_them(document: dict[str, Any], tmp_path: Path):
    path = tmp_path / "out.json"
    path.write_text(json.dumps(document))
    for (_, outcome), run in zip(read_export(path)[0].runs, document["runs"], strict=True):
        assert outcome.rounds[-1].arrays["unseen.accuracy"].tolist() == run["rounds"][-1]["unseen"]["accuracy"]
        assert outcome.summary["unseen"] == run["summary"]["unseen"]
        assert outcome.partition["unseen"] == run["partition"]["unseen"]


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda run: run["partition"].pop("unseen"), "round 2: unseen, but the partition has no unseen clients"),
        (lambda run: run["rounds"][-1]["unseen"]["accuracy"].pop(), "unseen.accuracy has 2 values for 3 clients"),
        (lambda run: run["partition"]["unseen"]["test_sizes"].pop(), "one entry a client is needed everywhere"),
        (lambda run: run["partition"]["unseen"].pop("clients"), "partition.unseen.clients: Field required"),
        (lambda run: run["partition"]["unseen"]["clients"].pop(), "one entry a client is needed everywhere"),
    ],
)
def test_an_export_whose_unseen_clients_do_not_fit_is_refused(document, tmp_path: Path, break_it, words: str):
    broken = json.loads(json.dumps(document))
    break_it(broken["runs"][0])
    path = tmp_path / "out.json"
    path.write_text(json.dumps(broken))
    with pytest.raises(InvalidConfig, match=words):
        read_export(path)


def test_a_checkpoint_of_the_last_round_keeps_their_summary():
    config = parse_experiment(DIGITS | {"algorithms": ["local_train"]}).runs()[0]
    run, again = Simulation(config), Simulation(config)
    for _ in run.rounds():
        pass
    again.restore(run.checkpoint())
    assert again.summary()["unseen"] == run.summary()["unseen"]
