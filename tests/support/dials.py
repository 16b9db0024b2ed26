"""The methods that ship, for tests of attacks, aggregators and compression."""

from engine.core.registry import ALGORITHMS

METHODS: list[str] = [entry.name for entry in ALGORITHMS if entry.make.__module__.startswith("engine.")]
