"""Shared by the text models: only they accept token ids."""

import torch
from torch import Tensor, nn

from engine.core.errors import Unsupported
from engine.models import Model
from engine.models.sequences import CharacterEmbedding
from engine.models.text_embedding import MeanEmbedding


def require_fitting_tokens(model: Model, x: Tensor, buckets: int | None = None) -> None:
    """Raises Unsupported if an embedding gets features instead of token ids, or another model gets token ids.

    The ids must also fit the model's table, which has as many rows as a data set of hashed words has ``buckets``.

    Data sets store token ids as int32; ids in a user's own file arrive as non-negative whole floats. Values that are
    uint8 are pixels or counts of words.
    """
    tables = [m for m in model.module.modules() if isinstance(m, CharacterEmbedding | MeanEmbedding)]
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
    if not tables:
        return
    rows, is_of_words = tables[0].num_embeddings, isinstance(tables[0], MeanEmbedding)
    if is_of_words and buckets not in (None, rows):
        raise Unsupported(
            f"the data set has buckets={buckets:,}, and the model has buckets={rows:,}; they must be equal: "
            f"set buckets: {buckets} under model"
        )
    if len(x) and (largest := int(x.max())) >= rows:
        option, other = ("buckets", "") if is_of_words else ("vocabulary", ", or use model: text_embedding for words")
        raise Unsupported(
            f"these samples have ids up to {largest:,}, and the model has {option}={rows:,}; "
            f"set {option}: {largest + 1} under model{other}"
        )
