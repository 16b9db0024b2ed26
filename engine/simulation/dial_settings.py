"""The settings that act on uploads, from a configuration: what they are, and what has no effect."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from engine.aggregators.mean import Mean
from engine.attacks import Attack
from engine.channel.dials import Dials
from engine.compressors.none import Uncompressed
from engine.config.schema import DIAL_KEYS, DIALS, RunConfig
from engine.config.system import System
from engine.core.registry import AGGREGATORS, ATTACKS, COMPRESSORS
from engine.federation.batches import num_local_samples
from engine.federation.clients import Federation
from engine.federation.malicious import with_malicious
from engine.federation.systems import LEAST_AVAILABLE, Systems, systems_of
from engine.privacy.client_level import ClientLevel, client_level
from engine.task import Shared

LARGE_DELTA = 0.01


def attacked(config: RunConfig, data: Federation) -> Federation:
    """The federation with its malicious clients, if there is an attack and it does not have them already.

    The federation of an earlier simulation of the run has them: labels must not be poisoned twice. Raises Unsupported.
    """
    attack = _attack(config)
    if attack is None or data.malicious is not None:
        return data
    return with_malicious(data, attack, _share(config), config.seed)


def systems(config: RunConfig, data: Federation) -> Systems | None:
    """The clients' devices, if they are simulated. Raises Unsupported."""
    return None if config.system is None else systems_of(config.system, data, config.seed)


def dials(config: RunConfig, data: Federation, device: torch.device, systems: Systems | None = None) -> Dials | None:
    """What happens to uploads; None if nothing is set. With privacy of samples they are only recorded."""
    if all(getattr(config, name) is None for name in DIAL_KEYS):
        return None
    privacy = _client_level(config, data.num_clients)
    is_malicious = None if data.malicious is None else torch.from_numpy(data.malicious).to(device)
    rule = Mean() if config.aggregator is None else _made(AGGREGATORS, config.aggregator)
    compressor = Uncompressed() if config.compression is None else _made(COMPRESSORS, config.compression)
    attack, share = _attack(config), _share(config)
    return Dials(config.seed, data.num_clients, attack, is_malicious, share, rule, compressor, systems, privacy)


def _client_level(config: RunConfig, num_clients: int) -> ClientLevel | None:
    """The mechanism that hides clients, if there is one. Raises Unsupported."""
    privacy, training, system = config.privacy, config.training, config.system
    if privacy is None or privacy.unit != "client":
        return None
    is_sampling_known = system is None or not (system.loses_uploads or system.availability < 1)
    makes_room = system is not None and system.over_select > 1 and training.participation < 1
    return client_level(
        privacy,
        config.seed,
        num_clients,
        training.participation,
        training.rounds,
        is_sampling_known=is_sampling_known,
        makes_room=makes_room,
    )


def notes(
    config: RunConfig,
    data: Federation,
    shared: Shared,
    bytes_down: Int[np.ndarray, "N"],
    dials: Dials | None,
    no_feedback: str,
) -> Iterator[str]:
    """Notes on settings that cannot act, and on the guarantee. Each names its section, so that a form can place it.

    ``bytes_down``: what each client receives; ``no_feedback``: see ``engine.algorithms.no_feedback``.
    """
    if config.system is not None:
        yield from _system_notes(config.system, config.training.participation)
    if any(shared.up):
        if dials is not None and dials.compressor.feedback and no_feedback:
            yield f"{config.algorithm.name}: {no_feedback}; compression.feedback has no effect"
        if dials is not None:
            yield from _deadline_notes(config, data, dials.systems, bytes_down)
            yield from _attack_notes(config, dials)
            yield from _aggregator_notes(config, dials)
        yield from _privacy_notes(config)
        if dials is not None and dials.privacy is not None:
            yield _guarantee(dials.privacy, config.training.rounds)
        return
    for name in DIALS:
        if getattr(config, name) is not None:
            yield f"{config.algorithm.name}: nothing is sent; {name} has no effect"
    if config.privacy is not None and config.privacy.unit == "client":
        private = "clients are private anyway; privacy adds nothing, and ε is 0"
        yield f"{config.algorithm.name}: nothing is sent, so {private}"
    if config.system is not None and config.system.loses_uploads:
        waiting = "deadline_s, over_select and drop_out of system have no effect"
        yield f"{config.algorithm.name}: nothing is sent; {waiting}, and a round lasts as long as its slowest client"


def _system_notes(system: System, participation: float) -> Iterator[str]:
    if system.deadline_s is not None and not system.takes_time:
        yield f"system.deadline_s={system.deadline_s:g}: nothing takes time, so no upload is late; set compute_s"
    if system.over_select > 1 and participation == 1:
        yield f"system.over_select={system.over_select:g}: all clients participate already, so it has no effect"
    is_alike = system.availability == 1 or system.availability <= LEAST_AVAILABLE
    if system.tie != "none" and is_alike and not (system.compute_s and system.compute_spread):
        yield f"system.tie={system.tie}: no client computes slower or is available less; set compute_s or availability"


def _deadline_notes(
    config: RunConfig, data: Federation, systems: Systems | None, bytes_down: Int[np.ndarray, "N"]
) -> Iterator[str]:
    deadline = None if systems is None else systems.options.deadline_s
    if systems is None or deadline is None:
        return
    training, clients = config.training, np.arange(data.num_clients)
    samples = [
        num_local_samples(size, training.batch_size, training.local_steps, training.local_epochs)
        for size in data.summary.train_sizes
    ]
    seconds = systems.compute_s(clients, np.array(samples, float))
    seconds += systems.send_s(clients, bytes_down.astype(float), np.zeros(len(clients)))
    if (fastest := seconds.min()) > deadline:
        shown = f"{fastest:,.0f}" if fastest >= 100 else f"{fastest:.3g}"
        what = f"the fastest client needs {shown} s to receive the model and compute a round's batches"
        yield f"system.deadline_s={deadline:g}: {what}, so what clients send after training is late; raise it"


def _attack_notes(config: RunConfig, dials: Dials) -> Iterator[str]:
    uploads = max(1, round(num_sampled(config, dials.num_clients)))
    malicious = dials.expected_malicious(uploads)
    if dials.attack is not None and malicious and (weakness := dials.attack.weakness(uploads, malicious)):
        yield f"attack: with {malicious:,} of {uploads:,} uploads malicious, {weakness}"


def _aggregator_notes(config: RunConfig, dials: Dials) -> Iterator[str]:
    if config.aggregator is None:
        return
    uploads = _expected_uploads(config, dials.num_clients)
    needed = dials.aggregator.needs(dials.expected_malicious(uploads))
    if uploads < needed:
        what = f"{config.aggregator.name} needs at least {needed:,} uploads to act"
        expected = "1 is" if uploads == 1 else f"{uploads:,} are"
        yield f"aggregator: {what}, and {expected} expected in a round; change its options, or raise participation"


def _expected_uploads(config: RunConfig, num_clients: int) -> int:
    """The expected number of uploads that the server uses in a round, if none is late."""
    wanted = max(1, round(config.training.participation * num_clients))
    reporting = 1 - (config.system.drop_out if config.system else 0.0)
    return min(wanted, max(1, round(num_sampled(config, num_clients) * reporting)))


def num_sampled(config: RunConfig, num_clients: int) -> float:
    """The expected number of clients that are sampled in a round."""
    available = config.system.availability if config.system else 1.0
    return min(config.sampled_share, available) * num_clients


def _privacy_notes(config: RunConfig) -> Iterator[str]:
    privacy, system = config.privacy, config.system
    if privacy is None or privacy.unit != "client":
        return
    yield "privacy: all clients count alike in the mean, since weights by samples would reveal how many they have"
    if system is None or config.training.participation == 1:
        return
    if system.loses_uploads or system.availability < 1:
        yield "privacy: which clients are absent is not purely random, so ε is that of all clients in every round"
    if system.over_select > 1 and privacy.sampling == "poisson":
        yield (
            f"privacy: with system.over_select={system.over_select:g} another client takes the place of an absent one, "
            "so ε is computed with half of the noise"
        )


def _guarantee(privacy: ClientLevel, rounds: int) -> str:
    if not privacy.noise:
        return "privacy: without noise there is no guarantee"
    epsilon = f"ε = {privacy.epsilon(rounds):.3g} at δ = {privacy.delta:.2g}"
    found = f"privacy: noise z = {privacy.noise:.3g} guarantees {epsilon} after {rounds:,} rounds"
    if privacy.delta > LARGE_DELTA:
        return f"{found}; such a large δ means little protection: set privacy.delta, for instance to 1e-5"
    return found


def _attack(config: RunConfig) -> Attack | None:
    attack: Attack | None = None if config.attack is None else _made(ATTACKS, config.attack)
    return attack


def _share(config: RunConfig) -> float:
    return float(getattr(config.attack.options, "share", 0.0)) if config.attack else 0.0


def _made(registry: Any, choice: Any) -> Any:
    """The registered class with its options, if it takes any."""
    entry = registry.get(choice.name)
    return entry.make(choice.options) if entry.parameters else entry.make()
