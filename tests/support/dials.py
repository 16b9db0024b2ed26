"""The methods whose uploads pass the channel, for tests of attacks, aggregators and compression."""

import json
from pathlib import Path

STORED = Path(__file__).parents[1] / "engine" / "simulation" / "stored_numbers.json"
METHODS: list[str] = sorted(json.loads(STORED.read_text()))
