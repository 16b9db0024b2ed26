"""The provenance of a run: versions, device, data and warnings."""

import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

import torch

from engine.core.code_digest import code_digest
from engine.core.results import Provenance
from engine.task import Task
from engine.version import CODE_VERSION

_PACKAGES = ("torch", "numpy", "scikit-learn", "torchvision")


def provenance_of(task: Task) -> Provenance:
    """The current provenance; warnings may be added later. ``extra`` has the model's layers, from input to output.

    ``code`` is the version with a digest of the source files and plugins: ``0.1.0+9f86d081884c``.
    """
    return Provenance(
        versions={"python": platform.python_version(), **{p: _version(p) for p in _PACKAGES}},
        device=torch.cuda.get_device_name(task.device) if task.device.type == "cuda" else "cpu",
        backend=task.backend.name,
        threads=torch.get_num_threads(),
        dataset_fingerprint=task.data.fingerprint,
        code=f"{CODE_VERSION}+{code_digest()}",
        warnings=tuple(task.notes),
        extra={"layers": [_module(names) for names in task.model.layers]},
    )


def _module(names: tuple[str, ...]) -> str:
    """The name of the layer with these parameters: ``body.0``."""
    return names[0].rpartition(".")[0]


@lru_cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
