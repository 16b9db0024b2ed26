"""Curvature and sharpness of trained models."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.autograd.functional import hessian

from engine.analyses.sharpness_of import Options, Sharpness
from engine.analyses.support.loaded_run import Subject
from tests.support.subjects import subject_of


def measures(run: Subject, **options) -> list[dict]:
    return Sharpness(Options(**options)).compute(run).values["measures"]


def test_curvature_of_softmax_regression_matches_its_full_hessian() -> None:
    run = subject_of("local_train")
    params, (x, y) = run.models.personalized[1], run.task.data.test.of_client(1)

    def loss(w: torch.Tensor) -> torch.Tensor:
        logits = run.task.model.logits({"head.weight": w[:15].view(3, 5), "head.bias": w[15:]}, x)
        return torch.nn.functional.cross_entropy(logits, y)

    whole = hessian(loss, torch.cat([params["head.weight"].flatten(), params["head.bias"]]))
    (row,) = [r for r in measures(run, client=1) if r["on"] == "own"]
    assert row["eigenvalue"] == pytest.approx(float(torch.linalg.eigvalsh(whole)[-1]), rel=2e-3)
    assert row["trace"] == pytest.approx(float(whole.trace())) and row["trace_error"] == 0
    assert row["loss"] <= row["first_order"] <= row["worst"]


@pytest.mark.slow
def test_eigenvalues_of_all_clients_equal_those_of_each() -> None:
    run = subject_of("ditto")
    found = Sharpness(Options(of="clients")).compute(run)
    (row,) = [r for r in measures(run, client=2) if (r["model"], r["on"]) == ("personalized", "own")]
    assert found.arrays["eigenvalue"].shape == (4,)
    assert found.arrays["eigenvalue"][2] == pytest.approx(row["eigenvalue"], rel=2e-2)
    assert found.arrays["rise"][2] == pytest.approx(row["worst"] - row["loss"])


def test_curvature_does_not_depend_on_the_block_size(monkeypatch) -> None:
    run, few = subject_of("local_train", model={"name": "dnn", "hidden": 4}), {"steps": 3, "vectors": 2}
    whole = measures(run, **few)
    monkeypatch.setattr("engine.analyses.support.surface._STORED_BYTES", 800)
    for mine, other in zip(measures(run, **few), whole, strict=True):
        assert {n: mine[n] for n in ("eigenvalue", "trace", "worst")} == pytest.approx(
            {n: other[n] for n in ("eigenvalue", "trace", "worst")}
        )


def test_a_non_finite_model_has_no_values() -> None:
    run = subject_of("local_train")
    run.models.personalized[0]["head.bias"].fill_(torch.nan)
    row = measures(run)[0]
    assert row["loss"] is row["eigenvalue"] is row["trace"] is None


def test_progress_never_decreases() -> None:
    shares: list[float] = []
    measures(replace(subject_of("ditto"), progress=shares.append))
    assert shares == sorted(shares) and shares[-1] <= 1 and not np.isnan(shares).any()
