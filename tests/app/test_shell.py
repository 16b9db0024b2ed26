"""The shell of the app: settings, navigation, routes, and a supervisor that restarts the engine."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit import config
from streamlit.delta_generator_singletons import context_dg_stack
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequest, ScriptRequests
from streamlit.testing.v1 import AppTest

from app import endpoints, pages
from app.__main__ import RESTART_AFTER_S, STEADY_AFTER_S, Child, Supervisor, answers, children, main
from app.server import routes, settings
from storage import StorageError, Store
from tests.app.pages import without_marks
from tests.support.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
NOWHERE = "http://127.0.0.1:9"
DIE = [sys.executable, "-c", "raise SystemExit(3)"]


def test_tests_use_the_settings_of_the_app_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config.get_where_defined("browser.gatherUsageStats") == str(ROOT / ".streamlit" / "config.toml")


def test_loopback_is_the_default() -> None:
    assert settings.addresses({}) == ["http://127.0.0.1:8501"]
    assert settings.allowed_hosts({}) == ["127.0.0.1", "localhost"]


def test_another_host_is_allowed_if_the_app_listens_there() -> None:
    environment = {"HOST": "10.0.0.7", "PORT": "9000", "ALLOWED_HOSTS": "lab.example, fed.example"}
    assert settings.addresses(environment) == ["http://10.0.0.7:9000"]
    assert settings.allowed_hosts(environment) == ["127.0.0.1", "localhost", "10.0.0.7", "lab.example", "fed.example"]


def test_listening_everywhere_does_not_allow_every_name() -> None:
    names = settings.allowed_hosts({"HOST": "0.0.0.0"})
    assert "*" not in names and "0.0.0.0" not in names
    assert settings.addresses({"HOST": "0.0.0.0"}) == ["http://127.0.0.1:8501"]


def test_an_ipv6_host_is_allowed_in_the_format_of_browsers() -> None:
    names = settings.allowed_hosts({"HOST": "::1"})
    app = Starlette(
        routes=[Route("/", lambda request: Response())],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)],
    )
    assert TestClient(app).get("/", headers={"Host": "[::1]:8501"}).status_code == 200
    assert settings.addresses({"HOST": "::1"}) == ["http://[::1]:8501"]


@pytest.mark.parametrize("url", ["nonsense", "mysql://host/name", "postgresql://host:port/name"])
def test_an_invalid_database_url_is_refused_before_anything_starts(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("PORT", str(free_ports(1)[0]))
    assert main() == 2
    assert "DATABASE_URL cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "²"])
def test_an_invalid_port_is_refused(port: str) -> None:
    with pytest.raises(settings.InvalidSetting, match="PORT"):
        settings.port({"PORT": port})


@pytest.mark.parametrize("number", ["0", "17", "-1", "two", "1.5", "²", "9" * 5000])
def test_an_invalid_number_of_web_servers_is_refused_before_anything_starts(
    number: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Supervisor, "run", lambda *_: pytest.fail("it was started"))
    monkeypatch.setenv("FEDSCAPE_WEB", number)
    assert main() == 2
    assert f"FEDSCAPE_WEB is {number!r}, but must be a whole number from 1 to 16" in capsys.readouterr().err


def test_several_web_servers_listen_on_consecutive_ports() -> None:
    environment = {"PORT": "9000", "FEDSCAPE_WEB": "3"}
    assert settings.addresses(environment) == [f"http://127.0.0.1:{port}" for port in (9000, 9001, 9002)]
    app = children(environment)
    assert [child.command[-1] for child in app.web] == [f"--server.port={port}" for port in (9000, 9001, 9002)]
    assert [child.name for child in app.web][:2] == ["web server on port 9000", "web server on port 9001"]


def test_ports_beyond_the_last_one_are_refused() -> None:
    assert settings.ports({"PORT": "65534", "FEDSCAPE_WEB": "2"}) == range(65534, 65536)
    with pytest.raises(settings.InvalidSetting, match="PORT=65534 or lower"):
        settings.ports({"PORT": "65535", "FEDSCAPE_WEB": "2"})


def test_a_busy_port_of_a_later_web_server_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Supervisor, "run", lambda *_: pytest.fail("it was started"))
    first, second = free_ports(2)
    monkeypatch.setenv("PORT", str(first))
    monkeypatch.setenv("FEDSCAPE_WEB", "2")
    with socket.create_server(("127.0.0.1", second)):
        assert main() == 2
    assert f"Port {second} is already in use on 127.0.0.1" in (error := capsys.readouterr().err)
    assert "FEDSCAPE_WEB=2 needs 2 consecutive ports" in error


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_a_busy_port_is_refused_before_anything_starts(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Supervisor, "run", lambda *_: pytest.fail("it was started"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("HOST", host)
        monkeypatch.setenv("FEDSCAPE_OPEN", "1")
        monkeypatch.setenv("PORT", str(port))
        assert main() == 2
    output = capsys.readouterr()
    assert f"Port {port} is already in use" in output.err and "PORT=9000 make run" in output.err and not output.out


def test_a_just_released_port_is_free() -> None:
    (port,) = free_ports(1)
    with (
        socket.create_server(("127.0.0.1", port)) as server,
        socket.create_connection(("127.0.0.1", port)),
        server.accept()[0],
    ):
        pass
    settings.check_ports({"PORT": str(port)})


@pytest.mark.parametrize("host", ["192.0.2.1", "no such name"])
def test_a_host_other_than_this_machine_is_refused(host: str) -> None:
    with pytest.raises(settings.InvalidSetting, match=f"HOST is '{host}'"):
        settings.check_ports({"HOST": host})


def test_the_web_server_gets_host_and_port() -> None:
    command = children({"HOST": "127.0.0.1", "PORT": "9001"}).web[0].command
    assert "--server.port=9001" in command
    assert "--server.allowedHosts=127.0.0.1" in command


def test_small_runs_in_pages_have_one_thread_by_default() -> None:
    app = children({})
    assert app.web[0].environment["OMP_NUM_THREADS"] == "1" and "OMP_NUM_THREADS" not in app.dispatcher.environment
    assert children({"OMP_NUM_THREADS": "2"}).web[0].environment["OMP_NUM_THREADS"] == "2"


def test_pages_are_in_reading_order() -> None:
    assert pages.names()[: len(pages.ORDER)] == list(pages.ORDER)
    assert pages.title("setup") == "Set up"


def test_an_added_file_is_a_page_after_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*pages.ORDER, "my_page"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    assert pages.names() == [*pages.ORDER, "my_page"] and pages.title("my_page") == "My page"


def test_the_shell_opens_its_first_page(empty_store: Store) -> None:
    app = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60).run()
    assert not app.exception
    assert app.title
    assert app.toggle(key="address_presenting").value is False


def test_a_page_requested_as_a_fragment_ends_is_drawn_from_the_top(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, requests = ScriptRequests.on_scriptrunner_ready, iter(["", "fragment", "page"])

    def request_first(self: ScriptRequests) -> ScriptRequest:
        context, what = get_script_run_ctx(), next(requests, None)
        assert context is not None
        run = RerunData(context.query_string, page_script_hash=context.page_script_hash)
        if what == "fragment":
            self.request_rerun(replace(run, fragment_id=max(context.shared.new_fragment_ids.snapshot())))
        elif what == "page":
            assert context.fragment_ids_this_run and len(context_dg_stack.get()) > 1  # it is within a container
            self.request_rerun(run)
        return original(self)

    app = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60).run()
    app.switch_page(str(ROOT / "app" / "views" / "compare.py"))
    monkeypatch.setattr(ScriptRequests, "on_scriptrunner_ready", request_first)
    app.run()
    assert not app.exception and next(requests, None) is None
    assert app.title and min(app.main.children) == 0


def test_a_database_error_within_a_page_is_a_message(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("the disk is full; make room")

    monkeypatch.setattr("storage.experiments.Experiments.list", fail)
    app = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60).run()
    app = app.switch_page(str(ROOT / "app" / "views" / "live.py")).run()
    assert not app.exception
    assert "the disk is full; make room" in app.warning[0].value
    assert app.button(key="try_again")


def test_a_database_error_within_a_part_of_a_page_is_a_message(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageError("the disk is full; make room")

    monkeypatch.setattr("app.compare.chosen_clients.picker", fail)
    app = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60).run()
    app = app.switch_page(str(ROOT / "app" / "views" / "compare.py")).run()
    assert not app.exception
    assert "the disk is full; make room" in app.warning[-1].value
    assert app.button(key="try_again")


@pytest.mark.slow
def test_a_plugin_that_breaks_while_the_app_runs_is_named_on_each_page(
    filled_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    app = AppTest.from_file(str(ROOT / "app" / "main.py"), default_timeout=60).run()
    for name in ("live", "compare", "handbook", "library", "setup"):  # AppTest cannot leave Set up
        (tmp_path / "mine.py").write_text("import no_such_module", encoding="utf-8")
        app.query_params["method"] = "fedavg"  # the index of the handbook counts the costs of all
        app = app.switch_page(str(ROOT / "app" / "views" / f"{name}.py")).run()
        assert not app.exception, name
        assert "mine.py: cannot be imported" in without_marks(app.warning[0].value).replace("\\", ""), name
        (tmp_path / "mine.py").unlink()
        app.button(key="try_again").click().run()
        assert not app.exception and not app.warning, name


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    """With one web server."""
    app = Supervisor(Child("worker", SLEEP, os.environ), [Child("web server", SLEEP, os.environ)])
    yield app
    app.stop_children()


def died(child: Child) -> Child:
    """Ends the process and waits for it."""
    assert child.process is not None
    child.process.wait()
    return child


@pytest.mark.slow
def test_an_engine_that_dies_is_restarted_with_growing_delays(supervisor: Supervisor) -> None:
    engine = supervisor.dispatcher
    engine.command = DIE
    engine.start()
    for wait in RESTART_AFTER_S[:3]:
        noticed_at = died(engine).started_at + 1
        engine.keep_running(noticed_at)
        assert engine.start_at == noticed_at + wait
        engine.keep_running(engine.start_at)


def test_an_engine_that_lived_long_is_restarted_soon(supervisor: Supervisor) -> None:
    engine = supervisor.dispatcher
    engine.command, engine.failures = DIE, 4
    engine.start()
    noticed_at = died(engine).started_at + STEADY_AFTER_S + 1
    engine.keep_running(noticed_at)
    assert engine.start_at == noticed_at + RESTART_AFTER_S[0]


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that responds, on a machine with a proxy that does not."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, NOWHERE)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Healthy)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/_stcore/health" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_the_servers_of_this_machine_are_reached_without_a_proxy(healthy: str) -> None:
    assert answers(healthy) and not answers(NOWHERE)


def test_the_container_is_healthy_behind_a_proxy(healthy: str) -> None:
    check = re.search(r"HEALTHCHECK[^[]*(\[.*\])", (ROOT / "Dockerfile").read_text())
    assert check is not None
    python, *words = json.loads(check[1])
    assert python == "python"
    port = healthy.rpartition(":")[2]
    assert subprocess.run([sys.executable, *words], env={**os.environ, "PORT": port}).returncode == 0


def test_a_server_that_does_not_speak_http_has_not_responded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond() -> None:
            connection, _ = server.accept()
            connection.sendall(b"no HTTP\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=respond)
        thread.start()
        assert not answers(f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_stopping_ends_both_children(supervisor: Supervisor) -> None:
    supervisor.stop.set()
    assert supervisor.run([NOWHERE]) == 0
    assert not supervisor.dispatcher.is_running and not supervisor.web[0].is_running


def test_the_app_ends_with_its_web_server(supervisor: Supervisor) -> None:
    supervisor.web[0].command = DIE
    assert supervisor.run([NOWHERE]) == 1
    assert not supervisor.dispatcher.is_running


def test_children_have_process_groups_of_their_own_in_the_session_of_the_supervisor(supervisor: Supervisor) -> None:
    started = (supervisor.dispatcher, *supervisor.web)
    for child in started:
        child.start()
    pids = [child.process.pid for child in started if child.process]
    assert {os.getsid(pid) for pid in pids} == {os.getsid(0)}
    assert [os.getpgid(pid) for pid in pids] == pids


@pytest.mark.slow
def test_a_web_server_that_dies_is_restarted_while_another_one_runs(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.__main__.RESTART_AFTER_S", (0.0,))
    dying = Child("web server on port 8502", DIE, os.environ)
    supervisor.web = [*supervisor.web, dying]
    died_before = threading.Event()

    def start_again() -> None:
        if died_before.is_set():
            supervisor.stop.set()
        died_before.set()
        Child.start(dying)

    monkeypatch.setattr(dying, "start", start_again)
    assert supervisor.run([NOWHERE]) == 0
    assert "The web server on port 8502 has stopped; restarting in 0 s." in capsys.readouterr().err


def test_the_app_ends_with_its_last_web_server(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.__main__.RESTART_AFTER_S", (60.0,))  # longer than it takes the other one to end
    supervisor.web = [Child(f"web server on port {port}", DIE, os.environ) for port in (8501, 8502)]
    assert supervisor.run([NOWHERE]) == 1
    assert "All web servers have stopped" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent is gone")
@pytest.mark.slow
def test_children_of_a_killed_supervisor_end() -> None:
    start = "import app.__main__ as a, os, sys, time; c = a.Child('engine', sys.argv[1:], os.environ); c.start(); "
    parent = subprocess.Popen(
        [sys.executable, "-c", start + "print(c.process.pid, flush=True); time.sleep(60)", *SLEEP],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    for _ in range(200):
        if not is_alive(child):
            break
        time.sleep(0.05)
    assert not is_alive(child)


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.fixture
def client(filled_store: Store) -> Iterator[TestClient]:
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=settings.allowed_hosts({}), www_redirect=False)
    with TestClient(Starlette(routes=routes.build(filled_store), middleware=[hosts]), "http://127.0.0.1") as client:
        yield client


def test_the_feed_returns_points_that_are_not_cached(client: TestClient) -> None:
    answer = client.get(endpoints.FEED, params={"runs": "1,2", "after": "4,5"})
    assert answer.json()["points"]["1"]["round"] == [5]
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("query", ["", "runs=x", "runs=1&after=1,2", "runs=1&model=both"])
def test_an_invalid_request_to_the_feed_is_refused_with_a_message(client: TestClient, query: str) -> None:
    answer = client.get(f"{endpoints.FEED}?{query}")
    assert answer.status_code == 400
    assert answer.json()["problem"]


@pytest.mark.parametrize("number", ["99999999999999999999", "9" * 5000])
def test_ids_beyond_the_database_range_do_not_break_the_feed(client: TestClient, number: str) -> None:
    assert client.get(f"{endpoints.FEED}?runs={number}").status_code == 400
    assert client.get(f"{endpoints.FEED}?runs=1,{number}&after=-1").json()["points"]["1"]
    assert client.get(f"{endpoints.FEED}?runs=1&after=-{number}").status_code in (200, 400)


def test_an_unreadable_database_is_reported(tmp_path: Path) -> None:
    client = TestClient(Starlette(routes=routes.build(Store(f"sqlite:///{tmp_path / 'new.db'}"))))
    answer = client.get(endpoints.OVERVIEW)
    assert answer.status_code == 503
    assert answer.json()["problem"]


def test_routes_are_read_only(client: TestClient) -> None:
    assert {client.post(address).status_code for address in (endpoints.FEED, endpoints.OVERVIEW, endpoints.PLOTLY)} == {
        405
    }


def test_a_foreign_host_name_is_refused(client: TestClient) -> None:
    assert client.get(endpoints.OVERVIEW, headers={"Host": "evil.example"}).status_code == 400
    assert client.get(endpoints.OVERVIEW, headers={"Host": "localhost:8501"}).status_code == 200


def test_other_origins_cannot_read(client: TestClient) -> None:
    answer = client.get(endpoints.OVERVIEW, headers={"Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in answer.headers


def test_every_page_has_its_own_title(client: TestClient) -> None:
    found = [re.search("<title>(.*)</title>", client.get(address).text) for address in ("/", "/compare", "/run")]
    assert [title and title[1] for title in found] == [
        "Learn · Fedscape",
        "Compare · Fedscape",
        "Inside a run · Fedscape",
    ]


def test_the_drawing_library_is_served_locally(client: TestClient) -> None:
    answer = client.get(endpoints.PLOTLY)
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "plotly" in answer.text[:200]


def test_a_link_to_a_page_has_the_servers_path(client: TestClient) -> None:
    assert "BACKEND_BASE_URL" in client.get("/live").text


def test_styles_of_all_pages_are_loaded_before_the_first(client: TestClient) -> None:
    head, body = client.get("/library").text.split("<body>")
    assert (
        ".kicker {" in body and ".kicker {" not in head
    )  # after Streamlit's styles, which are added to the head later


@pytest.mark.parametrize("chunk", ["PlotlyChart", "DataFrame", "arrowFormatUtils"])
def test_only_pages_with_charts_preload_the_files_of_charts(client: TestClient, chunk: str) -> None:
    link = rf'rel="modulepreload" crossorigin href="/(static/js/{chunk}\.[^"]+)"'
    (ahead,) = re.findall(link, client.get("/compare").text)
    assert (Path(st.__file__).parent / "static" / ahead).is_file()
    assert not re.findall(link, client.get("/").text)


@pytest.mark.parametrize("chunk", ["Html", "purify.es", "ButtonGroup", "Button", "PageLink"])
def test_every_page_preloads_the_files_of_texts_and_buttons(client: TestClient, chunk: str) -> None:
    link = rf'rel="modulepreload" crossorigin href="/(static/js/{chunk}\.[^"]+)"'
    for name in ("", *pages.names()):
        (ahead,) = re.findall(link, client.get(f"/{name}").text)
        assert (Path(st.__file__).parent / "static" / ahead).is_file()


def test_pages_with_moving_figures_preload_what_draws_them(client: TestClient) -> None:
    for name in ("", "live"):
        head = client.get(f"/{name}").text
        assert f'as="script" fetchpriority="low" href="{endpoints.LIBRARY}"' in head
        assert all(f"/static/js/{chunk}." in head for chunk in ("BidiComponent", "Slider"))
