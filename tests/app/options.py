"""Options classes for forms: one with a field of every type, and all registered ones."""

from typing import Literal

from pydantic import Field

from engine.core.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONERS, Options, Registry


class Everything(Options):
    lam: float | Literal["auto"] = Field("auto", ge=0, title="λ", description="Pull; larger = more global, 0 is local.")
    steps: int = Field(3, ge=1)
    personal_lr: float | Literal["training"] = Field("training", gt=0, json_schema_extra={"training": "lr"})
    law: Literal["a", "b"] = "a"
    sizes: Literal["equal"] | tuple[int, int] = "equal"
    limit: int | None = Field(None, json_schema_extra={"unset": "no limit"})
    is_fair: bool = False
    path: str = "here"


def every_options_class() -> list[tuple[str, type[Options]]]:
    registries: tuple[Registry, ...] = (ALGORITHMS, DATASETS, PARTITIONERS, MODELS)
    return [(f"{registry.kind} {entry.name}", entry.options) for registry in registries for entry in registry]
