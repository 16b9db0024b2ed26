"""Measurements of speed and robustness, and what computes the results that ship.

Results are in `docs/performance.md`. Some libraries install a package `benchmarks` too: without this file it would win.
"""
