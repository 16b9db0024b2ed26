"""Two web servers of one app: what one of them changes is seen on the other, and limits hold for both together."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx2
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.web.server.starlette.starlette_server_config import XSRF_COOKIE_NAME
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from app import endpoints
from benchmarks.processes import WEB, parts_of_app, process_tree
from benchmarks.reader import OpenPage, Times, opened
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Store
from tests.app.samples import DIGITS
from tests.support import event_loop, oidc
from tests.support.ports import free_ports
from tests.support.signing_in import MEMBER, SECRET

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 200.0  # two web servers start, on a machine that may be busy
STOP_S = 30.0
LIMIT = 13  # two of the experiments that Set up opens with, and a place that is too few for a third

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # starts a complete app with two web servers


RERUN = BackMsg(rerun_script=ClientState(page_name="library")).SerializeToString()


@dataclass(frozen=True)
class App:
    """``python -m app`` with sign-in. Its dispatcher waits for the lock of the database, so queued runs stay queued."""

    ports: list[int]
    provider: oidc.Provider
    process: subprocess.Popen[bytes]
    log: Path
    store: Store

    @property
    def url(self) -> str:
        """The address of the app for browsers, which is that of the first web server."""
        return f"http://127.0.0.1:{self.ports[0]}"

    @asynccontextmanager
    async def reader(self, server: int, cookies: httpx2.Cookies | None = None) -> AsyncIterator[httpx2.AsyncClient]:
        """A browser whose proxy chooses this web server."""
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{self.ports[server]}",
            headers={"Host": f"127.0.0.1:{self.ports[0]}"},
            cookies=cookies,
            timeout=PATIENCE_S,
        ) as client:
            yield client

    async def page(
        self, client: httpx2.AsyncClient, name: str, query: dict[str, str], times: Times, server: int = 0
    ) -> OpenPage:
        return await opened(client, self.url, name, query, times, port=self.ports[server])

    async def sign_in(self, address: str) -> tuple[str, httpx2.Cookies]:
        """Opens a page on the first server and signs in there. Returns where that leads, and the cookies."""
        path, _, query = address.partition("?")
        self.provider.person = {"email": MEMBER.name, "email_verified": True}
        async with httpx2.AsyncClient(base_url=self.url, timeout=PATIENCE_S, follow_redirects=True) as client:
            page = await self.page(client, path.lstrip("/"), dict(httpx2.QueryParams(query)), Times())
            await page.press("sign_in", lambda _: "true")
            await page.close()
            landed = await client.get(page.redirect, headers={"Referer": f"{self.url}{address}"})
            landed.raise_for_status()
            (await client.get("/_stcore/health")).raise_for_status()  # sets the cookie against cross-site requests
            return str(landed.url), client.cookies

    def web_pids(self) -> dict[int, int]:
        """By port."""
        found = parts_of_app(process_tree(self.process.pid)).get(WEB, [])
        return {port: one.pid for port in self.ports for one in found if f"--server.port={port}" in one.command}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    home, ports = tmp_path_factory.mktemp("servers"), free_ports(2)
    database = f"sqlite:///{home / 'fedscape.db'}"  # limits on PostgreSQL: tests/app/test_on_postgres.py
    store = Store(database, home / "artifacts")
    store.ensure_schema(wait_s=PATIENCE_S)
    lock = store.try_dispatcher_lock()
    assert lock is not None
    with oidc.provider() as provider, (home / "app.log").open("wb") as log:
        environment = os.environ | {
            "HOST": "127.0.0.1",
            "PORT": str(ports[0]),
            "FEDSCAPE_WEB": "2",
            "DATABASE_URL": database,
            "ARTIFACTS_DIR": str(home / "artifacts"),
            "DATA_DIR": str(home / "data"),
            "FEDSCAPE_OIDC_ISSUER": provider.url,
            "FEDSCAPE_OIDC_CLIENT_ID": oidc.CLIENT_ID,
            "FEDSCAPE_OIDC_CLIENT_SECRET": oidc.CLIENT_SECRET,
            "FEDSCAPE_COOKIE_SECRET": SECRET,
            "FEDSCAPE_URL": f"http://127.0.0.1:{ports[0]}",
            "FEDSCAPE_MAX_QUEUED": str(LIMIT),
        }
        process = subprocess.Popen([sys.executable, "-m", "app"], cwd=ROOT, env=environment, stdout=log, stderr=log)
        running = App(ports, provider, process, home / "app.log", store)
        try:
            for port in ports:
                eventually(running, partial(answers, port))
            yield running
        finally:
            process.send_signal(signal.SIGINT)
            try:
                ended = process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            finally:
                lock.release()
                store.close()
    assert ended == 0, running.log.read_text()


def eventually(app: App, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert app.process.poll() is None, app.log.read_text()
        assert time.monotonic() < until, app.log.read_text()
        time.sleep(0.1)


def answers(port: int) -> bool:
    with suppress(httpx2.TransportError):
        return httpx2.get(f"http://127.0.0.1:{port}/_stcore/health").status_code == 200
    return False


@pytest.fixture(scope="module")
def signed_in(app: App) -> tuple[str, httpx2.Cookies]:
    return event_loop.run(app.sign_in("/compare?experiment=3&model=global"))


def queued(app: App, number: int) -> list[int]:
    """Queues runs of the member; earlier ones are cancelled."""
    app.store.queue.request(app.store.queue.ids(["queued"]), "cancel")
    if not number:
        return []
    config = DIGITS | {"algorithms": ["fedavg"], "seeds": list(range(number))}
    runs = [new_run(run) for run in parse_experiment(config).runs()]
    made = app.store.experiments.create("mine", config, runs, owner=MEMBER.name)
    return [run.id for run in app.store.queue.runs(experiment_ids=[made.id])]


def connected(app: App, cookies: httpx2.Cookies, server: int, *session: str) -> connect:
    """A connection to this web server, of a new page or of one that had a ``session``."""
    return connect(
        f"{app.url.replace('http', 'ws', 1)}/_stcore/stream",
        subprotocols=[Subprotocol(name) for name in ("streamlit", cookies[XSRF_COOKIE_NAME], *session)],
        origin=Origin(app.url),
        additional_headers={"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())},
        port=app.ports[server],
        max_queue=None,  # otherwise unread messages delay closing by 10 s
    )


async def message_of(page: ClientConnection, *kinds: str) -> ForwardMsg:
    """The next message of one of these kinds."""
    while True:
        message = ForwardMsg.FromString(await page.recv(decode=False))
        if message.WhichOneof("type") in kinds:
            return message


def test_signing_in_leads_to_the_page_that_was_opened_with_its_query(
    app: App, signed_in: tuple[str, httpx2.Cookies]
) -> None:
    assert signed_in[0] == f"{app.url}/compare?experiment=3&model=global"


def test_a_sign_in_at_one_web_server_is_valid_at_the_other(app: App, signed_in: tuple[str, httpx2.Cookies]) -> None:
    async def scenario() -> None:
        for server in (0, 1):
            async with app.reader(server) as stranger, app.reader(server, signed_in[1]) as member:
                assert (await stranger.get(endpoints.OVERVIEW)).status_code == 401
                assert (await member.get(endpoints.OVERVIEW)).status_code == 200
                page = await app.page(member, "library", {}, Times(), server)
                assert "sign_out" in page.widgets
                await page.close()

    event_loop.run(scenario())


def test_a_press_on_one_web_server_is_shown_on_the_other(app: App, signed_in: tuple[str, httpx2.Cookies]) -> None:
    runs = queued(app, 2)
    query = {"runs": ",".join(map(str, runs)), "after": "-1,-1"}

    async def scenario() -> None:
        async with app.reader(0, signed_in[1]) as first, app.reader(1, signed_in[1]) as second:

            async def on_the_other() -> tuple[set[str], str]:
                feed, strip = (await second.get(endpoints.FEED, params=query), await second.get(endpoints.OVERVIEW))
                return {run["status"] for run in feed.json()["runs"]}, strip.json()["text"]

            times = Times()
            statuses, strip = await on_the_other()
            assert statuses == {"queued"} and "2 queued" in strip
            page = await app.page(first, "live", {"runs": query["runs"]}, times)
            await page.press("queue_cancel_now", lambda _: "true")
            await page.close()
            statuses, strip = await on_the_other()
            assert statuses == {"cancelled"} and "0 queued" in strip
            assert not times.errors

    event_loop.run(scenario())


def test_presses_at_once_on_both_web_servers_keep_the_limit(app: App, signed_in: tuple[str, httpx2.Cookies]) -> None:
    queued(app, 0)
    before = {made.id for made in app.store.experiments.list(include_archived=True)}

    async def scenario() -> None:
        async with app.reader(0, signed_in[1]) as first, app.reader(1, signed_in[1]) as second:
            times = Times()
            pages = [
                await app.page(client, "setup", {}, times, server)
                for server, client in enumerate((first, second))
                for _ in range(2)
            ]
            await asyncio.gather(*(page.press("queue", lambda _: "true") for page in pages))
            for page in pages:
                await page.close()
            assert not times.errors

    event_loop.run(scenario())
    sizes = [made.num_runs for made in app.store.experiments.list(include_archived=True) if made.id not in before]
    assert len(sizes) == 2 and app.store.shares.usage(MEMBER.name).queued == sum(sizes)
    assert LIMIT - min(sizes) < sum(sizes) <= LIMIT


def test_a_page_is_loaded_again_by_a_web_server_that_does_not_know_its_session(
    app: App, signed_in: tuple[str, httpx2.Cookies]
) -> None:
    async def answer(server: int, *session: str) -> ForwardMsg:
        """The first message of a connection on which the page asks for a run."""
        async with connected(app, signed_in[1], server, *session) as page:
            await page.send(RERUN)
            return await message_of(page, "auth_redirect", "new_session")

    async def scenario() -> None:
        session = (await answer(0)).new_session.initialize.session_id
        assert (await answer(0, session)).new_session.initialize.session_id == session
        elsewhere = await answer(1, session)
        assert elsewhere.HasField("auth_redirect") and elsewhere.auth_redirect.url == ""  # the address of the page

    event_loop.run(scenario())


def test_a_press_during_a_run_of_the_page_ends_it_before_the_next_run_starts(
    app: App, signed_in: tuple[str, httpx2.Cookies]
) -> None:
    """Two runs at once could apply the browser's values in either order."""

    async def end_of_first() -> int:
        async with connected(app, signed_in[1], 0) as page:
            await page.send(RERUN)
            await message_of(page, "new_session")
            await page.send(RERUN)
            return (await message_of(page, "script_finished")).script_finished

    async def scenario() -> None:
        ends = []
        while ForwardMsg.FINISHED_EARLY_FOR_RERUN not in ends:  # the first one may have ended before the press came
            assert len(ends) < 20
            ends.append(await end_of_first())

    event_loop.run(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="finds the process of a web server in /proc")
def test_a_killed_web_server_is_restarted_while_the_other_one_serves(
    app: App, signed_in: tuple[str, httpx2.Cookies]
) -> None:
    before = app.web_pids()
    first, second = app.ports
    os.kill(before[second], signal.SIGKILL)
    eventually(app, lambda: app.web_pids().get(second, before[second]) != before[second])
    assert f"The web server on port {second} has stopped; restarting in 1 s." in app.log.read_text()
    eventually(app, lambda: answers(first))
    assert app.web_pids()[first] == before[first]
    eventually(app, lambda: answers(second))

    async def scenario() -> None:
        async with app.reader(1, signed_in[1]) as member:
            assert (await member.get(endpoints.OVERVIEW)).status_code == 200

    event_loop.run(scenario())
