"""Draws the cards of shipped results: ``python -m benchmarks.paper_cards`` writes assets/examples/paper_cards.json."""

import json
import os
import tempfile
from dataclasses import asdict

from app.actions import exchange
from app.data import queries
from app.data.preset_catalog import known, preset_runs
from app.data.shipped import checksum, is_shipped
from app.papers.card import SHIPPED, Card, drawn
from app.papers.preset_progress import Standing
from app.papers.results import Results, results_of
from app.papers.study_result import drawn as drawn_study
from app.study import choosing
from engine.config.presets import Preset


def shipped_results(preset: Preset, scale: str) -> Results:
    return results_of(preset, scale, Standing(tuple((run, None) for run in preset_runs(preset, scale))))


def card(preset: Preset, scale: str) -> Card:
    return study_card(preset, scale) if preset.is_study else drawn(shipped_results(preset, scale))


def study_card(preset: Preset, scale: str) -> Card:
    """The card of a shipped study, which is imported for this into the database of ``DATABASE_URL``."""
    queries.store().ensure_schema()
    return drawn_study(choosing.study_of(exchange.load_study(preset, scale)))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DATABASE_URL"] = f"sqlite:///{folder}/studies.db"
        cards = {
            f"{name}.{scale}": {"of": checksum(preset, scale), **asdict(card(preset, scale))}
            for name, preset in known().items()
            for scale in preset.scales
            if is_shipped(preset, scale)
        }
    lines = [f"{json.dumps(name)}: {json.dumps(card, ensure_ascii=False)}" for name, card in cards.items()]
    SHIPPED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{SHIPPED.stat().st_size:,} bytes, {len(cards)} cards")


if __name__ == "__main__":
    main()
