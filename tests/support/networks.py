"""Networks, with parameters and batches of several clients in double precision."""

import torch

from engine.config.schema import Choice
from engine.core.params import broadcast, clone
from engine.core.registry import MODELS
from engine.federation.batches import Batch
from engine.models import Model, build_model


def model_of(name: str, shape: tuple[int, ...] = (6,), classes: int = 3, **options) -> Model:
    return build_model(Choice(name, MODELS.get(name).options.model_validate(options)), shape, classes)


def stacked(model: Model, clients: int) -> dict[str, torch.Tensor]:
    start = {n: p.double() for n, p in model.initial(0).items()}
    generator = torch.Generator().manual_seed(1)
    return {
        n: p + 0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
        for n, p in clone(broadcast(start, clients)).items()
    }


def batch_of(counts: tuple[int, ...], shape: tuple[int, ...] = (6,), classes: int = 3) -> Batch:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(len(counts), max(counts), *shape, generator=generator, dtype=torch.float64)
    y = torch.randint(classes, (len(counts), max(counts)), generator=generator)
    if len(set(counts)) == 1:
        return Batch(x, y, None, counts)
    count = torch.tensor(counts, dtype=torch.float64)[:, None]
    return Batch(x, y, (torch.arange(max(counts)) < count) / count, counts)
