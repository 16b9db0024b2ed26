"""Malicious clients: who they are, and the labels they train on."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from engine.attacks import Attack, Poison, poisoned
from engine.core.errors import Unsupported
from engine.core.streams import numpy_stream
from engine.federation.clients import ClientData, Federation


def with_malicious(data: Federation, attack: Attack, share: float, seed: int) -> Federation:
    """The federation with round(share N) malicious clients, the same for every method of an experiment.

    Their training labels are changed if the attack does so; validation and test labels, and held-out clients, stay.
    Raises Unsupported.
    """
    count, N = round(share * data.num_clients), data.num_clients
    if count == N:
        clients = "1 client" if N == 1 else f"{N} clients"
        raise Unsupported(f"attack.share={share:g} of {clients} leaves no benign client to measure; lower it")
    is_malicious = np.zeros(N, bool)
    is_malicious[numpy_stream(seed, "malicious").choice(N, count, replace=False)] = True
    notes = data.notes
    if not count:
        notes = (*notes, f"attack.share={share:g} of {N} clients is less than one, so no client is malicious")
    train = data.train
    if attack.poison is not None and count:
        labels = _relabeled(train, is_malicious, attack.poison, data.num_classes, seed)
        train = replace(train, relabeled=labels)
    summary = replace(data.summary, malicious=tuple(is_malicious.tolist()))
    return replace(data, train=train, summary=summary, notes=notes, malicious=is_malicious)


def _relabeled(train: ClientData, is_malicious: np.ndarray, how: Poison, num_classes: int, seed: int) -> Tensor:
    labels, offsets = train.all_labels.cpu().numpy().copy(), train.offsets.cpu().numpy()
    for client in np.flatnonzero(is_malicious).tolist():
        own = slice(offsets[client], offsets[client + 1])
        rng = numpy_stream(seed, "attack", "labels", client)
        labels[own] = poisoned(labels[own], how, num_classes, rng)
    return torch.from_numpy(labels).to(train.rows.device)
