"""The dashboard: pages over what ``storage`` remembers and ``engine`` computes. Start it with ``python -m app``."""
