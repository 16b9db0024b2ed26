"""What the trainings of readers of Learn cost, with and without sharing, and the memory of a separate process.

    python -m benchmarks.learn_readers [--readers 30] [--story one-model]

Prints the processor time of one run of every story, at its last scene, and of ``--readers`` runs at one place of
``--story``, each trained alone and shared; then the memory of a process that has trained one step.
"""

import argparse
import os
import subprocess
import sys
import time
from typing import Any

from app.stories import stories
from app.stories.shared_steps import Run, SharedSteps
from app.stories.story import Story, place_of
from benchmarks.running import ROOT

TRAIN_ONE_STEP = """
import os
from app.stories import stories
from app.stories.story import start_of
from benchmarks.processes import process_tree, usage
story = stories()["one-model"]
steps = story.steps(start_of(story))
next(steps), next(steps)
print(usage(next(one for one in process_tree(os.getpid()) if one.pid == os.getpid())).memory_mib)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=30)
    parser.add_argument("--story", choices=list(stories()), default="one-model")
    given = parser.parse_args()
    for slug, story in stories().items():
        trained(story, 1)  # loads what the story needs
        print(f"one run of {slug}: {trained(story, 1):.2f} s")
    for are_shared, words in ((False, "each alone"), (True, "shared")):
        seconds = trained(stories()[given.story], given.readers, are_shared)
        print(f"{given.readers} runs of {given.story}, {words}: {seconds:.2f} s")
    print(f"a process that has trained one step: {child_mib():.0f} MiB")


def trained(story: Story[Any], readers: int, are_shared: bool = False) -> float:
    """Seconds of processor time for runs to the end of the last scene."""
    place = place_of(story, story.scenes[-1].place)
    made = SharedSteps(lambda: story.steps(place))
    started = time.process_time()
    for _ in range(readers):
        run = Run(made if are_shared else SharedSteps(lambda: story.steps(place)))
        while not run.is_settled:
            run.advance(1)
    return time.process_time() - started


def child_mib() -> float:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", TRAIN_ONE_STEP]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    main()
