"""What the models of texts share: they take token ids, the numbers of words in their order, and no other model does."""

import torch
from torch import Tensor, nn

from engine.core.errors import Unsupported
from engine.models import Model


def require_fitting_tokens(model: Model, x: Tensor) -> None:
    """Raises Unsupported where an embedding would meet quantities, or another model token ids.

    Data sets store token ids as int32; those of the user's own file arrive as floats, which are whole and not negative.
    """
    embeds = any(isinstance(module, nn.Embedding) for module in model.module.modules())
    may_be_ids = (
        bool(((x >= 0) & (x == x.round())).all()) if embeds and x.is_floating_point() else x.dtype == torch.int32
    )
    if embeds and not may_be_ids:
        raise Unsupported(
            "this model looks words up by their numbers, and these samples are no token ids; use model: mlr or dnn, "
            "or dataset: amazon_review with representation: tokens"
        )
    if may_be_ids and not embeds:
        raise Unsupported(
            "these samples are token ids, and this model would take the numbers of words for quantities; "
            "use model: text_embedding, or representation: bag under dataset"
        )
