"""What the papers claim about their figures: a file per preset, as described in ``app/papers/claim.py``."""
