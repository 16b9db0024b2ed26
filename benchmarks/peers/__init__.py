"""Rounds of other libraries beside ours: the same clients, batches and networks, in turns, one thread each.

    python -m benchmarks.peers pfllib --python /path/to/its/python --path /path/to/PFLlib

The libraries are installed by the reader; `docs/performance.md` has the commands and the results. Each side is a
process of its own (`children/`), which computes one round when it is asked to (`turns.py`). The parent (`beside.py`)
asks one after the other, so that both see the same state of the machine, and prints ratios.
"""
