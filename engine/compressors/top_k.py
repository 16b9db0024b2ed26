"""Top-k: the largest numbers of an update are sent, and the client keeps the rest for later.

Stich, Cordonnier, Jaggi. Sparsified SGD with Memory. NeurIPS 2018. https://arxiv.org/abs/1809.07599
Karimireddy, Rebjock, Stich, Jaggi. Error Feedback Fixes SignSGD and other Gradient Compression Schemes. ICML 2019.
https://arxiv.org/abs/1901.09847

    received_i <- the k = max(1, round(share P)) largest of e_i + Delta_i, by magnitude; 0 elsewhere
    e_i <- e_i + Delta_i - received_i                     waits while a client sits out

Bits: k times a number and its place, ceil(log2 P) bits. Where that is no less than P numbers, all are sent.

Pitfalls: counting values without their places, which would make a share of 100 % look free; an e_i that belongs to a
place in the cohort and not to a client; an e_i where clients keep what they send (FedFomo, FedProto), so that their
next update contains the rest anyway, which would count twice.
"""

from dataclasses import dataclass
from math import ceil, log2

import torch
from pydantic import Field

from engine.compressors import Compressed, Compressor, Updates
from engine.core.registry import COMPRESSORS, Options


class TopKOptions(Options):
    share: float = Field(
        0.01, gt=0, le=1, title="Share sent", description="Share of the values that are sent; smaller = fewer bytes."
    )
    feedback: bool = Field(
        True, title="Error feedback", description="Add what was left out to the client's next update."
    )


@COMPRESSORS.register("top_k", title="Top-k", paper="Stich et al., NeurIPS 2018")
@dataclass(frozen=True)
class TopK(Compressor):
    options: TopKOptions

    @property
    def feedback(self) -> bool:
        return self.options.feedback

    def compress(self, updates: Updates) -> Compressed | None:
        delta, num_values, device = updates.delta, updates.num_values.tolist(), updates.delta.device
        count = delta.shape[1]
        entry = updates.value_bits + ceil(log2(max(count, 1)))
        kept = [min(n, count, max(1, round(self.options.share * n))) for n in num_values]
        sparse, dense = [k * entry for k in kept], [n * updates.value_bits for n in num_values]
        if all(few >= many for few, many in zip(sparse, dense, strict=True)):
            return None
        kept = [count if few >= many else k for k, few, many in zip(kept, sparse, dense, strict=True)]
        limit = torch.tensor(kept, device=device)
        largest = delta.abs().topk(max(kept), dim=1).indices
        is_sent = torch.arange(max(kept), device=device) < limit[:, None]
        received = torch.zeros_like(delta).scatter_(1, largest, delta.gather(1, largest) * is_sent)
        return Compressed(received, torch.tensor([*map(min, sparse, dense)], device=device))
