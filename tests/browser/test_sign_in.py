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
from tests.browser.conftest import LOAD_MS, READY, TRAINED, Server, forget, start_server, stop_server
from tests.support import oidc
from tests.support.signing_in import SECRET

pytestmark = pytest.mark.slow

ADMIN, MEMBER, VISITOR = "root@lab.test", "ada@lab.test", "guest@lab.test"
PERSON = ".st-key-person"
ROUTES = ("/live/overview", "/live/feed?runs=1")


@pytest.fixture(scope="module")
def provider() -> Iterator[oidc.Provider]:
    with oidc.provider() as running:
        yield running


@pytest.fixture(scope="module")
def signing_in(browser: Browser, provider: oidc.Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with sign-in: an admin, a member, and a visitor."""
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
    running = start_server(home, port, **settings)
    store = Store(running.database_url)
    store.ensure_schema(wait_s=60)
    long = TRAINED | {"training": TRAINED["training"] | {"rounds": 100_000}}  # a worker may be faster than the pause
    one = new_run(parse_experiment(long).runs()[0])
    store.experiments.create("of another", {}, [one], owner="bob@lab.test")
    store.queue.request([1], "pause")
    store.close()
    yield running
    stop_server(running)


def sign_in(page: Page, app: Server, provider: oidc.Provider, email: str, address: str = "/library") -> None:
    provider.person = {"email": email, "email_verified": True}
    page.goto(f"{app.url}{address}")
    page.get_by_role("button", name="Sign in").click(timeout=LOAD_MS)
    page.locator(PERSON).wait_for(timeout=LOAD_MS)


def answers(page: Page, app: Server) -> list[int]:
    """How the routes answer to the cookies of this browser."""
    get = partial(page.context.request.get, max_retries=1)  # as browsers do if the server has just closed a connection
    return [get(f"{app.url}{route}").status for route in ROUTES]


# All tests use the page ``stranger``: refused requests are errors in its console.
def test_nothing_is_seen_before_and_everything_after_signing_in_until_signing_out(
    signing_in: Server, provider: oidc.Provider, stranger: Page
) -> None:
    stranger.goto(f"{signing_in.url}/library")
    expect(stranger.get_by_role("button", name="Sign in")).to_be_visible(timeout=LOAD_MS)
    assert stranger.get_by_role("link", name="Library").count() == 0
    assert answers(stranger, signing_in) == [401, 401]

    sign_in(stranger, signing_in, provider, MEMBER, "/live?runs=1")
    expect(stranger).to_have_url(f"{signing_in.url}/live?runs=1")
    assert answers(stranger, signing_in) == [200, 200]
    stranger.locator(PERSON).get_by_role("button").first.click()
    with stranger.expect_response(lambda response: "/auth/logout" in response.url):
        stranger.get_by_role("button", name="Sign out").click()
    expect(stranger.get_by_role("button", name="Sign in")).to_be_visible(timeout=LOAD_MS)
    assert answers(stranger, signing_in) == [401, 401]


def test_a_member_has_no_way_to_cancel_the_run_of_another_and_an_admin_has(
    signing_in: Server, provider: oidc.Provider, stranger: Page
) -> None:
    for email, offered in ((MEMBER, 0), (VISITOR, 0), (ADMIN, 1)):
        sign_in(stranger, signing_in, provider, email, "/live?runs=1&queued=1")
        stranger.wait_for_selector(READY, timeout=LOAD_MS)
        stranger.get_by_text("Up next").wait_for(timeout=LOAD_MS)
        expect(stranger.get_by_role("button", name="Resume", exact=True)).to_have_count(offered)
        forget(stranger)


def test_a_page_asks_to_sign_in_again_when_the_sign_in_ends(
    signing_in: Server, provider: oidc.Provider, stranger: Page
) -> None:
    provider.lasts_s = 8
    sign_in(stranger, signing_in, provider, MEMBER)
    provider.lasts_s = 3600
    expect(stranger.get_by_role("button", name="Sign in")).to_be_visible(timeout=30_000)
    expect(stranger.locator(PERSON)).to_have_count(0)
    assert answers(stranger, signing_in) == [401, 401]
