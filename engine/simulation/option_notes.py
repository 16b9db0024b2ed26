"""Notes on options that are limited by data or model, or have no effect."""

from collections.abc import Iterator

from torch import nn

from engine.config.schema import RunConfig
from engine.federation.clients import Federation
from engine.models import Model

_OF_ADAPTIVE = ("quantile", "clip_lr", "count_noise")  # options of privacy with clip: adaptive


def notes(config: RunConfig, model: Model, data: Federation) -> Iterator[str]:
    """One sentence per note: the option, its value, and its effect."""
    yield from _model(config, model)
    yield from _batches(config, data)
    yield from _rounds(config, data)
    yield from _tests(config, data)
    yield from _privacy(config)


def _model(config: RunConfig, model: Model) -> Iterator[str]:
    if model.init == "zeros" and len(model.layers) > 1:
        yield "init: zeros with hidden layers: they stay at zero and only the output layer's bias is trained"
    requested = getattr(config.model.options, "groups", None)
    norms = [module for module in model.module.modules() if isinstance(module, nn.GroupNorm)]
    fewer = {
        norm.num_channels: norm.num_groups for norm in norms if requested is not None and norm.num_groups < requested
    }
    if fewer:
        cut = ", ".join(f"{groups} of {channels} channels" for channels, groups in sorted(fewer.items()))
        yield f"groups={requested}: groups have equal sizes of at least two channels, so there are {cut}"


def _batches(config: RunConfig, data: Federation) -> Iterator[str]:
    size, sizes = config.training.batch_size, data.summary.train_sizes
    smaller = [n for n in sizes if size != "full" and n < int(size)]
    if smaller:
        span = f"{min(smaller)}" if min(smaller) == max(smaller) else f"{min(smaller)} to {max(smaller)}"
        yield (
            f"batch_size={size}: {len(smaller)} of {len(sizes)} clients have only {span} training samples and use all "
            "of them in every step"
        )


def _rounds(config: RunConfig, data: Federation) -> Iterator[str]:
    training, N = config.training, data.num_clients
    privacy = config.privacy
    if privacy is not None and privacy.unit == "client" and privacy.sampling == "poisson":
        if training.participation * N < 1:
            yield (
                f"participation={training.participation:g} of {N} clients is below one: with privacy.sampling=poisson "
                "many rounds have no participant, and their update is noise alone; one client still trains: its "
                "upload counts as 0, its costs as usual"
            )
    elif round(training.participation * N) < 1:
        yield f"participation={training.participation:g} of {N} clients is below one, so one takes part in each round"
    system = config.system
    if system is not None and system.availability * N < 1:
        yield (
            f"availability={system.availability:g} of {N} clients is below one: in rounds in which nobody is "
            "available, one client still takes part"
        )
    if training.lr_schedule == "step" and training.lr_decay_rounds >= training.rounds:
        yield f"lr_decay_rounds={training.lr_decay_rounds}: the rate never decays within {training.rounds} rounds"


def _tests(config: RunConfig, data: Federation) -> Iterator[str]:
    if config.evaluation.on == "both" and not data.test.num_samples:
        yield (
            "no client has test samples, so accuracies on test data will be missing; raise partition.test_fraction, or "
            "set evaluation.on: val with partition.val_fraction above 0"
        )


def _privacy(config: RunConfig) -> Iterator[str]:
    """Options that are set but have no effect, since they are for another ``unit`` or ``clip``."""
    privacy = config.privacy
    if privacy is None:
        return
    if privacy.unit == "client":
        unused = {"covers": ("unit: client", "unit: sample")}
        if not isinstance(privacy.clip, str):
            unused |= dict.fromkeys(_OF_ADAPTIVE, (f"clip: {privacy.clip:g}", "clip: adaptive"))
    else:
        unused = {"sampling": ("unit: sample", "unit: client")}
        unused |= dict.fromkeys(_OF_ADAPTIVE, ("unit: sample", "unit: client with clip: adaptive"))
    for name, (given, wanted) in unused.items():
        value = getattr(privacy, name)
        if value != type(privacy).model_fields[name].default:
            yield f"privacy.{name}={value} has no effect with {given}; it is for {wanted}"
