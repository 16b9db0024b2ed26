"""Each personalized model on its own client and on the others, against a direct evaluation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.analyses import AnalysisOptions, trade_off
from engine.analyses.support.loaded_run import Subject
from engine.analyses.trade_off import TradeOff
from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import Unsupported
from engine.simulation.simulate import Simulation
from tests.support.tiny_runs import trained


def finished(**changes: object) -> Subject:
    config: RunConfig = parse_experiment(
        {
            "dataset": {"name": "contexts", "num_clients": 4, "samples_per_client": 30},
            "model": "mlr",
            "partition": "natural",
            "training": {"rounds": 2, "local_steps": 3},
            "algorithms": ["ditto"],
            "seeds": [0],
            **changes,
        }
    ).runs()[0]
    return trained(config)[0]


@pytest.mark.parametrize("method", ["ditto", "fedavg"])
def test_others_are_the_pooled_samples_of_all_other_clients(method: str) -> None:
    uneven = {"name": "classes_per_client", "num_clients": 4, "classes_per_client": 3, "sizes": [10, 120]}
    subject = finished(dataset="digits", partition=uneven, algorithms=[method])
    found = TradeOff(AnalysisOptions()).compute(subject).arrays
    test, models = subject.task.data.test, subject.personalized
    for i in range(4):
        hits = []
        for j in range(4):
            x, y = test.of_client(j)
            hits.append((subject.task.model.logits(models.of_client(i), x).argmax(-1) == y).double())
        assert found["own"][i] == pytest.approx(float(hits[i].mean()))
        assert found["others"][i] == pytest.approx(float(torch.cat(hits[:i] + hits[i + 1 :]).mean()))


def test_the_others_of_a_client_do_not_contain_it_or_clients_without_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracy = np.array([0.5, np.nan, 1.0, np.nan])  # client 1 has samples with a loss that is not finite
    sizes = torch.tensor([4, 2, 6, 0])
    subject = finished(algorithms=["fedavg"])
    calls: list[int] = []

    def sums(values: np.ndarray) -> np.ndarray:
        calls.append(len(values))
        return sums_of_others(values)

    sums_of_others = trade_off._sums_of_others
    monkeypatch.setattr(trade_off, "_sums_of_others", sums)
    monkeypatch.setattr(trade_off, "evaluate", lambda *_: (accuracy, accuracy))
    monkeypatch.setattr(type(subject.task.data.test), "sizes", sizes)
    found = TradeOff(AnalysisOptions()).compute(subject).arrays
    np.testing.assert_allclose(found["others"], [np.nan, 8 / 10, np.nan, np.nan])
    assert calls == [4, 4], "one pass over the clients for a common model"
    monkeypatch.setattr(type(subject.task.data.test), "sizes", torch.tensor([4, 0, 0, 0]))
    monkeypatch.setattr(trade_off, "evaluate", lambda *_: (np.array([0.5, *[np.nan] * 3]), accuracy))
    found = TradeOff(AnalysisOptions()).compute(subject).arrays
    np.testing.assert_allclose(found["others"], [np.nan, 0.5, 0.5, 0.5])


def test_own_is_the_recorded_accuracy() -> None:
    subject = finished()
    recorded = list(Simulation(subject.config).rounds())[-1].arrays["personalized.accuracy"]
    np.testing.assert_allclose(TradeOff(AnalysisOptions()).compute(subject).arrays["own"], recorded, atol=1e-6)


def test_progress_is_reported_before_each_client() -> None:
    seen: list[float] = []
    subject = finished()
    TradeOff(AnalysisOptions()).compute(replace(subject, progress=seen.append))
    assert seen == [0, 0.25, 0.5, 0.75]


def test_a_single_client_has_no_others() -> None:
    with pytest.raises(Unsupported, match="a single client"):
        TradeOff(AnalysisOptions()).compute(
            finished(dataset={"name": "contexts", "num_clients": 1, "samples_per_client": 30, "num_contexts": 1})
        )
