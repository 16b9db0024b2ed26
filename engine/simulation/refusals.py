"""Refuses dials that do not fit the method before training, by what the method declares about its uploads."""

from collections.abc import Iterator
from itertools import chain

from engine.config.schema import RunConfig
from engine.config.system import System
from engine.core.errors import Unsupported
from engine.core.registry import ALGORITHMS, ATTACKS, Entry

_CHOOSES_CLIENTS = ("krum", "multi_krum")


def refuse(config: RunConfig) -> None:
    """Raises Unsupported for a combination that has no meaning or no guarantee."""
    problem = next(chain(_of_aggregator(config), _of_privacy(config)), None)
    if problem is not None:
        raise Unsupported(problem)


def _of_aggregator(config: RunConfig) -> Iterator[str]:
    method, rule = ALGORITHMS.get(config.algorithm.name), _rule(config)
    way_out = "use aggregator: mean"
    if method.two_uploads and rule in _CHOOSES_CLIENTS:
        yield f"{method.name} sends two things, and {rule} might keep different clients for each; {way_out}, or median"
    if not method.averages and rule != "mean":
        yield f"{method.name} does not average models, so aggregator: {rule} has nothing to act on; {way_out}"


def _of_privacy(config: RunConfig) -> Iterator[str]:
    method, privacy = ALGORITHMS.get(config.algorithm.name), config.privacy
    if privacy is None:
        return
    if privacy.unit not in method.privacy:
        yield f"privacy: {method.name} {_REASON[privacy.unit]}; {_way_out(privacy.unit, method.privacy)}"
    if theory := [name for name, value in config.hparams.items() if value == "theory"]:
        yield (
            f"privacy: {method.name} with {' and '.join(theory)}: 'theory' reads all clients' data, outside the "
            "mechanism; give a number"
        )
    if privacy.unit == "client":
        if config.attack is not None and getattr(ATTACKS.get(config.attack.name).make, "reads_others", False):
            yield (
                f"privacy: with attack: {config.attack.name} one client changes what the malicious ones send, so more "
                "than one upload depends on it; choose another attack"
            )
        if method.until_settled and _waits_for_the_first(config.system):
            yield (
                f"privacy: {method.name} computes until its weights settle, so whose upload is late depends on all "
                "clients' data; remove deadline_s and over_select of system"
            )
        if _rule(config) != "mean":
            yield f"privacy: the noise is calibrated to a mean, not to {_rule(config)}; use aggregator: mean"
        if config.hparams.get("lam") == "adaptive":
            yield (
                f"privacy: the lambda of {method.name} is estimated from the clients' own models, outside the "
                "mechanism; give lam as a number"
            )
    else:
        if config.training.clip_norm is not None:
            yield "privacy: training.clip_norm would clip one gradient twice; remove it"
        if config.training.batch_size == "full":
            yield "privacy: training.batch_size='full', but sampling is part of the guarantee; give a batch size"
        if privacy.covers == "all":
            yield from _of_evaluation(config, method)


def _of_evaluation(config: RunConfig, method: Entry) -> Iterator[str]:
    """Refuses methods that make models outside of rounds, or do not say whether they do."""
    if method.at_evaluation is None:
        yield (
            f"privacy.covers: 'all', but {method.name} does not declare with at_evaluation whether it makes models "
            "from raw data at evaluation, outside the private rounds; declare it where it is registered, or use "
            "covers: sent"
        )
    elif used := [name for name in method.at_evaluation if config.hparams[name]]:
        yield (
            f"privacy.covers: 'all', but {method.name} makes each client's model from its raw data at evaluation, "
            f"outside the private rounds; set {' and '.join(f'{n}: 0' for n in used)}, or covers: sent"
        )


def _waits_for_the_first(system: System | None) -> bool:
    """Whether an upload may be left out because it is late."""
    return system is not None and system.takes_time and (system.deadline_s is not None or system.over_select > 1)


_REASON = {
    "client": "reads single uploads (clusters, networks, prototypes, weights) or sends more than one thing, and "
    "client-level privacy is defined for one mean a round",
    "sample": "uses the data beyond sums of per-sample gradients (second derivatives, prototypes, statistics of a "
    "batch, class counts, losses)",
}


def _way_out(unit: str, units: tuple[str, ...]) -> str:
    other = f", or privacy.unit: {units[0]}" if units else ""
    return f"choose a method that averages models{other}" if unit == "client" else f"choose another method{other}"


def _rule(config: RunConfig) -> str:
    return config.aggregator.name if config.aggregator else "mean"
