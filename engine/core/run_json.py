"""Provenance and partition of a run as JSON of unknown origin.

An import is refused unless it matches these declarations. Stored documents are read field by field; an invalid field
counts as not recorded.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

Size = Annotated[int, Field(ge=0, lt=2**31)]  # sizes and client indices fit into int32
Text = Annotated[str, StringConstraints(max_length=20_000)]
MAX_NAME = 200  # characters
MAX_CLIENTS = 1_000_000
Name = Annotated[str, StringConstraints(max_length=MAX_NAME)]
Context = Annotated[int, Field(ge=0, lt=MAX_CLIENTS)]  # there are at most as many as clients


class Strict(BaseModel):
    """Validates without converting: ``"3"`` is not a number."""

    model_config = ConfigDict(strict=True, extra="allow")


class Extra(Strict):
    layers: Annotated[list[Name], Field(max_length=10_000)] = []


class ProvenanceEntry(Strict):
    """``engine.core.results.Provenance``; older versions recorded less."""

    versions: Annotated[dict[Name, Text], Field(max_length=100)] = {}
    device: Text | None = None
    backend: Text | None = None
    threads: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    dataset_fingerprint: Text | None = None
    code: Text | None = None
    warnings: Annotated[list[Text], Field(max_length=1_000)] = []
    extra: Extra = Extra()
    error: Annotated[str, StringConstraints(max_length=100_000)] | None = None


class ClientsEntry(Strict):
    """The data of a group of clients."""

    train_sizes: list[Size]
    val_sizes: list[Size]
    test_sizes: list[Size]
    class_counts: list[list[Size]]
    contexts: list[Context] | None = None

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        named = {name: getattr(self, name) for name in ClientsEntry.model_fields}
        lengths = {name: len(value) for name, value in named.items() if value is not None}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"every list must have one entry per client; the lengths are {lengths}")
        if not 0 < len(self.test_sizes) <= MAX_CLIENTS:
            raise ValueError(f"{len(self.test_sizes)} clients; must be between 1 and {MAX_CLIENTS:,}")
        if len({len(counts) for counts in self.class_counts}) > 1 or not self.num_classes:
            raise ValueError("class_counts: must have the same number of classes, at least one, for every client")
        return self

    @property
    def num_classes(self) -> int:
        return len(self.class_counts[0])


class UnseenEntry(ClientsEntry):
    clients: list[Size]  # their indices before they were held out

    @model_validator(mode="after")
    def _check_indices(self) -> Self:
        if len(self.clients) != len(self.test_sizes):
            raise ValueError(f"clients: {len(self.clients)} indices for {len(self.test_sizes)} clients")
        return self


class PartitionEntry(ClientsEntry):
    """``engine.core.results.PartitionSummary``."""

    class_names: Annotated[list[Name], Field(max_length=100_000)] = []
    notes: Annotated[list[Text], Field(max_length=1_000)] = []
    unseen: UnseenEntry | None = None
    malicious: list[bool] | None = None

    @model_validator(mode="after")
    def _check_measured(self) -> Self:
        if not any(self.test_sizes) and not any(self.val_sizes):
            raise ValueError("test_sizes: at least one client must have test or validation samples")
        return self

    @model_validator(mode="after")
    def _check_malicious(self) -> Self:
        if self.malicious is not None and len(self.malicious) != len(self.test_sizes):
            raise ValueError(f"malicious: {len(self.malicious)} values for {len(self.test_sizes)} clients")
        return self

    @model_validator(mode="after")
    def _check_class_names(self) -> Self:
        if self.class_names and len(self.class_names) != self.num_classes:
            raise ValueError(f"class_names: {len(self.class_names)} names for {self.num_classes} classes")
        return self


def recorded(provenance: Mapping[str, Any] | None) -> ProvenanceEntry:
    """The provenance of a stored run. Invalid fields count as not recorded."""
    found = dict(provenance or {})
    try:
        return ProvenanceEntry.model_validate(found)
    except ValidationError as error:
        invalid = {problem["loc"][0] for problem in error.errors(include_url=False) if problem["loc"]}
        return ProvenanceEntry.model_validate({name: value for name, value in found.items() if name not in invalid})


def problems_of(error: ValidationError, prefix: str = "") -> list[str]:
    """One line per validation error: where, and what is expected."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    places = ((".".join([*([prefix] if prefix else []), *map(str, e["loc"])])[:200], e["msg"]) for e in found)
    return [f"{place}: {message}" if place else message for place, message in places]
