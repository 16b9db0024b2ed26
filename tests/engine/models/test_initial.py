"""Initial parameters: drawn from a stream of their own, also by many threads at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

from engine.core.streams import key
from engine.models import Params
from tests.support.networks import model_of

SEEDS, THREADS, WAIT_S = 30, 6, 60


def expected(seed: int) -> Params:
    model = model_of("dnn", (20,), 5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "initial model", 0))
        return dict(model.make().named_parameters())


def same(one: Params, other: Params) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def test_the_parameters_are_those_of_pytorchs_seed() -> None:
    model = model_of("dnn", (20,), 5)
    assert all(same(model.initial(seed), expected(seed)) for seed in range(3))


def test_threads_that_build_models_at_once_do_not_mix_their_numbers() -> None:
    right = [expected(seed) for seed in range(SEEDS)]
    together = Barrier(THREADS)

    def draw(_: int) -> bool:
        together.wait(WAIT_S)
        return all(same(model_of("dnn", (20,), 5).initial(seed), right[seed]) for seed in range(SEEDS))

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(draw, range(THREADS)))


def test_the_global_generator_is_left_as_it_was() -> None:
    model = model_of("dnn", (20,), 5)
    before = torch.get_rng_state()
    model.initial(3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", [torch.cuda, torch.xpu, torch.mtia])
def test_no_calls_are_kept_for_gpus_that_are_not_there(kind, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Callable[..., object]] = []
    monkeypatch.setattr(kind, "_lazy_call", lambda call, **_: called.append(call))
    model, queued = model_of("dnn", (20,), 5), len(kind._queued_calls)
    for seed in range(3):
        model.initial(seed)
    assert not called and len(kind._queued_calls) == queued
