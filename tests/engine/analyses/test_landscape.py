"""Loss landscapes: their centre is the recorded loss, the short way is the long way, a quadratic is a quadratic."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.alone import trained_alone
from engine.analyses.landscape import Landscape, Options
from engine.analyses.plane import Options as PlaneOptions
from engine.analyses.plane import ThreeModels
from engine.config import parse_experiment
from engine.directions import difference, filter_normalised, gaussian, norm, orthonormal
from engine.errors import Unsupported
from engine.models import Model, SplitModel, build_model
from engine.placed import Samples
from engine.registry import ANALYSES
from engine.scoring import score
from engine.subject import Subject
from engine.surface import Plane, surface
from tests.support.builders import assert_equal, trained
from tests.support.subjects import as_subject, subject_of


def compute(subject: Subject, **options):
    return Landscape(Options(points=5, **options)).compute(subject)


@pytest.mark.parametrize("model", ["mlr", {"name": "dnn", "hidden": 4}])
def test_the_centre_is_the_recorded_loss(model) -> None:
    run = trained("ditto", model=model)
    found = compute(as_subject(run), client=2)
    recorded = score(run.algorithm, run.state, run.task)
    sizes = np.array(run.task.data.summary.test_sizes)
    assert found.values["centres"]["personalized_own"] == pytest.approx(recorded["personalized.loss"][2], rel=1e-6)
    assert found.values["centres"]["global_own"] == pytest.approx(recorded["global.loss"][2], rel=1e-6)
    pooled = (recorded["global.loss"] * sizes).sum() / sizes.sum()
    assert found.values["centres"]["global_everyone"] == pytest.approx(pooled, rel=1e-6)
    assert found.arrays["global_everyone"].shape == (5, 5) and found.arrays["axis"][2] == 0


def test_training_samples_are_those_trained_on() -> None:
    run = subject_of("ditto")
    found = compute(run, client=2, data="train")
    (x, y), own = run.task.data.train.of_client(2), run.models.personalized[2]
    expected = float(torch.nn.functional.cross_entropy(run.task.model.logits(own, x), y))
    assert found.values["centres"]["personalized_own"] == pytest.approx(expected, rel=1e-6)
    assert found.values["samples"] == {"own": len(y), "everyone": len(run.task.data.train.y)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("model", "shape"),
    [("mlr", (5,)), ({"name": "dnn", "hidden": 4}, (5,)), ({"name": "har_mlp", "hidden": 4}, (5,)),
     ({"name": "cnn", "hidden": 4}, (16, 16)), ({"name": "har_cnn", "hidden": 4}, (2, 28))],
)  # fmt: skip
def test_skipping_the_first_layer_changes_nothing(model, shape, dtype) -> None:
    network, plane, samples = example(model, shape, dtype)
    short, long = (surface(network, plane, samples, is_shortened=way) for way in (True, False))
    np.testing.assert_allclose(short, long, rtol=1e-12 if dtype == torch.float64 else 1e-6)


def test_tables_of_embeddings_are_skipped_too() -> None:
    model = {"name": "text_embedding", "buckets": 9, "dim": 3, "hidden": 4}
    network, plane, _ = example(model, (6,), torch.float64)
    tokens = Samples(torch.randint(0, 20, (7, 6)).double(), torch.randint(0, 3, (7,)))
    short, long = (surface(network, plane, tokens, is_shortened=way) for way in (True, False))
    np.testing.assert_allclose(short, long, rtol=1e-12)


def test_a_first_layer_behind_a_parameter_is_not_skipped() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.layer = torch.nn.Parameter(torch.ones(1, 5)), torch.nn.Linear(5, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(self.scale * x).relu()

    def make() -> SplitModel:
        return SplitModel(Scaled(), torch.nn.Linear(4, 3)).double()

    _, plane, samples = example("mlr", (5,), torch.float64)
    network = Model(make(), make)
    origin = network.initial(0)
    moved = Plane(origin, gaussian(origin, 0, 0), gaussian(origin, 0, 1), plane.a, plane.b)
    short, long = (surface(network, moved, samples, is_shortened=way) for way in (True, False))
    np.testing.assert_allclose(short, long, rtol=1e-12)


def test_a_surface_does_not_depend_on_the_blocks(monkeypatch) -> None:
    network, plane, samples = example({"name": "dnn", "hidden": 4}, (5,), torch.float64)
    whole = surface(network, plane, samples)
    monkeypatch.setattr("engine.surface._KEPT_BYTES", 400)
    monkeypatch.setattr("engine.surface._BLOCK_BYTES", 1)
    np.testing.assert_allclose(surface(network, plane, samples), whole, rtol=1e-12)


def test_every_point_is_the_loss_of_its_own_parameters() -> None:
    network, plane, samples = example("mlr", (5,), torch.float64)
    found = surface(network, plane, samples)
    there = {n: p + plane.a[3] * plane.first[n] + plane.b[1] * plane.second[n] for n, p in plane.origin.items()}
    expected = torch.nn.functional.cross_entropy(network.logits(there, samples.x), samples.y)
    assert found[1, 3] == pytest.approx(float(expected), rel=1e-12)


def test_directions_have_the_filters_norms_and_leave_biases() -> None:
    params = {"weight": torch.tensor([[3.0, 4.0], [0.0, 0.0]]), "bias": torch.ones(2)}
    u = filter_normalised(gaussian(params, 0, 0), params)
    torch.testing.assert_close(u["weight"].norm(dim=1), torch.tensor([5.0, 0.0]))
    assert not u["bias"].any()


def test_both_models_get_the_same_random_directions() -> None:
    run = subject_of("fedavg")
    found = compute(run, client=1)
    np.testing.assert_array_equal(found.arrays["global_own"], found.arrays["personalized_own"])
    other = compute(run, client=1, seed=3)
    assert not np.allclose(found.arrays["global_own"], other.arrays["global_own"])


def test_gram_schmidt_gives_unit_vectors_at_right_angles() -> None:
    u, v = ({"w": torch.tensor(w, dtype=torch.float64)} for w in ([3.0, 0.0], [1.0, 1.0]))
    e, f = orthonormal(u, v)
    assert e["w"].tolist() == [1, 0] and f["w"].tolist() == [0, 1] and norm(f) == 1


def test_points_that_are_not_finite_stay_so() -> None:
    run = subject_of("fedavg")
    run.models.personalized[0]["head.weight"].fill_(torch.nan)
    found = compute(run)
    assert np.isnan(found.arrays["personalized_own"]).all() and found.values["centres"]["personalized_own"] is None


def test_methods_that_predict_their_own_way_have_landscapes() -> None:
    run = trained({"name": "fedproto", "predict": "prototype"}, model={"name": "dnn", "hidden": 4})
    found = compute(as_subject(run))
    recorded = score(run.algorithm, run.state, run.task)["personalized.loss"][0]
    assert found.values["centres"]["personalized_own"] == pytest.approx(recorded, rel=1e-6)
    assert "global_own" not in found.arrays


def test_an_unknown_client_is_named() -> None:
    with pytest.raises(Unsupported, match="clients 0 to 3"):
        compute(subject_of("fedavg"), client=4)


def test_the_analysis_is_found_by_its_name_and_tells_its_progress() -> None:
    shares: list[float] = []
    run = subject_of("ditto")
    ANALYSES.get("landscape").make(Options(points=3)).compute(
        replace(run, progress=shares.append)
    )
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] < 1


def example(model, shape, dtype):
    """A network, a plane around its start and six samples."""
    raw = {"dataset": "digits", "partition": "iid", "model": model, "algorithms": ["fedavg"]}
    network = build_model(parse_experiment(raw).runs()[0].model, shape, 3)
    origin = {n: p.to(dtype) for n, p in network.initial(0).items()}
    u, v = (filter_normalised(gaussian(origin, 0, i), origin) for i in (0, 1))
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, *shape, generator=generator, dtype=dtype), torch.tensor([0, 1, 2, 0, 1, 1])
    a, b = torch.linspace(-1, 1, 5, dtype=dtype), torch.linspace(-2, 1, 3, dtype=dtype)
    return network, Plane(origin, u, v, a, b), Samples(x, y)


def plane(subject: Subject, **options):
    return ThreeModels(PlaneOptions(points=9, **options)).compute(subject)


@pytest.mark.parametrize("changed", [{}, {"participation": 0.5, "rounds": 5, "lr_schedule": "cosine", "momentum": 0.5}])
@pytest.mark.parametrize("model", ["mlr", {"name": "dnn", "hidden": 4}])
def test_the_model_trained_alone_is_the_one_of_local_train(model, changed) -> None:
    ours = trained_alone(subject_of("ditto", model=model, **changed), 2)
    assert_equal(ours, trained("local_train", model=model, **changed).models().personalized[2])


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


def test_a_place_on_the_plane_has_the_loss_of_the_model_there() -> None:
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


@pytest.mark.parametrize(("method", "models"), [
    ("fedavg", ["global", "alone", "initial"]), ("gpfl", ["personalized", "alone", "initial"]),
])  # fmt: skip
def test_the_common_start_takes_a_free_place(method, models) -> None:
    found = plane(subject_of(method, model={"name": "dnn", "hidden": 4}))
    assert found.values["models"] == models and np.isfinite(found.arrays["everyone"]).all()


def test_a_model_on_the_line_through_two_others_spans_no_plane() -> None:
    run = subject_of("ditto", model={"name": "dnn", "hidden": 4})
    w, alone = run.models.global_model, trained_alone(run, 1)
    run.models.personalized[1].update({n: torch.lerp(w[n], alone[n], 0.3) for n in w})
    found = plane(run, client=1)
    assert found.values["models"] == ["global", "personalized", "initial"]
    assert abs(found.arrays["places"][2, 1]) > 1e-3


def test_two_models_have_no_plane() -> None:
    with pytest.raises(Unsupported, match="three models"):
        plane(subject_of("local_train"))
