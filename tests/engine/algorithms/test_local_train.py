"""Local training is plain SGD on each client."""

import numpy as np

from tests.support import reference
from tests.support.builders import personalized, trained
from tests.support.reference import as_matrix, batches_of


def test_local_train_is_plain_sgd_on_each_client():
    run = trained("local_train", rounds=2)
    start = as_matrix(run.task.initial_model())
    for i, (first, second) in enumerate(zip(batches_of(run, 1), batches_of(run, 2), strict=True)):
        expected = reference.sgd(reference.sgd(start, first, 0.1), second, 0.1)
        np.testing.assert_allclose(as_matrix(personalized(run))[i], expected, atol=1e-12)
