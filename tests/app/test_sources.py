"""Where each thing comes from is said by the name of its paper, in every listing and on every page."""

import json
import re

import pytest

from app.handbook.entry_text import text_of
from engine.cli.listing import as_json
from engine.config.presets import presets
from engine.core.registry import ALGORITHMS, ANALYSES, DATASETS, MODELS, PARTITIONERS

KINDS = ("algorithms", "datasets", "partitioners", "models", "metrics", "presets")
NUMBERED = re.compile(r"\bdocuments? 0\d\d\b", re.IGNORECASE)


@pytest.mark.parametrize("kind", KINDS)
def test_every_listed_thing_names_its_source(kind: str) -> None:
    for entry in json.loads(as_json(kind)):
        assert entry["paper"].strip(), entry["name"]
        assert not NUMBERED.search(entry["paper"]), entry["name"]


def test_no_page_of_the_handbook_numbers_a_paper() -> None:
    for registry in (ALGORITHMS, DATASETS, PARTITIONERS, MODELS, ANALYSES):
        for entry in registry:
            said = text_of(entry)
            everything = " ".join([said.summary, said.citation, *said.labelled.values(), *said.remarks])
            assert not NUMBERED.search(everything), entry.name


def test_no_preset_numbers_a_paper() -> None:
    for preset in presets():
        assert not NUMBERED.search(f"{preset.source} {preset.shows} {preset.title}"), preset.name
