"""Draws the cards of shipped results: ``python -m benchmarks.paper_cards`` writes assets/examples/paper_cards.json."""

import json

from app.data.preset_catalog import known, preset_runs
from app.data.shipped import is_shipped
from app.papers.card import SHIPPED, to_ship
from app.papers.preset_progress import Standing
from app.papers.results import Results, results_of
from engine.config.presets import Preset


def shipped_results(preset: Preset, scale: str) -> Results:
    return results_of(preset, scale, Standing(tuple((run, None) for run in preset_runs(preset, scale))))


def main() -> None:
    cards = {
        f"{name}.{scale}": to_ship(shipped_results(preset, scale))
        for name, preset in known().items()
        for scale in preset.scales
        if is_shipped(preset, scale)
    }
    lines = [f"{json.dumps(name)}: {json.dumps(card, ensure_ascii=False)}" for name, card in cards.items()]
    SHIPPED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{SHIPPED.stat().st_size:,} bytes, {len(cards)} cards")


if __name__ == "__main__":
    main()
