"""The sections of a configuration that every experiment has: training, evaluation, and the machine."""

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from engine.core.registry import Count, Options

_MIN_RATE = 1e-30  # of a schedule; some methods divide by the rate in single precision


class Training(Options):
    """Training settings of all methods of an experiment; an entry of ``algorithms`` may override them."""

    rounds: int = Field(50, ge=1, le=1_000_000, title="T", description="Communication rounds.")
    participation: float = Field(1.0, gt=0, le=1, description="Share of clients that participate in a round.")
    local_steps: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        title="E",
        description="Local SGD steps per round. Default: 10, unless local_epochs is set.",
    )
    local_epochs: int | None = Field(
        None, ge=1, le=1_000_000, description="Passes over the local data per round, instead of local_steps."
    )
    batch_size: Count | Literal["full"] = Field(20, title="B", description="Mini-batch size; full uses all local data.")
    lr: float = Field(
        0.05,
        gt=0,
        le=1e30,  # float32 ends at 3e38
        title="η",
        description="Local learning rate.",
        json_schema_extra={"tune": (0.001, 0.5, "log")},
    )
    momentum: float = Field(0.0, ge=0, lt=1, description="Momentum of the local SGD, restarted each round.")
    weight_decay: float = Field(0.0, ge=0, le=1e6, description="L2 decay of every parameter in the local SGD.")
    clip_norm: float | None = Field(
        None,
        gt=0,
        le=1e6,
        title="Clip",
        description="Maximum norm of a client's mini-batch gradient; by default unlimited.",
        json_schema_extra={"unset": "unlimited"},
    )
    lr_schedule: Literal["constant", "cosine", "step"] = Field(
        "constant",
        title="Schedule",
        description="Learning rate over the rounds: constant, cosine (a half cosine toward 0), or step (multiplied by "
        "lr_decay every lr_decay_rounds). Applies to rates that a method takes from training, not to its own.",
    )
    lr_decay: float = Field(0.5, gt=0, le=1, description="Factor on the learning rate with lr_schedule: step.")
    lr_decay_rounds: int = Field(
        20, ge=1, le=1_000_000, description="Rounds between two decays with lr_schedule: step."
    )
    augmentation: Literal["none", "crop_flip"] = Field(
        "none", description="crop_flip pads training images by 4 pixels, crops them at random and mirrors half of them."
    )
    dtype: Literal["float32", "float64", "tf32", "bfloat16"] = Field(
        "float32",
        title="Precision",
        description="Precision of models and data. tf32 is float32 with products of 10-bit mantissas on an NVIDIA GPU: "
        "faster and less exact; on a CPU it is float32. bfloat16 keeps models and losses in float32, and computes "
        "outputs and gradients of models with 7-bit mantissas: fastest for convolutions on an NVIDIA GPU, and least "
        "exact.",
    )

    @model_validator(mode="before")
    @classmethod
    def _steps_or_epochs(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping):
            if raw.get("local_steps") is not None and raw.get("local_epochs") is not None:
                raise ValueError("local_steps and local_epochs are mutually exclusive; set only one")
            if raw.get("local_steps") is None and raw.get("local_epochs") is None:
                return {**raw, "local_steps": 10}
        return raw

    @property
    def tensor_dtype(self) -> Literal["float32", "float64"]:
        """The type of the numbers in memory."""
        return "float64" if self.dtype == "float64" else "float32"

    def in_round(self, round: int) -> "Training":
        """These settings with the learning rate of a round; round 0 has the same rate as round 1, ``lr``."""
        past, factor = max(round - 1, 0), 1.0
        if self.lr_schedule == "cosine":
            factor = (1 + math.cos(math.pi * past / self.rounds)) / 2
        elif self.lr_schedule == "step":
            factor = self.lr_decay ** (past // self.lr_decay_rounds)
        lr = max(self.lr * factor, min(self.lr, _MIN_RATE))
        return self if factor == 1 else self.model_copy(update={"lr": lr})


class Evaluation(Options):
    every: int = Field(
        1,
        ge=1,
        le=1_000_000,
        title="Evaluate every",
        description="Evaluate rounds divisible by this number, and the last one.",
    )
    clients: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        title="Evaluated clients",
        description="Evaluate the models of this many clients, a fixed random sample; by default of all.",
        json_schema_extra={"unset": "all"},
    )
    on: Literal["both", "val"] = Field(
        "both",
        title="Evaluate on",
        description="val evaluates on validation data only: nothing is computed on test data.",
    )

    @model_serializer(mode="wrap")
    def _without_defaults_of_later_versions(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without(serialize(self), {"clients": None, "on": "both"})


class Machine(Options):
    """Options on where and how a run is computed; they affect results only by rounding."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", title="Device", description="auto uses a GPU if there is one."
    )
    backend: Literal["auto", "fused", "batched", "loop"] = Field(
        "auto", title="Backend", description="How local training is computed."
    )
    cuda_graphs: bool = Field(
        False,
        title="CUDA graphs",
        description="Records local steps as CUDA graphs and replays them on an NVIDIA GPU. Faster for small models, "
        "can be slower for convolutions. No effect on a CPU, or in methods whose steps cannot be recorded.",
    )
    seeds_together: int = Field(
        1,
        ge=1,
        le=64,
        title="Seeds together",
        description="Trains up to this many runs at once that differ in nothing but their seeds. Faster for small "
        "models on a GPU, which one run cannot fill. No effect on workers without a GPU, or on a Ray cluster.",
    )
    threads: int | None = Field(None, ge=1, le=256, description="CPU threads of a run; by default the worker decides.")
    checkpoint_s: float = Field(10.0, gt=0, le=1e6, title="Checkpoint", description="Seconds between checkpoints.")

    @model_serializer(mode="wrap")
    def _without_defaults_of_later_versions(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without(serialize(self), {"cuda_graphs": False, "seeds_together": 1})


def _without(values: dict[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Omits defaults of options that older runs lack, so that digests and exports of these runs stay the same."""
    return {name: value for name, value in values.items() if later.get(name, ...) != value}
