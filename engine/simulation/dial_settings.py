"""The settings that act on uploads, from a configuration: what they are, what is refused, what has no effect."""

from collections.abc import Iterator
from typing import Any

import torch

from engine.aggregators.mean import Mean
from engine.attacks import Attack
from engine.channel.dials import Dials
from engine.compressors.none import Uncompressed
from engine.config.schema import DIALS, RunConfig
from engine.core.errors import Unsupported
from engine.core.registry import AGGREGATORS, ATTACKS, COMPRESSORS
from engine.federation.clients import Federation
from engine.federation.malicious import with_malicious
from engine.task import Shared

_TWO_THINGS = ("scaffold",)
_CHOOSES_CLIENTS = ("krum", "multi_krum")
_NO_AVERAGE = ("pfedhn", "plgu_ghn", "fedproto", "kt_pfl")


def refuse(config: RunConfig) -> None:
    """Raises Unsupported for an aggregator that does not fit the method."""
    method, rule = config.algorithm.name, config.aggregator.name if config.aggregator else "mean"
    way_out = "take aggregator: mean"
    if method in _TWO_THINGS and rule in _CHOOSES_CLIENTS:
        raise Unsupported(
            f"{method} sends two things, and {rule} might keep different clients for each; {way_out}, or median"
        )
    if method in _NO_AVERAGE and rule != "mean":
        raise Unsupported(f"{method} does not average models, so aggregator: {rule} has nothing to act on; {way_out}")


def attacked(config: RunConfig, data: Federation) -> Federation:
    """The federation with its malicious clients, if there is an attack."""
    attack = _attack(config)
    if attack is None:
        return data
    return with_malicious(data, attack, _share(config), config.seed)


def dials(config: RunConfig, data: Federation, device: torch.device) -> Dials | None:
    """What happens to uploads; None if nothing is set."""
    if all(getattr(config, name) is None for name in DIALS):
        return None
    is_malicious = None if data.malicious is None else torch.from_numpy(data.malicious).to(device)
    rule = Mean() if config.aggregator is None else _made(AGGREGATORS, config.aggregator)
    compressor = Uncompressed() if config.compression is None else _made(COMPRESSORS, config.compression)
    return Dials(config.seed, data.num_clients, _attack(config), is_malicious, _share(config), rule, compressor)


def notes(config: RunConfig, shared: Shared) -> Iterator[str]:
    """One note for each setting that cannot act, because the method sends nothing."""
    if any(shared.up):
        return
    for name in DIALS:
        if getattr(config, name) is not None:
            yield f"{config.algorithm.name}: nothing travels; {name} has no effect"


def _attack(config: RunConfig) -> Attack | None:
    attack: Attack | None = None if config.attack is None else _made(ATTACKS, config.attack)
    return attack


def _share(config: RunConfig) -> float:
    return float(getattr(config.attack.options, "share", 0.0)) if config.attack else 0.0


def _made(registry: Any, choice: Any) -> Any:
    """The registered class with its options, if it takes any."""
    entry = registry.get(choice.name)
    return entry.make(choice.options) if entry.parameters else entry.make()
