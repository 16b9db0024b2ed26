"""Readers of Learn: what their trainings cost, with and without sharing, and what a process for them would take.

    python -m benchmarks.learn_readers [--readers 30] [--story one-model] [--pages 10] [--seconds 10]

Prints the processor time of ``--readers`` runs at one place of ``--story``, each trained alone and shared, and of one
run of every story, at the last scene. Then ``--pages`` readers press Play in the app, all at one place or each in the
next story, and watch for ``--seconds``: the web server's processor time, and how much of it is training at most, by
the times before. At the end the memory of a process that has trained one step.
"""

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.stories import stories
from app.stories.shared_steps import Run, SharedSteps
from app.stories.story import Story, place_of
from benchmarks.classroom import client_of, web_usage
from benchmarks.processes import Usage
from benchmarks.reader import Times, opened
from benchmarks.running import ROOT, App, free_port

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
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    costs: dict[str, float] = {}
    for slug, story in stories().items():
        trained(story, 1)  # loads what the story needs
        costs[slug] = trained(story, 1)
        print(f"one run of {slug}: {costs[slug]:.2f} s")
    for are_shared, words in ((False, "each alone"), (True, "shared")):
        seconds = trained(stories()[given.story], given.readers, are_shared)
        print(f"{given.readers} runs of {given.story}, {words}: {seconds:.2f} s")
    for slugs in ([given.story], list(stories())):
        used, times = watched(slugs, given.pages, given.seconds)
        training = sum(costs[slug] for slug in set(itertools.islice(itertools.cycle(slugs), given.pages)))
        print(
            f"{given.pages} readers of {', '.join(slugs)}, {given.seconds:g} s: web server {used:.1f} s of processor "
            f"time, of it training at most {training:.1f} s ({training / used:.0%}); {len(times.errors)} errors"
        )
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


def watched(slugs: Sequence[str], readers: int, seconds: float) -> tuple[float, Times]:
    """Seconds of the web server's processor time while readers watch a run."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        places = {"DATABASE_URL": f"sqlite:///{here / 'runs.db'}", "ARTIFACTS_DIR": f"{here / 'artifacts'}"}
        with App(free_port(), **places).running() as app:
            times = Times()
            before: list[Usage] = []
            asyncio.run(_watch(app, slugs, readers, seconds, times, before))
            return web_usage(app).cpu_s - before[0].cpu_s, times


async def _watch(
    app: App, slugs: Sequence[str], readers: int, seconds: float, times: Times, before: list[Usage]
) -> None:
    async with client_of(app.url) as client:
        pages = []
        for slug in itertools.islice(itertools.cycle(slugs), readers):
            place = place_of(stories()[slug], stories()[slug].scenes[-1].place)
            pages.append(await opened(client, app.url, "", {"story": slug, **place}, times))
        before.append(web_usage(app))
        await asyncio.gather(*(page.press("play", lambda _: "") for page in pages))
        await asyncio.sleep(seconds)
        for page in pages:
            await page.close()


def child_mib() -> float:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", TRAIN_ONE_STEP]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    main()
