"""Models as files that anyone can load: ordinary state dicts in safetensors, one file a model."""

from pathlib import Path

import safetensors.torch

from engine.ops import SharedParams
from engine.simulate import Models


def write_models(folder: Path, models: Models) -> None:
    """``initial``, ``personalized-<client>`` and, where the method has one, ``global``.

    A method whose clients are given different global models (one a context) has ``global-<client>`` instead.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "initial", models.initial)
    for i, params in enumerate(models.personalized):
        _write(folder / f"personalized-{i}", params)
    if models.global_model is not None:
        for name, params in _global_models(models.global_model, models.initial).items():
            _write(folder / name, params)


def _global_models(params: SharedParams, initial: SharedParams) -> dict[str, SharedParams]:
    some = next(iter(initial))
    if some not in params or params[some].dim() == initial[some].dim():
        return {"global": params}
    return {f"global-{i}": {n: p[i] for n, p in params.items()} for i in range(len(params[some]))}


def _write(path: Path, params: SharedParams) -> None:
    safetensors.torch.save_file(
        {n: p.detach().cpu().contiguous().clone() for n, p in params.items()},
        path.with_name(f"{path.name}.safetensors"),
    )
