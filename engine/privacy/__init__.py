"""Differential privacy: how much noise is added, and what it guarantees."""
