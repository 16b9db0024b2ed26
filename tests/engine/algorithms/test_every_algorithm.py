"""The contract of every registered method, including plugins."""

from dataclasses import replace

import pytest
import torch

from engine.config.options import Training
from engine.core.errors import CheckpointInvalid
from engine.core.registry import ALGORITHMS
from engine.core.spaces import Space
from engine.simulation import checkpoint_codec as states
from engine.simulation.simulate import Simulation
from tests.support.builders import (
    FEWER,
    NEWCOMERS,
    assert_close,
    assert_equal,
    federation,
    personalized,
    simulation,
    supports,
    trained,
    unchecked_simulation,
    with_newcomers,
)

SPLIT = {"name": "dnn", "hidden": 6}
NAMES = ALGORITHMS.names()
# K models, here as many as clients, and AFL's weights of the clients.
OF_THE_SERVER = ("/contexts/models", "/contexts/head", "/client_weights")


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture
def model(name) -> object:
    """The linear model, or a network with a body for methods that need one."""
    return "mlr" if supports(name, "mlr") else SPLIT


def all_tensors(state) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    states._describe(state, "", found, {})
    return found


def test_all_backends_and_chunks_give_the_state_of_the_loop(name, monkeypatch):
    options = {"model": SPLIT, "participation": 0.75}  # three clients, in chunks of two and one
    expected = all_tensors(trained(name, backend="loop", **options).state)
    assert_close(all_tensors(trained(name, backend="batched", **options).state), expected, 1e-8)
    monkeypatch.setattr("engine.backends.fused.Fused.chunk_size", lambda *_: 2)
    assert_close(all_tensors(trained(name, backend="fused", **options).state), expected, 1e-10)


@pytest.mark.parametrize("name", [name for name in NAMES if supports(name, "mlr")])
def test_linear_models_have_the_state_of_the_loop(name):
    loop, fused = (trained(name, backend=backend, participation=0.75).state for backend in ("loop", "fused"))
    assert_close(all_tensors(fused), all_tensors(loop), 1e-8)


def test_a_round_can_be_replayed_and_changes_neither_its_input_nor_absent_clients(name, model):
    """Tensors of N rows belong to clients; the rows of absent clients must not change."""
    run = simulation(name, model=model, participation=0.5)
    before = {n: t.clone() for n, t in all_tensors(run.state).items()}
    went_in, cohort = run.state, run.task.cohort(1)
    once, again = (run.algorithm.round(went_in, cohort, run.task)[0] for _ in range(2))
    assert_equal(all_tensors(went_in), before)
    assert_equal(all_tensors(once), all_tensors(again))
    outside = [i for i in range(run.task.num_clients) if i not in cohort.clients.tolist()]
    after = all_tensors(once)
    for n, p in before.items():
        if p.dim() and len(p) == run.task.num_clients and not n.startswith(OF_THE_SERVER):
            assert torch.equal(after[n][outside], p[outside]), n


def test_a_run_resumed_from_a_checkpoint_equals_an_uninterrupted_one(name, model):
    whole = simulation(name, model=model, rounds=3, participation=0.5)
    results, checkpoint = [], b""
    for result in whole.rounds():
        results.append(result)
        if result.round == 2:
            checkpoint = whole.checkpoint()
    resumed = simulation(name, model=model, rounds=3, participation=0.5)
    resumed.restore(checkpoint)
    (found,), expected = resumed.rounds(), results[3]
    assert expected.round == found.round and expected.cohort.tolist() == found.cohort.tolist()
    for n, values in expected.arrays.items():
        assert values.tobytes() == found.arrays[n].tobytes(), n
    assert repr(resumed.summary()) == repr(whole.summary())


def test_a_run_records_its_costs_has_a_model_for_each_client_and_is_close_in_single_precision(name, model):
    run = simulation(name, model=model, participation=0.5)
    results = list(run.rounds())
    assert [results[0].scalars[n] for n in ("bytes_up", "bytes_down", "gradient_evaluations")] == [0, 0, 0]
    for result in results[1:]:
        assert result.scalars["gradient_evaluations"] > 0 and result.scalars["seconds"] > 0
        assert result.scalars["bytes_up"] >= 0 and result.scalars["bytes_down"] >= 0
        known = (~torch.from_numpy(result.arrays["train_loss"]).isnan()).nonzero()[:, 0].tolist()
        assert known == result.cohort.tolist()
    like, models = run.task.initial_model(), run.models("last")
    assert len(models.personalized) == run.task.num_clients
    for params in [*models.personalized, *([models.global_model] if models.global_model else [])]:
        shapes = {n: tuple(p.shape)[-like[n].dim() :] for n, p in params.items() if n in like}
        assert shapes == {n: tuple(p.shape) for n, p in like.items()}
    single = trained(name, federation(dtype=torch.float32), model=model, participation=0.5, dtype="float32")
    assert_close({n: p.double() for n, p in personalized(single).items()}, personalized(run), 1e-3)


def test_a_checkpoint_of_another_configuration_is_refused():
    data = simulation("fedavg").checkpoint()
    with pytest.raises(CheckpointInvalid, match="another configuration"):
        simulation("fedavg", lr=0.2).restore(data)
    with pytest.raises(CheckpointInvalid):
        simulation("fedavg").restore(data[:100])


def test_a_huge_learning_rate_diverges_and_keeps_its_rounds(name, model):
    results = list(unchecked_simulation(name, model=model, training={"lr": 1e308}, rounds=50, local_steps=5).rounds())
    assert results[-1].diverged and "not finite" in results[-1].diverged
    assert len(results) < 51 and results[0].diverged is None


def adapted(run: Simulation) -> dict[str, torch.Tensor]:
    """The models of held-out clients, [U, ...]."""
    task = run.task.of_unseen()
    predictor = run.algorithm.adapted(run.state, task.everyone(stream="newcomers"), task)
    if predictor.is_per_client:
        return dict(predictor.params)
    return {n: p.expand(task.num_clients, *p.shape) for n, p in predictor.params.items()}


def test_a_newcomers_model_depends_only_on_its_training_data_and_the_server_does_not_change(name, model):
    run = trained(name, with_newcomers(), model=model, participation=0.5)
    before = {n: t.clone() for n, t in all_tensors(run.state).items()}
    models, data = adapted(run), run.task.data
    assert_equal(all_tensors(run.state), before)
    for n, p in run.task.initial_model().items():
        assert n not in models or (models[n].shape[0] == 3 and models[n].shape[-p.dim() :] == p.shape), n
    assert all(p.isfinite().all() for p in models.values())
    pool = data.unseen.test.pool
    unknown = replace(data.unseen.test, pool=replace(pool, x=torch.full_like(pool.x, torch.nan)))
    run.task = replace(run.task, data=replace(data, unseen=replace(data.unseen, test=unknown)))
    assert_close(adapted(run), models, 0)
    run.task = replace(run.task, data=replace(data, unseen=federation(NEWCOMERS[:2], seed=7)))
    assert_close(adapted(run), {n: p[:2] for n, p in models.items()}, 1e-9)


def test_the_default_is_in_the_search_space() -> None:
    for name, parameter in ((entry.name, p) for entry in ALGORITHMS for p in entry.parameters):
        space, default = parameter.tune, parameter.default
        if space is None or isinstance(default, str) or default is None:
            continue
        if space.choices:
            assert default in space.choices, (name, parameter.name)
        else:
            assert isinstance(space.low, str) or space.low <= default, (name, parameter.name)
            assert isinstance(space.high, str) or default <= space.high, (name, parameter.name)


def test_both_ends_of_a_search_space_are_accepted(name: str, model: object) -> None:
    sizes = {"clients": 4, "rounds": 4, "layers": 2}
    options = ALGORITHMS.get(name).options
    spaces = {p.name: p.tune.resolved(sizes) for p in ALGORITHMS.get(name).parameters if p.tune}
    spaces["training.lr"] = Space.of(options.lr_space or Training.model_fields["lr"].json_schema_extra["tune"])
    for end in (0, 1):
        drawn = options.model_construct().from_draw({name: space.ends[end] for name, space in spaces.items()})
        lr = drawn.pop("training.lr")
        simulation({"name": name} | FEWER.get(name, {}) | drawn, model=model, lr=lr)
