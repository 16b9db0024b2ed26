"""A class uses the app while runs train: how long it takes to open pages and press controls.

    python -m benchmarks.classroom [--readers 30] [--minutes 10] [--runs 2] [--think 10] [--servers 1] [--out FILE.json]

Starts the app with a slot for each run, and trains endless runs. The readers are spread over ``--servers`` web servers.
Each opens Learn, Compare and Live in turn, presses six controls on each, and thinks in between, for ``--think`` seconds
on average. The readers speak Streamlit's protocol, poll as the pages do, and draw nothing: a time is from the request
until everything has arrived. It prints the median, the 95th percentile and the worst of each action, errors, rounds a
second, and the memory and processor time of all web servers together at the start and at the end.
"""

import argparse
import asyncio
import itertools
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from app import endpoints
from app.stories import stories
from benchmarks.processes import NO_USAGE, WEB, Usage, parts_of_app, process_tree, usage
from benchmarks.reader import OpenPage, Times, opened
from benchmarks.running import App
from benchmarks.soak import soaked
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Store

PRESSES = 6
SEED = 5
DONE_S = 120.0
COMPARED = {
    "name": "compared",
    "dataset": "digits",
    "partition": {"name": "classes_per_client", "num_clients": 20, "classes_per_client": 3},
    "model": "mlr",
    "training": {"rounds": 20, "lr": 0.1},
    "algorithms": ["fedavg", "local_train", "ditto", "pfedme", {"name": "cgpfl", "K": 4}],
    "seeds": [0, 1, 2],
}


@dataclass(frozen=True)
class Visit:
    """A page and the controls that are pressed there, by the end of their keys."""

    page: str
    query: dict[str, str]
    controls: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    seconds: float
    times: Times
    web: tuple[Usage, Usage]  # at the start and at the end
    rounds: int

    def report(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "actions": {action: summary(values) for action, values in sorted(self.times.seconds.items())},
            "opening": summary(self._of("open ")),
            "pressing": summary(self._of("press ")),
            "errors": self.times.errors,
            "rounds_a_second": round(self.rounds / self.seconds, 2),
            "web_server": [asdict(used) for used in self.web],
        }

    def _of(self, kind: str) -> list[float]:
        return [s for action, values in self.times.seconds.items() if action.startswith(kind) for s in values]


def summary(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {"count": 0}
    p50, p95, worst = (round(float(np.quantile(seconds, q)), 2) for q in (0.5, 0.95, 1.0))
    return {"count": len(seconds), "p50_s": p50, "p95_s": p95, "worst_s": worst}


async def read(url: str, visits: Sequence[Visit], think_s: float, until: float, times: Times, seed: int) -> None:
    """One reader, from one page to the next."""
    chance = random.Random(seed)
    async with client_of(url) as client:
        await asyncio.sleep(chance.uniform(0, think_s))
        for visit in itertools.islice(itertools.cycle(visits), seed % len(visits), None):
            if time.monotonic() > until:
                return
            with suppress(ConnectionError):
                await _visit(url, visit, client, chance, think_s, until, times)


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, timeout=60, headers={"Accept-Encoding": "gzip"}) as client:
        yield client


async def _visit(
    url: str,
    visit: Visit,
    client: httpx2.AsyncClient,
    chance: random.Random,
    think_s: float,
    until: float,
    times: Times,
) -> None:
    page = await opened(client, url, visit.page, visit.query, times)
    try:
        if visit.page == "live":
            page.poll(client, endpoints.FEED, _Feed(visit.query["runs"]))
        for _ in range(PRESSES):
            await asyncio.sleep(max(1.0, chance.expovariate(1 / think_s)))
            if time.monotonic() > until:
                return
            await _press(page, visit, chance, times)
    finally:
        await page.close()


async def _press(page: OpenPage, visit: Visit, chance: random.Random, times: Times) -> None:
    offered = [
        (name, widget)
        for name, widget in page.widgets.items()
        if widget.is_enabled and (name in visit.controls or (not visit.page and widget.kind == "slider"))
    ]
    name, widget = chance.choice(offered)
    with times.timed(f"press {visit.page or 'learn'}: {'dial' if widget.kind == 'slider' else name}"):
        await page.press(name, lambda widget: chance.choice(widget.options) if widget.options else "true")


class _Feed:
    """The query of Live's next poll: what is new since its last answer."""

    def __init__(self, runs: str) -> None:
        self._after = dict.fromkeys(runs.split(","), -1)

    def __call__(self, answer: Any) -> dict[str, str]:
        for run, points in (answer or {"points": {}})["points"].items():
            self._after[run] = points["round"][-1]
        return {
            "runs": ",".join(self._after),
            "after": ",".join(map(str, self._after.values())),
            "model": "personalized",
        }


def visits_of(live: Sequence[int], compared: int) -> list[Visit]:
    """Readers of Learn are on any of its stories."""
    learn = [Visit("", {"story": slug}, ("step", "scene", "play", "next")) for slug in stories()]
    compare = Visit("compare", {"experiment": str(compared)}, ("address_model", "address_tail", "address_when"))
    watch = Visit("live", {"runs": ",".join(map(str, live))}, ("address_model", "address_x"))
    return [visit for story in learn for visit in (story, compare, watch)]


def train_compared(store: Store) -> None:
    """Trains the experiment that Compare shows."""
    runs = [new_run(run) for run in parse_experiment(COMPARED).runs()]
    made, until = store.experiments.create(str(COMPARED["name"]), COMPARED, runs).id, time.monotonic() + DONE_S
    while any(run.is_active for run in store.queue.runs(experiment_ids=[made])):
        if time.monotonic() > until:
            raise SystemExit(f"the runs that Compare shows did not end within {DONE_S:g} s")
        time.sleep(0.5)


def web_usage(app: App) -> Usage:
    assert app.supervisor is not None
    return sum((usage(process) for process in parts_of_app(process_tree(app.supervisor.pid))[WEB]), NO_USAGE)


async def measured(
    app: App, visits: Sequence[Visit], readers: int, minutes: float, think_s: float
) -> tuple[Times, tuple[Usage, Usage]]:
    times, until = Times(), time.monotonic() + 60 * minutes
    before = web_usage(app)
    urls = itertools.islice(itertools.cycle(app.urls), readers)
    await asyncio.gather(*(read(url, visits, think_s, until, times, SEED + i) for i, url in enumerate(urls)))
    return times, (before, web_usage(app))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--think", type=float, default=10.0, help="seconds between presses, on average")
    parser.add_argument("--servers", type=int, default=1, help="number of web servers")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = classroom(Path(folder), given.readers, given.minutes, given.runs, given.think, given.servers).report()
    show(found)
    if given.out:
        given.out.write_text(json.dumps(found, indent=2))


def classroom(folder: Path, readers: int, minutes: float, runs: int, think_s: float, servers: int) -> Found:
    with soaked(folder, runs, train_compared, servers) as (app, store, long):
        ids = [run.id for run in long]
        compared = next(made.id for made in store.experiments.list() if made.name == COMPARED["name"])
        rounds = _rounds(store, ids)
        started = time.monotonic()
        times, web = asyncio.run(measured(app, visits_of(ids, compared), readers, minutes, think_s))
        return Found(time.monotonic() - started, times, web, _rounds(store, ids) - rounds)


def _rounds(store: Store, ids: Sequence[int]) -> int:
    return sum(run.round for run in store.queue.runs(run_ids=list(ids)))


def show(found: dict[str, Any]) -> None:
    print(f"{'':28} {'count':>6} {'p50 s':>7} {'p95 s':>7} {'worst s':>7}")
    for action, row in {**found["actions"], "opening": found["opening"], "pressing": found["pressing"]}.items():
        if row["count"]:
            print(f"{action:28} {row['count']:6} {row['p50_s']:7.2f} {row['p95_s']:7.2f} {row['worst_s']:7.2f}")
    first, last = found["web_server"]
    cores = (last["cpu_s"] - first["cpu_s"]) / found["seconds"]
    print(f"{len(found['errors'])} errors; {found['rounds_a_second']} rounds a second")
    print(f"web server: {cores:.0%} of a core, {first['memory_mib']:.0f} to {last['memory_mib']:.0f} MiB")
    for error in found["errors"][:5]:
        print(f"  {error}")


if __name__ == "__main__":
    main()
