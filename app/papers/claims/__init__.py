"""The papers' claims about their figures: a file per preset, as described in ``app/papers/claim.py``."""
