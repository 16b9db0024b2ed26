"""Writes models as ordinary state dicts in safetensors, one file per model."""

from pathlib import Path

import safetensors.torch

from engine.core.params import SharedParams, row
from engine.simulation.simulate import Models


def write_models(folder: Path, models: Models) -> None:
    """Writes ``initial``, ``personalized-<client>`` and, if the method has one, ``global``.

    A method with several global models (one per context) writes ``global-<client>`` instead. Models of an earlier run
    in the folder are removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in ("initial", "global", "global-*", "personalized-*"):
        for old in folder.glob(f"{pattern}.safetensors"):
            old.unlink()
    _write(folder / "initial", models.initial)
    for i, params in enumerate(models.personalized):
        _write(folder / f"personalized-{i}", params)
    shared = models.global_model
    if shared is not None and models.is_global_per_client:
        for i in range(len(models.personalized)):
            _write(folder / f"global-{i}", row(shared, i))
    elif shared is not None:
        _write(folder / "global", shared)


def _write(path: Path, params: SharedParams) -> None:
    safetensors.torch.save_file(
        {n: p.detach().cpu().contiguous().clone() for n, p in params.items()},
        path.with_name(f"{path.name}.safetensors"),
    )
