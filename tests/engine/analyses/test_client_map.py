"""The client map: distances on the plane match those of the models, and the replay ends at the stored models."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.analyses import AnalysisOptions, client_map
from engine.analyses.client_map import ClientMap, chosen_rounds
from engine.analyses.model_pca import fit
from engine.analyses.support.loaded_run import Subject
from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from engine.simulation.simulate import Models, Simulation
from tests.support.tiny_runs import trained

THREE_CLIENTS = {
    "dataset": {"name": "contexts", "num_clients": 3, "num_contexts": 3, "samples_per_client": 20, "dim": 4},
    "partition": {"name": "natural"},
    "model": {"name": "mlr"},
    "evaluation": {"every": 2},
    "training": {"rounds": 5, "local_steps": 3, "batch_size": 5, "lr": 0.1},
}


def config(**algorithm: object) -> RunConfig:
    algorithm = algorithm or {"name": "cgpfl", "K": 2}
    return parse_experiment({**THREE_CLIENTS, "algorithms": [algorithm]}).runs()[0]


def finished(config: RunConfig) -> Subject:
    return trained(config)[0]


def found(subject: Subject) -> Findings:
    return ClientMap(AnalysisOptions()).compute(subject)


def models(*rows: list[float]) -> list[dict[str, torch.Tensor]]:
    """Models with two tensors, the second a single number."""
    return [{"w": torch.tensor(row[:-1]).view(1, -1), "b": torch.tensor(row[-1])} for row in rows]


def test_models_on_a_line_need_one_axis() -> None:
    plane = fit(models([0.0, 0.0, 0.0], [3.0, 0.0, 4.0], [-3.0, 0.0, -4.0]))
    np.testing.assert_allclose(plane.explained, [1.0, 0.0], atol=1e-12)
    places = [plane.place(m) for m in models([3.0, 0.0, 4.0], [0.0, 7.0, 0.0])]
    np.testing.assert_allclose(np.abs(places), [[5.0, 0.0], [0.0, 0.0]], atol=1e-9)


def test_shares_are_of_the_total_variance() -> None:
    six = models(*(sign * row for row in np.diag([3.0, 2.0, 1.0]) for sign in (1, -1)))  # 18 + 8 + 2 squared
    np.testing.assert_allclose(fit(six).explained, [18 / 28, 8 / 28])
    places = client_map.ReplayedRounds()
    client_map.add(places, fit(six), 0, Models(six[0], None, six))
    assert places.shown == [pytest.approx(26 / 28)]


def test_a_plane_does_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = models([1.0, 2.0, 3.0], [0.0, 5.0, 1.0], [2.0, 2.0, 0.0])
    whole = fit(clients)
    monkeypatch.setattr("engine.analyses.model_pca.BLOCK", 1)
    for model in clients:
        np.testing.assert_allclose(fit(clients).place(model), whole.place(model), atol=1e-12)


def test_equal_models_lie_at_the_center() -> None:
    plane = fit(models([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]))
    assert plane.explained.tolist() == [0.0, 0.0]
    assert plane.place(models([1.0, 2.0, 3.0])[0]).tolist() == [0.0, 0.0]


def test_a_single_model_lies_at_the_center_of_two_axes() -> None:
    (alone,) = models([1.0, 2.0, 3.0])
    assert fit([alone]).explained.tolist() == fit([alone]).place(alone).tolist() == [0.0, 0.0]


def test_non_finite_models_are_refused() -> None:
    with pytest.raises(Unsupported, match="not finite"):
        fit(models([1.0, 2.0, 3.0], [1.0, float("nan"), 3.0]))


def test_three_clients_keep_their_distances() -> None:
    subject = finished(config())
    arrays = found(subject).arrays
    last = arrays["clients"][-1]
    flat = torch.stack([torch.cat([p.flatten() for p in m.values()]) for m in subject.models.personalized])
    np.testing.assert_allclose(
        np.linalg.norm(last[:, None] - last[None], axis=-1), torch.cdist(flat.double(), flat.double()), rtol=1e-4
    )
    assert arrays["explained"].sum() == pytest.approx(1.0)
    assert arrays["shown"][-1] == pytest.approx(1.0)


def test_the_replay_goes_from_the_initial_to_the_stored_models() -> None:
    answer = found(finished(config()))
    assert answer.values == {"difference": 0.0}
    assert answer.arrays["rounds"].tolist() == [0, 2, 4, 5]
    np.testing.assert_allclose(answer.arrays["clients"][0], np.tile(answer.arrays["start"], (3, 1)), atol=1e-6)
    assert answer.arrays["shown"][0] == 1.0


def test_earlier_positions_equal_those_of_a_shorter_run() -> None:
    long = finished(config())
    short = Simulation(replace(long.config, training=long.config.training.model_copy(update={"rounds": 2})))
    for _ in short.rounds():
        pass
    expected = fit(long.models.personalized).place(short.models().personalized[1])
    np.testing.assert_allclose(found(long).arrays["clients"][1, 1], expected, atol=1e-5)


def test_context_models_have_a_point_per_client_and_a_global_model_has_one() -> None:
    assert found(finished(config())).arrays["shared"].shape == (4, 3, 2)
    assert found(finished(config(name="ditto"))).arrays["shared"].shape == (4, 1, 2)
    assert "shared" not in found(finished(config(name="local_train"))).arrays


def test_a_model_that_all_clients_use_has_no_map() -> None:
    with pytest.raises(Unsupported, match="all clients use the same model"):
        found(finished(config(name="fedavg")))


def test_a_replay_that_misses_the_stored_models_reports_their_difference() -> None:
    subject = finished(config())
    moved = [{n: 2 * p for n, p in m.items()} for m in subject.models.personalized]
    again = found(replace(subject, models=replace(subject.models, personalized=moved)))
    assert again.values["difference"] == pytest.approx(0.5)


@pytest.mark.parametrize("how", ["reverse", "next"])
def test_the_replay_of_poisoned_clients_ends_at_the_stored_models(how: str) -> None:
    attack = {"name": "labels", "how": how, "share": 0.4}
    run = parse_experiment({**THREE_CLIENTS, "algorithms": ["local_train"], "attack": attack}).runs()[0]
    subject = finished(run)
    assert subject.task.data.malicious is not None and subject.task.data.malicious.sum() == 1
    assert found(subject).values == {"difference": 0.0}


def test_the_replay_of_the_best_models_ends_at_the_best_round() -> None:
    run = config()
    simulation = Simulation(run)
    for _ in simulation.rounds():
        if simulation.round == 2:
            break
    answer = found(Subject.load(run, simulation.models(), 2))
    assert answer.arrays["rounds"].tolist() == [0, 2] and answer.values["difference"] == 0.0


def test_the_replay_shows_at_most_sixty_rounds() -> None:
    assert chosen_rounds(10, 25) == {0, 10, 20, 25}
    many = chosen_rounds(1, 500)
    assert len(many) == client_map.MAX_ROUNDS and {0, 500} <= many


def test_progress_can_stop_the_replay() -> None:
    class Enough(Exception): ...

    def stop(share: float) -> None:
        if share >= 0.4:
            raise Enough

    with pytest.raises(Enough):
        found(replace(finished(config()), progress=stop))


def test_the_analysis_is_registered() -> None:
    assert ANALYSES.get("client_map").make is ClientMap
