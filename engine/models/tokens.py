"""Shared by the text models: only they accept token ids."""

import torch
from torch import Tensor, nn

from engine.core.errors import Unsupported
from engine.models import Model
from engine.models.sequences import CharacterEmbedding


def require_fitting_tokens(model: Model, x: Tensor) -> None:
    """Raises Unsupported if an embedding gets features instead of token ids, or another model gets token ids.

    Data sets store token ids as int32; ids in a user's own file arrive as non-negative whole floats. Values that are
    uint8 are pixels or counts of words.
    """
    tables = [module for module in model.module.modules() if isinstance(module, CharacterEmbedding)]
    embeds = any(isinstance(module, nn.Embedding) for module in model.module.modules())
    may_be_ids = (
        bool(((x >= 0) & (x == x.round())).all()) if embeds and x.is_floating_point() else x.dtype == torch.int32
    )
    if embeds and not may_be_ids:
        raise Unsupported(
            "this model requires token ids: whole numbers from 0, in your own file saved as int32 and not as uint8; "
            "use model: mlr or dnn, or dataset: shakespeare, or dataset: amazon_review with representation: tokens"
        )
    if may_be_ids and not embeds:
        raise Unsupported(
            "these samples are token ids, which this model would treat as quantities; "
            "use model: text_embedding, or representation: bag under dataset; for characters, model: char_lstm"
        )
    if tables and len(x) and (largest := int(x.max())) >= tables[0].num_embeddings:
        raise Unsupported(
            f"these samples have ids up to {largest:,}, and the model has vocabulary={tables[0].num_embeddings:,}; "
            f"set vocabulary: {largest + 1} under model, or use model: text_embedding for words"
        )
