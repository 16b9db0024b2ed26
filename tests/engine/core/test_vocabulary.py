"""Names and rounds are the same in the engine and in storage, which imports nothing of the engine."""

from dataclasses import fields
from typing import get_args

import pytest
from pydantic import BaseModel

from engine.core.results import PartitionSummary, Provenance, UnseenSummary
from engine.core.run_json import PartitionEntry, ProvenanceEntry, UnseenEntry
from engine.core.vocabulary import COSTS, ENDED, Status, add_prefix, megabytes, select_prefix
from engine.exchange.records import round_record, round_result
from storage import FINISHED, records
from tests.support.outcomes import a_round


def test_statuses_are_those_of_storage() -> None:
    assert get_args(Status) == get_args(records.Status)
    assert set(ENDED) == set(FINISHED)


def test_a_round_comes_back_from_storage_as_it_was() -> None:
    before = a_round(3, [0.5, 0.25])
    assert vars(round_result(round_record(before))) == vars(before)


@pytest.mark.parametrize(
    ("recorded", "checked"),
    [(PartitionSummary, PartitionEntry), (UnseenSummary, UnseenEntry), (Provenance, ProvenanceEntry)],
)
def test_every_field_of_a_document_is_checked_when_it_is_read(recorded: type, checked: type[BaseModel]) -> None:
    assert {field.name for field in fields(recorded)} == checked.model_fields.keys() - {"error"}


def test_dotted_names_are_nested_and_back() -> None:
    summary = {"mean": 0.5, "lowest5": 0.25}
    dotted = add_prefix("personalized", summary)
    assert dotted == {"personalized.mean": 0.5, "personalized.lowest5": 0.25}
    assert select_prefix("personalized", dotted | add_prefix("global", summary) | {"personal": 1.0}) == summary


def test_megabytes_count_both_ways() -> None:
    assert megabytes(dict.fromkeys(COSTS, 0) | {"bytes_up": 1_000_000, "bytes_down": 500_000}) == 1.5
