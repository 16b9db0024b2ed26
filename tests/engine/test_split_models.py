"""Methods that keep one part of the model with its client: what travels, what stays, and what each part learns from."""

import pytest
import torch

from engine.backends import add_silently, choose_backend
from tests.engine.test_backends import batch_of, model_of, stacked
from tests.support.builders import federation

CPU = torch.device("cpu")


# --- What the methods stand on


def test_class_counts_are_of_training_samples_alone():
    data = federation()
    for i, counts in enumerate(data.class_counts):
        assert counts.tolist() == torch.bincount(data.train.of_client(i)[1], minlength=3).tolist()


def test_a_silent_term_moves_the_gradient_and_not_the_value():
    w = torch.tensor(3.0, requires_grad=True)
    loss = add_silently(w.square(), 10 * w)
    loss.backward()
    assert loss.item() == 9.0 and w.grad.item() == 16.0


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
def test_backends_train_parameters_that_a_method_adds_to_the_models_own(backend):
    model = model_of("mlr", l2=0.5)
    params = {**stacked(model, 2), "scale": torch.tensor([2.0, 3.0], dtype=torch.float64)}
    out = {"scale": torch.ones(2, dtype=torch.float64)}
    objective = lambda model, own, x, y, weight, extras: own["scale"].square()  # noqa: E731
    losses = choose_backend(backend, model, CPU).accumulate(out, params, batch_of((3, 2)), -0.5, 0.5, objective)
    assert losses.tolist() == [4.0, 9.0] and out["scale"].tolist() == [0.5 - 2.0, 0.5 - 3.0]
