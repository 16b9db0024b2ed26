"""Signing in through a real OpenID Connect provider, with a real browser and the whole app."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.running import free_port
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Store
from tests.browser.conftest import LOAD_MS, TRAINED, Server, start_server, stop_server, turn_to
from tests.support import oidc
from tests.support.signing_in import SECRET

pytestmark = pytest.mark.slow

ADMIN, MEMBER = "root@lab.test", "ada@lab.test"
PERSON = ".st-key-person"
ROUTES = ("/live/overview", "/live/feed?runs=1")


@pytest.fixture(scope="module")
def provider() -> Iterator[oidc.Provider]:
    with oidc.provider() as running:
        yield running


@pytest.fixture(scope="module")
def signing_in(browser: Browser, provider: oidc.Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with sign-in and a paused run. Its dispatcher waits for the lock: no worker is needed."""
    home: Path = tmp_path_factory.mktemp("signing-in")
    port = free_port()
    settings = {
        "FEDSCAPE_OIDC_ISSUER": provider.url,
        "FEDSCAPE_OIDC_CLIENT_ID": oidc.CLIENT_ID,
        "FEDSCAPE_OIDC_CLIENT_SECRET": oidc.CLIENT_SECRET,
        "FEDSCAPE_COOKIE_SECRET": SECRET,
        "FEDSCAPE_URL": f"http://127.0.0.1:{port}",
        "FEDSCAPE_ADMINS": ADMIN,
        "FEDSCAPE_MEMBERS": MEMBER,
    }
    store = Store(f"sqlite:///{home / 'fedscape.db'}")
    store.ensure_schema()
    lock = store.try_dispatcher_lock()
    assert lock is not None
    with lock:
        one = new_run(parse_experiment(TRAINED).runs()[0])
        store.experiments.create("of another", {}, [one], owner="bob@lab.test")
        store.queue.request([1], "pause")
        running = start_server(home, port, **settings)
        yield running
        stop_server(running)
    store.close()


def sign_in(page: Page, provider: oidc.Provider, email: str) -> None:
    """Signs in on an open page."""
    provider.person = {"email": email, "email_verified": True}
    page.get_by_role("button", name="Sign in").click(timeout=LOAD_MS)
    page.locator(PERSON).wait_for(timeout=LOAD_MS)


def sign_out(page: Page) -> None:
    page.locator(PERSON).get_by_role("button").first.click()
    with page.expect_response(lambda response: "/auth/logout" in response.url):
        page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=LOAD_MS)


def answers(page: Page, app: Server) -> list[int]:
    """How the routes answer to the cookies of this browser."""
    get = partial(page.context.request.get, max_retries=1)  # as browsers do if the server has just closed a connection
    return [get(f"{app.url}{route}").status for route in ROUTES]


# Uses the page ``stranger``: refused requests are errors in its console.
@pytest.mark.timeout(300)
def test_nothing_is_seen_before_signing_in_or_after_it_ends_and_only_admins_resume_the_runs_of_others(
    signing_in: Server, provider: oidc.Provider, stranger: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{signing_in.url}/live?runs=1&queued=1"
    stranger.goto(address)
    expect(stranger.get_by_role("button", name="Sign in")).to_be_visible(timeout=LOAD_MS)
    assert stranger.get_by_role("link", name="Library").count() == 0
    assert answers(stranger, signing_in) == [401, 401]

    for email, offered in ((MEMBER, 0), (ADMIN, 1)):
        sign_in(stranger, provider, email)
        if email == MEMBER:  # who signed in on this page
            expect(stranger).to_have_url(address)
        turn_to(stranger, address)
        assert answers(stranger, signing_in) == [200, 200]
        stranger.get_by_text("Up next").wait_for(timeout=LOAD_MS)
        expect(stranger.get_by_role("button", name="Resume", exact=True)).to_have_count(offered)
        sign_out(stranger)
        assert answers(stranger, signing_in) == [401, 401]

    monkeypatch.setattr(provider, "lasts_s", 20)  # long enough to draw the page on a busy machine
    sign_in(stranger, provider, MEMBER)
    expect(stranger.get_by_role("button", name="Sign in")).to_be_visible(timeout=LOAD_MS)
    expect(stranger.locator(PERSON)).to_have_count(0)
    assert answers(stranger, signing_in) == [401, 401]
