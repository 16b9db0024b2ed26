"""The sample counts of a federation, and its samples."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.config.schema import parse_experiment
from engine.core.errors import DataUnavailable
from engine.federation.clients import Samples, build
from engine.simulation.simulate import Simulation
from tests.support.builders import federation
from tests.support.tiny_runs import TINY, tiny_config


def test_class_counts_only_cover_training_samples():
    data = federation()
    for i, counts in enumerate(data.class_counts):
        assert counts.tolist() == torch.bincount(data.train.of_client(i)[1], minlength=3).tolist()


def test_selected_samples_keep_their_labels():
    train = federation((2, 3)).train
    assert train.selected(torch.tensor([4, 1]), torch.tensor([0, 0, 2])).relabeled is None
    poisoned = replace(train, relabeled=torch.tensor([5, 6, 7, 8, 9]))
    chosen = poisoned.selected(torch.tensor([1, 4, 2]), torch.tensor([0, 1, 3]))
    assert chosen.rows.tolist() == train.rows[[1, 4, 2]].tolist() and chosen.sizes.tolist() == [1, 2]
    assert chosen.of_client(0)[1].tolist() == [6] and chosen.of_client(1)[1].tolist() == [9, 7]


def test_the_data_seed_draws_the_split_and_the_seed_everything_else() -> None:
    partition = {"name": "dirichlet", "num_clients": 4, "alpha": 1.0, "holdout_clients": 0.25, "test_fraction": 0.25}
    raw = TINY | {"partition": partition, "splits": [5, 6], "seeds": [5, 9]}
    tasks = {(run.split, run.seed): Simulation(run).task for run in parse_experiment(raw).runs()}
    alone = Simulation(tiny_config(partition=partition, seeds=[5])).task
    rows = {draw: task.data.train.rows.tolist() for draw, task in tasks.items()}
    assert rows[5, 5] == rows[5, 9] == alone.data.train.rows.tolist() != rows[6, 5]
    assert tasks[5, 9].data.unseen.summary == alone.data.unseen.summary
    start = {draw: task.initial_model()["head.weight"].sum().item() for draw, task in tasks.items()}
    assert start[5, 5] == start[6, 5] == alone.initial_model()["head.weight"].sum().item() != start[5, 9]
    assert tasks[5, 9].participants(1) == tasks[6, 9].participants(1)


def test_a_data_set_is_read_again_by_the_same_process_only_if_its_file_was_replaced(tmp_path) -> None:
    run = tiny_config(dataset="usps", partition={"name": "iid", "num_clients": 2})

    def put(num_samples: int) -> None:
        x, y = np.zeros((num_samples, 16, 16), np.uint8), np.arange(num_samples) % 10
        (tmp_path / "usps").mkdir(exist_ok=True)
        np.savez(tmp_path / "usps" / "usps.npz", x_train=x, y_train=y, x_test=x, y_test=y)

    def read() -> Samples:
        return build(run, tmp_path, torch.device("cpu")).train.pool

    put(40)
    before = read()
    assert len(before.y) == 80 and read() is before
    put(50)
    assert len(read().y) == 100


def own_data(folder, x, dtype: str):
    np.savez(folder / "own.npz", x=x, y=np.arange(len(x)) % 2)
    partition = {"name": "iid", "num_clients": 2}
    training = TINY["training"] | {"dtype": dtype}
    return tiny_config(
        dataset={"name": "custom", "path": str(folder / "own.npz")}, partition=partition, training=training
    )


def test_features_beyond_single_precision_are_refused_unless_a_run_is_in_double_precision(tmp_path) -> None:
    x = np.arange(40.0).reshape(20, 2)
    x[3, 1], x[7, 0] = -1e39, 1e300
    words = r"x\[3, 1\] is -1e\+39 \(2 values of x are beyond ±3.4e\+38.*scale the data, or use training.dtype: float64"
    with pytest.raises(DataUnavailable, match=words):
        Simulation(own_data(tmp_path, x, "float32"))
    assert Simulation(own_data(tmp_path, x, "float64")).task.data.train.pool.x.abs().max() == 1e300
    single = np.finfo(np.float32).max
    train = Simulation(own_data(tmp_path, x.clip(-single, single), "float32")).task.data.train
    assert train.pool.x.dtype == torch.float32 and train.pool.x.isfinite().all()
