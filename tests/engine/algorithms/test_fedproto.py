"""FedProto: local training without its pull, and rounds computed with plain autograd."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from engine.federation.clients import Federation
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import SIZES, assert_close, assert_equal, federation, personalized, simulation, trained

DNN = {"name": "dnn", "hidden": 4}
FEDPROTO = {"name": "fedproto", "lam": 0.7}
Prototypes = dict[int, torch.Tensor]  # by class


def few_classes() -> Federation:
    """Client 0 has only class 0, the others 1 and 2; no client has class 3."""
    data = federation(classes=4)
    first = int(data.train.offsets[1])
    own, others = data.train.rows[:first], data.train.rows[first:]
    labels = data.train.pool.y
    labels[own] = 0
    labels[others] = 1 + labels[others] % 2
    return data


def pulled_towards(prototypes: Prototypes, lam: float):
    """The loss of the paper on one batch."""

    def loss(params: plain.Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        features = plain.hidden(params, x)
        reached = [prototypes.get(c, features[b]) for b, c in enumerate(y.tolist())]
        return plain.cross_entropy(params, x, y) + lam * F.mse_loss(features, torch.stack(reached))

    return loss


def new_prototypes(run, models: dict[int, plain.Params], old: Prototypes) -> Prototypes:
    """Means over the clients' training data, weighted by each client's samples of the class."""
    own: dict[int, list[tuple[torch.Tensor, int]]] = {}
    for client, params in models.items():
        x, y = run.task.data.train.of_client(client)
        for c in y.unique().tolist():
            own.setdefault(c, []).append((plain.hidden(params, x[y == c]).mean(0), int((y == c).sum())))
    averaged = {c: sum(p * m for p, m in found) / sum(m for _, m in found) for c, found in own.items()}
    return old | averaged


def test_fedproto_without_pull_is_local_training():
    run = trained({"name": "fedproto", "lam": 0}, model=DNN, participation=0.5)
    assert_equal(personalized(run), personalized(trained("local_train", model=DNN, participation=0.5)))
    assert run.algorithm.global_model(run.state, run.task) is None
    assert any("this is local_train" in note for note in run.task.notes)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_fedproto_rounds_follow_the_paper(backend):
    run = simulation(FEDPROTO, few_classes(), model=DNN, rounds=5, participation=0.5, backend=backend)
    task = run.task
    models, known = [task.initial_model()] * len(SIZES), {}
    seen = []
    for result in run.rounds():
        if result.round:
            cohort = task.cohort(result.round)
            batches = samples_of(task, cohort.clients, cohort.plan)
            for i, given in batches.items():
                walked = [plain.descend(models[i], given[:t], loss=pulled_towards(known, 0.7)) for t in range(4)]
                data_loss = [plain.cross_entropy(p, *b) for p, b in zip(walked[:3], given, strict=True)]
                assert result.arrays["train_loss"][i] == pytest.approx(float(sum(data_loss)) / 3, abs=1e-12)
                models[i] = walked[3]
            seen.append(len(known))
            known = new_prototypes(run, {i: models[i] for i in batches}, known)
        assert_close(personalized(run), plain.stack(models), 1e-11)
        assert run.state.is_known.tolist() == [c in known for c in range(4)]
        for c, prototype in known.items():
            torch.testing.assert_close(run.state.prototypes[c], prototype, rtol=0, atol=1e-11)
    assert seen == [0, 2, 3, 3, 3] and all(0 not in task.cohort(r).clients for r in (1, 3, 4))  # class 0 stays


def test_only_prototypes_of_present_classes_are_sent():
    results = list(simulation(FEDPROTO, few_classes(), model=DNN).rounds())
    classes, prototype = 1 + 2 + 2 + 2, 4 * 8
    assert [r.scalars["bytes_up"] for r in results] == [0, classes * prototype, classes * prototype]
    assert [r.scalars["bytes_down"] for r in results] == [0, 0, len(SIZES) * 3 * prototype]
    costs = [r.scalars["gradient_evaluations"] for r in simulation("local_train", few_classes(), model=DNN).rounds()]
    assert [r.scalars["gradient_evaluations"] for r in results] == costs


def test_predict_prototype_chooses_the_class_of_the_nearest_prototype():
    method = FEDPROTO | {"predict": "prototype"}
    run = trained(method, few_classes(), model=DNN)
    by_head = personalized(trained(FEDPROTO, few_classes(), model=DNN))
    assert_equal({name: personalized(run)[name] for name in by_head}, by_head)
    predictor = run.algorithm.personalized(run.state, run.task)
    x, _ = run.task.data.test.of_client(2)
    logits = predictor.forward(predictor.of_client(2), x)
    features = plain.hidden(predictor.of_client(2), x)
    distances = torch.cdist(features, run.state.prototypes[:3])
    torch.testing.assert_close(logits[:, :3], -distances.square())
    torch.testing.assert_close(logits[:, 3], logits[:, :3].amin(1) - 1)
    assert run.last["personalized"]["mean"] == pytest.approx(accuracy_by_prototypes(run))


def accuracy_by_prototypes(run) -> float:
    hits = []
    for client in range(len(SIZES)):
        x, y = run.task.data.test.of_client(client)
        params = {n: p[client] for n, p in personalized(run).items()}
        nearest = torch.cdist(plain.hidden(params, x), run.state.prototypes[:3]).argmin(1)
        hits.append(float((nearest == y).double().mean()))
    return float(np.mean(hits))


def test_without_prototypes_all_classes_are_equally_likely():
    first = next(simulation(FEDPROTO | {"predict": "prototype"}, model=DNN).rounds())
    np.testing.assert_allclose(first.arrays["personalized.loss"], np.log(3))
    assert first.diverged is None


def test_a_newcomer_trains_from_the_initial_model_towards_frozen_prototypes():
    run = trained(FEDPROTO, few_classes(), model=DNN)
    others = simulation("fedavg", federation((5, 8), classes=4), model=DNN)
    newcomers = others.task.everyone(stream="newcomers")
    found = run.algorithm.adapted(run.state, newcomers, others.task)
    known = {c: run.state.prototypes[c] for c in range(3)}
    batches = samples_of(others.task, newcomers.clients, newcomers.plan)
    expected = [
        plain.descend(run.task.initial_model(), batches[i], loss=pulled_towards(known, FEDPROTO["lam"]))
        for i in range(2)
    ]
    assert_close(dict(found.params), plain.stack(expected), 1e-11)


def test_fedproto_notes_if_the_model_has_no_body_to_pull():
    run = trained(FEDPROTO)
    assert any("use model: dnn or cnn" in n for n in run.task.notes)
    assert_close(personalized(run), personalized(trained("local_train")), 1e-12)
