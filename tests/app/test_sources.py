"""Sources are cited by the name of the paper, in every list and on every page."""

import json
import re

import pytest

from app.data.entry_text import text_of
from engine.cli.listing import as_json
from engine.config.presets import presets
from engine.core.registry import ALGORITHMS, ANALYSES, DATASETS, MODELS, PARTITIONERS

KINDS = ("algorithms", "datasets", "partitioners", "models", "metrics", "presets")
NUMBERED = re.compile(r"\bdocuments? 0\d\d\b", re.IGNORECASE)


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_names_its_source(kind: str) -> None:
    for entry in json.loads(as_json(kind)):
        assert entry["paper"].strip(), entry["name"]
        assert not NUMBERED.search(entry["paper"]), entry["name"]


def test_the_handbook_cites_no_paper_by_number() -> None:
    for registry in (ALGORITHMS, DATASETS, PARTITIONERS, MODELS, ANALYSES):
        for entry in registry:
            text = text_of(entry)
            everything = " ".join([text.summary, text.citation, *text.labeled.values(), *text.remarks])
            assert not NUMBERED.search(everything), entry.name


@pytest.mark.slow
def test_no_preset_cites_a_paper_by_number() -> None:
    for preset in presets():
        assert not NUMBERED.search(f"{preset.source} {preset.shows} {preset.title}"), preset.name
