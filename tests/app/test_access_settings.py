"""At the start of the app: HOST beyond loopback needs sign-in or FEDSCAPE_OPEN, and sign-in needs all its settings."""

from pathlib import Path

import pytest

from app.__main__ import children, main
from app.access import permits
from app.access.errors import InvalidSetting
from app.access.rules import rules
from app.data.overview import overview
from app.server import settings, sign_in
from storage import Store
from tests.support.signing_in import SETTINGS, URL

BEYOND = ("0.0.0.0", "::", "10.0.0.7", "lab.example", "0", "127.0.0.1.example")
ALERT = "Everyone on the network can see, queue and delete everything here"


@pytest.mark.parametrize("host", BEYOND)
def test_listening_beyond_loopback_without_sign_in_is_refused(host: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        settings.check_access({"HOST": host})
    assert all(way in str(refused.value) for way in ("share-with-others.md", "ssh -N -L", "FEDSCAPE_OPEN=1"))


@pytest.mark.parametrize("way", [{"FEDSCAPE_OPEN": "1"}, SETTINGS])
@pytest.mark.parametrize("host", BEYOND)
def test_it_starts_if_it_may_be_open_or_people_sign_in(host: str, way: dict[str, str]) -> None:
    pytest.importorskip("authlib")
    settings.check_access({"HOST": host} | way)


@pytest.mark.parametrize("given", [{"FEDSCAPE_OPEN": "0"}, {"FEDSCAPE_OPEN": "yes"}, {"FEDSCAPE_READ_ONLY": "1"}])
def test_other_values_do_not_open_it(given: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting):
        settings.check_access({"HOST": "0.0.0.0"} | given)


@pytest.mark.parametrize("host", ["", "127.0.0.1", "127.0.0.5", "localhost", "::1"])
def test_loopback_needs_nothing(host: str) -> None:
    settings.check_access({"HOST": host})


def test_the_app_does_not_start_on_the_network_by_accident(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOST", "0.0.0.0")
    assert main() == 2
    assert "HOST is 0.0.0.0: other computers could reach Fedscape" in capsys.readouterr().err


def test_the_strip_shows_that_the_app_is_open(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not overview(empty_store)["alerts"]
    monkeypatch.setenv("HOST", "0.0.0.0")
    monkeypatch.setenv("FEDSCAPE_OPEN", "1")
    assert overview(empty_store)["alerts"][0].startswith(ALERT)
    monkeypatch.setenv("HOST", "127.0.0.1")
    assert not overview(empty_store)["alerts"]


def test_the_strip_shows_a_demo(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"HOST": "0.0.0.0", "FEDSCAPE_OPEN": "1", "FEDSCAPE_READ_ONLY": "1"}.items():
        monkeypatch.setenv(name, value)
    shown = overview(empty_store)
    assert shown["text"].startswith("read-only demo · ") and not shown["alerts"]


@pytest.mark.parametrize("missing", SETTINGS)
def test_an_incomplete_configuration_is_refused_with_the_missing_names(missing: str) -> None:
    given = {name: value for name, value in SETTINGS.items() if name != missing}
    with pytest.raises(InvalidSetting, match=f"also needs {missing}"):
        rules(given)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"FEDSCAPE_COOKIE_SECRET": "short"}, "has 5 characters"),
        ({"FEDSCAPE_URL": "http://lab.example"}, "must be an address that starts with https://"),
        ({"FEDSCAPE_URL": "https://lab.example/fedscape"}, "must be https://name"),
        ({"FEDSCAPE_URL": "https://lab.example:x"}, "FEDSCAPE_URL"),
        ({"FEDSCAPE_URL": "https://lab..example"}, "is not a valid host name"),
        ({"FEDSCAPE_OIDC_ISSUER": "http://accounts.example"}, "FEDSCAPE_OIDC_ISSUER"),
        ({"FEDSCAPE_OIDC_ISSUER": "accounts.example"}, "FEDSCAPE_OIDC_ISSUER"),
        ({"FEDSCAPE_SESSION_HOURS": "soon"}, "FEDSCAPE_SESSION_HOURS"),
        ({"FEDSCAPE_SESSION_HOURS": "-1"}, "FEDSCAPE_SESSION_HOURS"),
    ],
)
def test_an_invalid_setting_is_refused(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        rules(SETTINGS | changes)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Lab.example:443/", "https://lab.example"),
        ("https://lab.example:8443", "https://lab.example:8443"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[::1]:8501", "http://[::1]:8501"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ],
)
def test_the_address_is_what_a_browser_sends_as_its_origin(url: str, origin: str) -> None:
    sign_in = rules(SETTINGS | {"FEDSCAPE_URL": url}).sign_in
    assert sign_in is not None and sign_in.url == origin


@pytest.mark.parametrize("name", ["FEDSCAPE_ADMINS", "FEDSCAPE_MEMBERS"])
def test_roles_without_sign_in_are_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{name} need sign-in"):
        rules({name: "ada@lab.test"})


def test_a_demo_is_not_writable_because_of_a_misspelt_value() -> None:
    for value in ("true", "yes", " 1"):
        with pytest.raises(InvalidSetting, match=f"FEDSCAPE_READ_ONLY is '{value}', but must be 0, 1 or unset"):
            settings.check_access({"FEDSCAPE_READ_ONLY": value})


def test_read_only_may_be_0_or_empty() -> None:
    given: list[dict[str, str]] = [{}, *({"FEDSCAPE_READ_ONLY": value} for value in ("", "0", "1"))]
    assert [rules(one).is_read_only for one in given] == [False, False, False, True]


@pytest.mark.parametrize("setting", ["FEDSCAPE_ADMINS", "FEDSCAPE_MEMBERS"])
def test_a_list_that_names_nobody_is_refused(setting: str) -> None:
    for names in (",", " ", "ada@lab.test;bob@lab.test", "ada@lab.test bob@lab.test", "*@lab.test"):
        with pytest.raises(InvalidSetting, match=setting):
            rules(SETTINGS | {setting: names})


def test_groups_may_have_spaces_and_an_empty_list_is_like_none() -> None:
    found = rules(SETTINGS | {"FEDSCAPE_ADMINS": "Lab Staff, ada@lab.test,", "FEDSCAPE_MEMBERS": ""})
    assert (found.admins, found.members) == ({"lab staff", "ada@lab.test"}, frozenset())


@pytest.mark.parametrize("name", ["FEDSCAPE_MAX_QUEUED", "FEDSCAPE_MAX_RUNNING", "FEDSCAPE_MAX_MINUTES"])
def test_an_invalid_limit_is_refused_before_anything_starts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "many")
    with pytest.raises(InvalidSetting, match=name):
        settings.check_access(SETTINGS)


def test_a_missing_folder_of_plugins_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path / "absent"))
    assert main() == 2
    assert f"FEDSCAPE_PLUGINS: {tmp_path / 'absent'} is not a folder" in capsys.readouterr().err


def test_folders_of_plugins_are_absolute_for_the_programs_of_the_app(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    app = children({"FEDSCAPE_PLUGINS": "mine"})
    assert app.dispatcher.environment["FEDSCAPE_PLUGINS"] == str(tmp_path / "mine")


def test_the_address_of_the_app_is_an_allowed_host() -> None:
    assert "lab.example" in settings.allowed_hosts(SETTINGS | {"FEDSCAPE_URL": "https://lab.example"})


def test_workers_do_not_get_the_secrets_of_the_web_server() -> None:
    app = children(SETTINGS)
    secrets = {"FEDSCAPE_OIDC_CLIENT_SECRET", "FEDSCAPE_COOKIE_SECRET", "STREAMLIT_SERVER_COOKIE_SECRET"}
    assert secrets <= app.web[0].environment.keys() and not secrets & app.dispatcher.environment.keys()
    assert not any(SETTINGS["FEDSCAPE_COOKIE_SECRET"] in part for part in app.web[0].command)


def test_streamlit_gets_the_provider() -> None:
    given = sign_in.secrets(rules(SETTINGS))
    assert given is not None and given["auth"]["redirect_uri"] == f"{URL}/oauth2callback"
    assert (
        given["auth"]["server_metadata_url"] == f"{SETTINGS['FEDSCAPE_OIDC_ISSUER']}/.well-known/openid-configuration"
    )


def test_without_sign_in_nothing_is_added() -> None:
    assert sign_in.secrets(rules({})) is None and sign_in.middleware(rules({})) == []
    assert permits.signed_in() == permits.EVERYONE
