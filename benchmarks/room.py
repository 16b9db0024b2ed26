"""A class follows a lecturer: how long a move takes until it is on every reader's page.

    python -m benchmarks.room [--readers 30] [--moves 12] [--pause 4] [--out FILE.json]

Starts the app. The lecturer opens a room, the readers enter it, and the lecturer presses *Next* every ``--pause``
seconds. The readers speak Streamlit's protocol, poll as browsers do, and draw nothing. A time is from the lecturer's
press until a reader's page has run to its end at the new position. It prints the median and the last reader, errors,
and the web server's processor time, with and without moves.
"""

import argparse
import asyncio
import json
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from app import endpoints
from benchmarks.classroom import client_of, summary, web_usage
from benchmarks.reader import OpenPage, Times, opened
from benchmarks.running import App, free_port

DEADLINE_S = 60.0  # of a move, and of each step of a visit
LOG = "app.log"


@dataclass
class Follower:
    """A reader's browser. ``arrived`` has the time at which the page was at each version of the room."""

    client: httpx2.AsyncClient
    page: OpenPage
    code: str
    errors: list[str]
    arrived: dict[int, float] = field(default_factory=dict)

    async def follow(self) -> None:
        """Polls the room, and runs the page when the version has changed."""
        version = 0
        while True:
            wait_s = 2.0
            try:
                response = await self.client.get(endpoints.ROOM, params={"code": self.code})
                response.raise_for_status()
                answer = response.json()
                wait_s = answer["wait_ms"] / 1000
                if answer["version"] != version:
                    await self.page.run()
                    version = answer["version"]
                    self.arrived[version] = time.perf_counter()
            except (httpx2.HTTPError, TimeoutError, ConnectionError) as error:
                self.errors.append(f"follow: {error!r}")
            await asyncio.sleep(wait_s)


async def entered(stack: AsyncExitStack, app: App, query: dict[str, str], times: Times) -> tuple[Any, OpenPage]:
    """A browser with a cookie of its own, on Learn."""
    client = await stack.enter_async_context(client_of(app.url))
    (await client.get("/")).raise_for_status()
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    page = await opened(client, app.url, "", query, times, headers={"Cookie": cookies})
    stack.push_async_callback(page.close)
    return client, page


async def measured(app: App, readers: int, moves: int, pause_s: float) -> dict[str, Any]:
    times = Times()
    async with AsyncExitStack() as stack:
        _, lecturer = await entered(stack, app, {"story": "one-model"}, times)
        await lecturer.press("teach", lambda widget: "true")
        code = lecturer.query["room"]
        followers = []
        for _ in range(readers):
            client, page = await entered(stack, app, {"room": code}, times)
            followers.append(Follower(client, page, code, times.errors))
        tasks = [asyncio.create_task(follower.follow()) for follower in followers]
        try:
            await all_at(followers, 1)
            resting_s, start = await cpu_of(app, asyncio.sleep(moves * pause_s)), time.perf_counter()
            seconds: list[list[float]] = []
            moving_s = await cpu_of(app, move(lecturer, followers, moves, pause_s, seconds))
            lasted_s = time.perf_counter() - start
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "readers": readers,
        "moves": moves,
        "all_readers": summary([s for of_move in seconds for s in of_move]),
        "last_reader": summary([max(of_move) for of_move in seconds]),
        "cpu_share_at_rest": round(resting_s / (moves * pause_s), 3),
        "cpu_share_with_moves": round(moving_s / lasted_s, 3),
        "errors": times.errors,
    }


async def move(
    lecturer: OpenPage, followers: list[Follower], moves: int, pause_s: float, seconds: list[list[float]]
) -> None:
    """Presses Next, and adds the time of every reader for each press."""
    for version in range(2, moves + 2):
        started = time.perf_counter()
        await lecturer.press("next", lambda widget: "true")
        await all_at(followers, version)
        for follower in followers:
            if follower.page.query != lecturer.query:
                follower.errors.append(f"at {follower.page.query}, the lecturer at {lecturer.query}")
        seconds.append([follower.arrived[version] - started for follower in followers])
        await asyncio.sleep(max(0.0, pause_s - (time.perf_counter() - started)))


async def all_at(followers: list[Follower], version: int) -> None:
    """Waits until every reader's page has run at this version. Raises TimeoutError."""
    async with asyncio.timeout(DEADLINE_S):
        while any(version not in follower.arrived for follower in followers):
            await asyncio.sleep(0.02)


async def cpu_of(app: App, doing: Any) -> float:
    """Seconds of processor time that the web server takes meanwhile."""
    before = web_usage(app).cpu_s
    await doing
    return web_usage(app).cpu_s - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=30)
    parser.add_argument("--moves", type=int, default=12)
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between two moves")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / LOG).open("wb") as log:
        home = {"DATABASE_URL": f"sqlite:///{folder}/fedscape.db", "DATA_DIR": f"{folder}/data"}
        with App(free_port(), log, **home).running() as app:
            found = asyncio.run(measured(app, given.readers, given.moves, given.pause))
    show(found)
    if given.out:
        given.out.write_text(json.dumps(found, indent=2))


def show(found: dict[str, Any]) -> None:
    print(f"{found['readers']} readers, {found['moves']} moves: seconds from a press to the reader's page")
    for name in ("all_readers", "last_reader"):
        row = found[name]
        print(f"{name:12} p50 {row['p50_s']:.2f}  p95 {row['p95_s']:.2f}  worst {row['worst_s']:.2f}")
    rest, with_moves = found["cpu_share_at_rest"], found["cpu_share_with_moves"]
    print(f"web server: {rest:.0%} of a core at rest, {with_moves:.0%} with moves")
    print(f"{len(found['errors'])} errors")
    for error in found["errors"][:5]:
        print(f"  {error}")


if __name__ == "__main__":
    main()
