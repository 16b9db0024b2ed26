"""Imported names in a browser are text on every page, never an image, a link or a request to another host."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from app.state.links import pack_config
from storage import Store
from tests.app.hostile import HOST, NAME, store_hostile
from tests.app.samples import DIGITS
from tests.browser.conftest import LOAD_MS, PageProblems, Server, noting, turn_to

OF_HOST = f"""() => [...document.querySelectorAll("*")].flatMap(one => [...one.attributes]
  .filter(({{name, value}}) => /^(xlink:)?href$|^src/.test(name) && /^[^?]*{HOST}/.test(value))
  .map(({{name, value}}) => `${{one.tagName}} ${{name}}=${{value}}`))"""
PAGES = (
    "compare?runs={all}",
    "run?id={clustered}&tab=clients",
    "run?id={clustered}&tab=clusters",
    "run?id={clustered}&tab=record",
    "live?runs={all}",
    "library?runs={all}",
    "setup?config={config}",
    "papers?preset={name}",
)


@pytest.fixture(scope="module")
def runs(server: Server) -> Iterator[list[int]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DATABASE_URL", server.database_url)
        store = Store(server.database_url)
        store.ensure_schema(wait_s=LOAD_MS / 1000)
        yield store_hostile(store)
        store.close()


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_name_is_text_on_every_page(page: Page, server: Server, runs: list[int], page_problems: PageProblems) -> None:
    config = pack_config(DIGITS | {"name": NAME, "algorithms": [{"name": "fedavg", "label": NAME}, {"name": NAME}]})
    given = {"all": ",".join(map(str, runs)), "clustered": runs[2], "config": config, "name": NAME.replace(" ", "%20")}
    for address in PAGES:
        with noting(address):
            turn_to(page, f"{server.url}/{address.format(**given)}")
            page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')", timeout=LOAD_MS)
            if "papers" not in address:
                page.wait_for_function(f"document.documentElement.textContent.includes({HOST!r})", timeout=LOAD_MS)
            assert page.evaluate(OF_HOST) == []
            assert page_problems == PageProblems()
