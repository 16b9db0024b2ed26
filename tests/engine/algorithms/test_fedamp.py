"""FedAMP: its limits, and rounds with weights computed one pair at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.config.schema import InvalidConfig
from engine.datasets import Pool
from engine.federation.clients import Federation, lay_out
from engine.partitioners import Partition
from tests.support import reference
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.lost_uploads import Lossy
from tests.support.reference import as_matrix, batches_of, newcomers_of, start_of
from tests.support.split_models import row_of

N = len(SIZES)
EQUAL = (8,) * N


def fedamp(**options: object) -> dict:
    return {"name": "fedamp"} | options


def twins() -> Federation:
    """Three clients with the same samples."""
    rng = np.random.default_rng(0)
    pool = Pool(rng.normal(size=(9, 5)), rng.integers(0, 3, 9).astype(np.int64), 3)
    none, own, tested = np.zeros(0, np.int64), np.arange(6), np.arange(6, 9)
    partition = Partition((own,) * 3, (none,) * 3, (tested,) * 3, None)
    return lay_out(pool, partition, torch.float64, torch.device("cpu"))


@pytest.mark.parametrize(
    "options",
    [{"variant": "heur", "sigma": 0, "self_weight": 1 / N}, {"variant": "amp", "sigma": 1e10}],
    ids=["heur", "amp"],
)
def test_fedamp_with_equal_weights_is_fedprox_with_uniform_weights(options: dict):
    run = trained(fedamp(pull=0.4, **options), federation(EQUAL), rounds=3)
    expected = shared_model(trained({"name": "fedprox", "mu": 0.4}, federation(EQUAL), rounds=3))
    assert_close({n: p.mean(0) for n, p in personalized(run).items()}, expected)


ALONE = [{"self_weight": 1}, {"start": "own"}, {"variant": "amp", "alpha": 1.0, "sigma": 1e12}]


@pytest.mark.parametrize(
    ("options", "training"),
    [
        *((options, {"momentum": 0.9}) for options in ALONE),
        *((options, {"participation": 0.5}) for options in ALONE[:2]),  # amp: the first message has the others alone
    ],
    ids=str,
)
def test_fedamp_without_others_is_local_training(options: dict, training: dict):
    run = trained(fedamp(pull=0, **options), rounds=3, **training)
    assert_close(personalized(run), personalized(trained("local_train", rounds=3, **training)))


def test_the_weights_of_amp_keep_the_mean_of_the_models_and_those_of_heur_do_not():
    amp, heur = (
        list(simulation(fedamp(variant=variant), rounds=3).rounds())[-1].arrays["diagnostics.x"]
        for variant in ("amp", "heur")
    )
    np.testing.assert_allclose([amp.sum(0), amp.sum(1), heur.sum(1)], np.ones((3, N)), atol=1e-12)
    assert abs(heur.sum(0) - 1).max() > 1e-4 and (amp > 0).all()
    assert (amp - np.diag(amp.diagonal()) <= 1 / N).all()


@pytest.mark.parametrize("variant", ["heur", "amp"])
def test_clients_with_equal_models_get_their_own_as_message(variant: str):
    settings = {"rounds": 3, "batch_size": "full"}
    run = trained(fedamp(variant=variant, pull=0), twins(), **settings)
    assert_close(personalized(run), personalized(trained("local_train", twins(), **settings)), 1e-12)


def attention(options: dict, models: list, uploaded: set[int], i: int, start: np.ndarray) -> dict[int, float]:
    """The weights of the known models in the message to client i, as the paper writes them."""
    others = sorted(uploaded - {i})
    own = models[i] if i in uploaded else start
    if options["variant"] == "heur":
        cosine = [(own * models[j]).sum() / np.linalg.norm(own) / np.linalg.norm(models[j]) for j in others]
        scores = np.exp(np.array(cosine) * options.get("sigma", 25.0))
        of_own = options.get("self_weight", 1 / (len(others) + 1)) if others else 1.0
        x = {j: (1 - of_own) * s / scores.sum() for j, s in zip(others, scores, strict=True)}
    else:
        pairs = [((models[j] - models[k]) ** 2).sum() for j in uploaded for k in uploaded if j != k]
        sigma = options.get("sigma", np.mean(pairs) if pairs else 0.0)
        alpha = options.get("alpha", sigma / len(models))
        gaps = {j: ((own - models[j]) ** 2).sum() for j in others}
        x = {j: alpha / sigma * np.exp(-gap / sigma) if sigma else 1 / len(models) for j, gap in gaps.items()}
        of_own = 1 - sum(x.values())
        if of_own < 0:
            x, of_own = {j: value / sum(x.values()) for j, value in x.items()}, 0.0
    if i not in uploaded:
        total = sum(x.values())
        return {j: value / total for j, value in x.items()} if total else {}
    return x | {i: of_own}


@pytest.mark.parametrize(
    "options",
    [
        {"variant": "heur"},
        {"variant": "heur", "sigma": 3.0, "self_weight": 0.2, "pull": 0.5, "start": "own"},
        {"variant": "heur", "self_weight": 1.0, "pull": 0.5},
        {"variant": "amp", "pull": 0.2},
        {"variant": "amp", "sigma": 2.3},
        {"variant": "amp", "sigma": 2.0, "alpha": 5.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("participation", [0.25, 0.5])
def test_fedamp_rounds_follow_the_paper(options: dict, participation: float):
    run = simulation(fedamp(**options), rounds=6, participation=participation)
    start, pull = start_of(run), options.get("pull", 1e-4)
    models, uploaded = [start] * N, set()
    for result in run.rounds():
        if result.round:
            batches, new, x = batches_of(run, result.round), list(models), np.full((N, N), np.nan)
            for i in result.cohort:
                weights = attention(options, models, uploaded, i, start)
                x[i] = [weights.get(j, 0.0) for j in range(N)]
                message = sum(weight * models[j] for j, weight in weights.items()) if weights else start
                first = models[i] if options.get("start") == "own" else message
                new[i] = reference.sgd(first, batches[i], 0.1, pull, message)
            models, uploaded = new, uploaded | set(result.cohort.tolist())
            np.testing.assert_allclose(result.arrays["diagnostics.x"], x, atol=1e-10)
        np.testing.assert_allclose(as_matrix(personalized(run)), models, atol=1e-10)
    assert len(uploaded) > 2


@pytest.mark.parametrize("options", [{"variant": "amp"}, {"start": "own", "pull": 0.5}], ids=str)
def test_the_backends_agree_on_every_variant(options: dict):
    found = (
        personalized(trained(fedamp(**options), rounds=4, participation=0.5, backend=b)) for b in ("fused", "loop")
    )
    assert_close(*found, 1e-8)


def test_fedamp_says_when_others_take_all_the_weight():
    words = "were scaled, so that own models have weight 0; use a smaller alpha"
    notes = {alpha: trained(fedamp(variant="amp", sigma=2.0, alpha=alpha)).task.notes for alpha in (5.0, 0.1)}
    assert sum(words in note for note in notes[5.0]) == 1 and not any(words in note for note in notes[0.1])


@pytest.mark.parametrize("variant", ["heur", "amp"])
def test_a_newcomer_of_fedamp_is_a_client_without_an_upload(variant: str):
    options = {"variant": variant, "pull": 0.3}
    run = trained(fedamp(**options), with_newcomers(), rounds=3)
    models, start = list(as_matrix(personalized(run))), start_of(run)
    found, batches = newcomers_of(run)
    weights = attention(options, [*models, start], set(range(N)), N, start)
    message = sum(weight * models[j] for j, weight in weights.items())
    expected = [reference.sgd(message, steps, 0.1, 0.3, message) for steps in batches]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_fedamp_sends_a_model_each_way():
    shared = [simulation(name).algorithm.shared for name in ("fedamp", "fedavg")]
    states = [simulation(name).state for name in ("fedamp", "fedavg")]
    ours, theirs = (share(state) for share, state in zip(shared, states, strict=True))
    assert (ours.bytes_up, ours.bytes_down) == (theirs.bytes_up, theirs.bytes_down)


def test_amp_refuses_to_divide_by_zero():
    with pytest.raises(InvalidConfig, match="sigma: 0 with variant amp"):
        simulation(fedamp(variant="amp", sigma=0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"self_weight": 1, "pull": 0}, "is local_train"),
        ({"start": "own", "pull": 0}, "is local_train"),
        ({"alpha": 2.0}, "alpha has no effect"),
        ({"variant": "amp", "self_weight": 0.5}, "self_weight has no effect"),
        ({"pull": 100.0}, "above 2"),
    ],
    ids=str,
)
def test_fedamp_says_what_a_setting_does_not_do(options: dict, words: str):
    assert any(words in note for note in simulation(fedamp(**options)).task.notes)
    assert not simulation("fedamp").task.notes


@pytest.mark.parametrize("lost", [(2,), (0, 1, 2, 3)], ids=str)
def test_a_client_whose_upload_is_lost_has_trained_but_is_unknown_to_others(lost: tuple[int, ...]):
    run, whole = simulation("fedamp"), simulation("fedamp")
    run.task = replace(run.task, channel=Lossy(lost))
    first, expected = (r.algorithm.round(r.state, r.task.cohort(1), r.task)[0] for r in (run, whole))
    assert_equal(first.personal_params, expected.personal_params)
    assert first.has_uploaded.tolist() == [i not in lost for i in range(N)]
    assert_equal(row_of(first.uploads, 2), run.task.initial_model())
    second, _ = run.algorithm.round(first, run.task.cohort(2), run.task)
    unknown = replace(first, uploads={n: p.index_fill(0, torch.tensor(lost), 9.0) for n, p in first.uploads.items()})
    again, _ = run.algorithm.round(unknown, run.task.cohort(2), run.task)
    others = [i for i in range(N) if i not in lost]
    for n, p in second.personal_params.items():
        assert torch.equal(p[others], again.personal_params[n][others])
