"""The plane through three distinct models: its points are models with correct distances and losses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.analyses.plane import Options, ThreeModels
from engine.analyses.support.directions import difference, norm
from engine.analyses.support.loaded_run import Subject
from engine.analyses.support.local_only import trained_alone
from engine.core.errors import Unsupported
from engine.core.registry import ANALYSES
from engine.simulation.evaluation import score
from tests.support.builders import trained
from tests.support.subjects import as_subject, subject_of


def plane(subject: Subject, **options):
    return ThreeModels(Options(points=9, **options)).compute(subject)


def test_distances_on_the_plane_are_distances_between_models() -> None:
    run = subject_of("ditto", model={"name": "dnn", "hidden": 4})
    found = plane(run, client=1)
    models = [run.models.global_model, run.models.personalized[1], trained_alone(run, 1)]
    places = found.arrays["places"]
    assert found.values["models"] == ["global", "personalized", "alone"]
    assert places[0].tolist() == [0, 0] and places[1, 1] == pytest.approx(0, abs=1e-12)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert np.linalg.norm(places[i] - places[j]) == pytest.approx(norm(difference(models[i], models[j])))
    x, y = found.arrays["x"], found.arrays["y"]
    assert x[-1] - x[0] == pytest.approx(y[-1] - y[0]) and x[0] < places[:, 0].min() and places[:, 0].max() < x[-1]


def test_the_models_on_the_plane_have_their_recorded_losses() -> None:
    run = trained("ditto")
    found = plane(as_subject(run), client=1).values["losses"]
    recorded = score(run.algorithm, run.state, run.task)
    assert found["own"]["personalized"] == pytest.approx(recorded["personalized.loss"][1])
    assert found["own"]["global"] == pytest.approx(recorded["global.loss"][1])


def test_the_other_models_have_the_losses_of_plain_networks() -> None:
    run = trained("gpfl", model={"name": "dnn", "hidden": 4})
    found = plane(as_subject(run), client=1).values
    alone = trained("local_train", model={"name": "dnn", "hidden": 4})
    recorded = {name: score(one.algorithm, one.state, one.task) for name, one in (("gpfl", run), ("alone", alone))}
    assert found["losses"]["own"]["personalized"] == pytest.approx(recorded["gpfl"]["personalized.loss"][1])
    assert found["losses"]["own"]["alone"] == pytest.approx(recorded["alone"]["personalized.loss"][1])
    assert found["has_parts"] and not plane(subject_of("ditto")).values["has_parts"]


@pytest.mark.parametrize("name", ["landscape", "plane", "sharpness"])
def test_weights_are_not_moved_where_stored_features_must_follow(name: str) -> None:
    analysis = ANALYSES.get(name)
    subject = subject_of("knn_per", model={"name": "dnn", "hidden": 4})
    with pytest.raises(Unsupported, match="stored features"):
        analysis.make(analysis.options()).compute(subject)


def test_a_point_on_the_plane_has_the_loss_of_its_model() -> None:
    run = subject_of("ditto")
    found = plane(run, client=1)
    (px, _), (lx, ly) = found.arrays["places"][1:]
    at_x, at_y = found.arrays["x"][2], found.arrays["y"][6]
    s, t = np.linalg.solve([[px, lx], [0, ly]], [at_x, at_y])
    w, theta, alone = run.models.global_model, run.models.personalized[1], trained_alone(run, 1)
    there = {n: w[n] + s * (theta[n] - w[n]) + t * (alone[n] - w[n]) for n in w}
    x, y = run.task.data.test.of_client(1)
    expected = float(torch.nn.functional.cross_entropy(run.task.model.logits(there, x), y))
    assert found.arrays["own"][6, 2] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("method", "models"),
    [
        ("fedavg", ["global", "alone", "initial"]),
        ("gpfl", ["personalized", "alone", "initial"]),
    ],
)
def test_the_initial_model_replaces_a_missing_one(method, models) -> None:
    found = plane(subject_of(method, model={"name": "dnn", "hidden": 4}))
    assert found.values["models"] == models and np.isfinite(found.arrays["everyone"]).all()


def test_collinear_models_span_no_plane() -> None:
    run = subject_of("ditto", model={"name": "dnn", "hidden": 4})
    w, alone = run.models.global_model, trained_alone(run, 1)
    between = {n: torch.lerp(w[n], alone[n], 0.3) for n in w}
    run = replace(run, models=replace(run.models, personalized=[between] * 4))
    found = plane(run, client=1)
    assert found.values["models"] == ["global", "personalized", "initial"]
    assert abs(found.arrays["places"][2, 1]) > 1e-3


def test_two_models_have_no_plane() -> None:
    with pytest.raises(Unsupported, match=r"three distinct models.*in this method its model and the one trained alone"):
        plane(subject_of("local_train"))


def test_a_client_that_never_took_part_has_no_plane() -> None:
    run = subject_of("fedavg", rounds=1, participation=0.25)
    away = next(c for c in range(4) if c not in run.task.participants(1))
    with pytest.raises(Unsupported, match=r"took part in no round up to 1, .*choose another client"):
        plane(run, client=away)
