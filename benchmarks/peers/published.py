"""Our time for LR_MNIST of FLUTE's README, which publishes its own and Flower's, on other machines.

    python -m benchmarks.peers.published [--threads 1]

1,000 clients, 10 a round, batch 10, lr 0.03, one epoch, 100 rounds, a test every 20 rounds. Each client has 60 random
samples and 10 for the test, as if MNIST were divided equally. Measured without the start of Python.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.peers.children.ours import simulation
from benchmarks.peers.settings import SETTINGS

ROUNDS, TEST_EVERY, TEST_SAMPLES = 100, 20, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    setting = SETTINGS["flute"]
    with TemporaryDirectory(prefix="peers-") as name:
        folder = Path(name)
        setting.write(folder)
        job = setting.job("fedavg", "mlr", folder)
        for _ in range(options.repeats):
            wall, processor = time.perf_counter(), time.process_time()
            results = list(simulation(job, ROUNDS, TEST_EVERY, TEST_SAMPLES).rounds())
            tests = sum(result.evaluated for result in results)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            print(f"{ROUNDS} rounds, {tests} tests: {wall:.2f} s, {processor:.2f} processor seconds", flush=True)


if __name__ == "__main__":
    main()
