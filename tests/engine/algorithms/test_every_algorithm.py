"""The contract of every registered method, including plugins."""

from dataclasses import replace

import pytest
import torch

from engine.config.schema import Training
from engine.core.errors import CheckpointInvalid
from engine.core.registry import ALGORITHMS
from engine.core.spaces import Space
from engine.simulation import checkpoint_codec as states
from engine.simulation.simulate import Simulation
from tests.support.builders import (
    FEWER,
    NEWCOMERS,
    assert_close,
    config,
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


@pytest.mark.parametrize(
    ("name", "network"),
    [
        pytest.param(name, network, id=f"{name}-{kind}")
        for name in NAMES
        for kind, network in (("mlr", "mlr"), ("dnn", SPLIT))
        if network == SPLIT or supports(name, network)
    ],
)
def test_all_backends_give_the_state_of_the_loop(name, network):
    expected = all_tensors(trained(name, model=network, backend="loop", participation=0.75).state)
    for backend in ("batched", "fused"):
        found = all_tensors(trained(name, model=network, backend=backend, participation=0.75).state)
        assert_close(found, expected, 1e-8)


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_chunk_size(name, model, monkeypatch):
    options = {"model": model, "backend": "fused", "participation": 0.75}  # three clients, in chunks of two and one
    whole = all_tensors(trained(name, **options).state)
    monkeypatch.setattr("engine.backends.fused.Fused.chunk_size", lambda *_: 2)
    assert_close(all_tensors(trained(name, **options).state), whole, 1e-10)


def test_a_round_does_not_change_its_input_state(name, model):
    run = simulation(name, model=model)
    before = {n: t.clone() for n, t in all_tensors(run.state).items()}
    went_in = run.state
    run.algorithm.round(went_in, run.task.cohort(1), run.task)
    assert all(torch.equal(t, before[n]) for n, t in all_tensors(went_in).items())


def test_a_round_can_be_replayed(name, model):
    run = simulation(name, model=model)
    cohort = run.task.cohort(1)
    once, again = (run.algorithm.round(run.state, cohort, run.task)[0] for _ in range(2))
    assert all(torch.equal(t, all_tensors(again)[n]) for n, t in all_tensors(once).items())


def test_a_client_outside_the_cohort_keeps_its_state(name, model):
    """Client-side tensors have N rows in the state; those of absent clients must not change."""
    run = simulation(name, model=model, participation=0.5)
    cohort = run.task.cohort(1)
    outside = [i for i in range(run.task.num_clients) if i not in cohort.clients.tolist()]
    after, _ = run.algorithm.round(run.state, cohort, run.task)
    before = getattr(run.state, "personal_params", {})
    for n, p in before.items():
        assert torch.equal(after.personal_params[n][outside], p[outside])


def test_a_run_resumed_from_a_checkpoint_equals_an_uninterrupted_one(name, model):
    whole = simulation(name, model=model, rounds=4, participation=0.5)
    results = list(whole.rounds())
    first = simulation(name, model=model, rounds=4, participation=0.5)
    for result in first.rounds():
        if result.round == 2:
            break
    second = simulation(name, model=model, rounds=4, participation=0.5)
    second.restore(first.checkpoint())
    for expected, found in zip(results[3:], second.rounds(), strict=True):
        assert expected.round == found.round and expected.cohort.tolist() == found.cohort.tolist()
        for n, values in expected.arrays.items():
            assert values.tobytes() == found.arrays[n].tobytes(), n
    assert repr(second.summary()) == repr(whole.summary())


@pytest.mark.slow
def test_a_checkpoint_of_another_configuration_is_refused(name, model):
    data = _finished(simulation(name, model=model)).checkpoint()
    with pytest.raises(CheckpointInvalid, match="another configuration"):
        simulation(name, model=model, lr=0.2).restore(data)
    with pytest.raises(CheckpointInvalid):
        simulation(name, model=model).restore(data[:100])


def test_every_client_has_a_model_with_the_right_names_and_shapes(name, model):
    run = trained(name, model=model)
    like = run.task.initial_model()
    models = run.models("last")
    assert len(models.personalized) == run.task.num_clients
    for model in [*models.personalized, *([models.global_model] if models.global_model else [])]:
        shapes = {n: tuple(p.shape)[-like[n].dim() :] for n, p in model.items() if n in like}
        assert shapes == {n: tuple(p.shape) for n, p in like.items()}


def test_costs_are_recorded_and_only_participants_have_a_training_loss(name, model):
    results = list(simulation(name, model=model, participation=0.5).rounds())
    assert [results[0].scalars[n] for n in ("bytes_up", "bytes_down", "gradient_evaluations")] == [0, 0, 0]
    for result in results[1:]:
        assert result.scalars["gradient_evaluations"] > 0 and result.scalars["seconds"] > 0
        assert result.scalars["bytes_up"] >= 0 and result.scalars["bytes_down"] >= 0
        known = (~torch.from_numpy(result.arrays["train_loss"]).isnan()).nonzero()[:, 0].tolist()
        assert known == result.cohort.tolist()


@pytest.mark.slow
def test_a_run_in_single_precision_is_close_to_double_precision(name, model):
    double, single = (
        trained(name, model=model),
        Simulation(config(name, model=model, dtype="float32"), data=federation(dtype=torch.float32)),
    )
    for _ in single.rounds():
        pass
    assert_close({n: p.double() for n, p in personalized(single).items()}, personalized(double), 1e-3)


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


def test_a_newcomer_gets_its_own_model_and_the_server_does_not_change(name, model):
    run = trained(name, with_newcomers(), model=model, participation=0.5)
    before = {n: t.clone() for n, t in all_tensors(run.state).items()}
    models = adapted(run)
    assert all(torch.equal(t, before[n]) for n, t in all_tensors(run.state).items())
    for n, p in run.task.initial_model().items():
        assert n not in models or (models[n].shape[0] == 3 and models[n].shape[-p.dim() :] == p.shape), n
    assert all(p.isfinite().all() for p in models.values())


def test_a_newcomers_model_depends_only_on_its_training_data(name, model):
    run = trained(name, with_newcomers(), model=model)
    models, data = adapted(run), run.task.data
    pool = data.unseen.test.pool
    unknown = replace(data.unseen.test, pool=replace(pool, x=torch.full_like(pool.x, torch.nan)))
    run.task = replace(run.task, data=replace(data, unseen=replace(data.unseen, test=unknown)))
    assert_close(adapted(run), models, 0)
    run.task = replace(run.task, data=replace(data, unseen=federation(NEWCOMERS[:2], seed=7)))
    assert_close(adapted(run), {n: p[:2] for n, p in models.items()}, 1e-9)


def _finished(run: Simulation) -> Simulation:
    for _ in run.rounds():
        pass
    return run


def test_the_default_is_in_the_search_space(name: str) -> None:
    for parameter in ALGORITHMS.get(name).parameters:
        space, default = parameter.tune, parameter.default
        if space is None or isinstance(default, str) or default is None:
            continue
        if space.choices:
            assert default in space.choices, parameter.name
        else:
            assert isinstance(space.low, str) or space.low <= default, parameter.name
            assert isinstance(space.high, str) or default <= space.high, parameter.name


def test_both_ends_of_a_search_space_are_accepted(name: str, model: object) -> None:
    sizes = {"clients": 4, "rounds": 4, "layers": 2}
    options = ALGORITHMS.get(name).options
    spaces = {p.name: p.tune.resolved(sizes) for p in ALGORITHMS.get(name).parameters if p.tune}
    spaces["training.lr"] = Space.of(options.lr_space or Training.model_fields["lr"].json_schema_extra["tune"])
    for end in (0, 1):
        drawn = options.model_construct().from_draw({name: space.ends[end] for name, space in spaces.items()})
        lr = drawn.pop("training.lr")
        simulation({"name": name} | FEWER.get(name, {}) | drawn, model=model, lr=lr)
