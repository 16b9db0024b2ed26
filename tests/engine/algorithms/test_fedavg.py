"""FedAvg: a weighted mean of local SGD, and fine-tuning that does not change the global model."""

import numpy as np
import torch

from tests.support import reference
from tests.support.builders import SIZES, assert_equal, federation, personalized, shared_model, trained
from tests.support.reference import as_matrix, batches_of


def test_fedavg_with_one_client_is_plain_sgd():
    data = federation(sizes=(8,))
    assert_equal(
        {n: p[None] for n, p in shared_model(trained("fedavg", data)).items()},
        personalized(trained("local_train", data)),
    )


def test_fedavg_with_one_full_step_is_a_gradient_step_on_the_pooled_loss():
    run = trained("fedavg", rounds=1, local_steps=1, batch_size="full", model={"name": "mlr", "init": "zeros"})
    data = run.task.data.train
    pooled = reference.gradient(np.zeros((3, 6)), *(samples.numpy() for samples in data.of_everyone()))
    np.testing.assert_allclose(as_matrix(shared_model(run)), -0.1 * pooled, atol=1e-12)


def test_fedavg_weights_clients_by_their_training_samples():
    run = trained("fedavg", rounds=1)
    copies = [reference.sgd(as_matrix(run.task.initial_model()), b, 0.1) for b in batches_of(run, 1)]
    np.testing.assert_allclose(as_matrix(shared_model(run)), np.average(copies, axis=0, weights=SIZES), atol=1e-12)


def test_fine_tuning_starts_from_the_global_model_and_does_not_change_it():
    tuned, plain = trained({"name": "fedavg", "finetune_steps": 2}), trained("fedavg")
    assert_equal(shared_model(tuned), shared_model(plain))
    assert not torch.equal(personalized(tuned)["head.weight"], personalized(plain)["head.weight"])
