"""A configuration in an address."""

import zlib
from base64 import urlsafe_b64encode
from urllib.parse import parse_qs, urlsplit

import pytest

from app.state.links import MAX_BYTES, link, pack_config, setup_link, unpack_config
from engine.core.errors import InvalidConfig
from tests.app.samples import DIGITS


def test_a_configuration_survives_its_link():
    address = urlsplit(setup_link(DIGITS | {"name": "λ & μ?"}))
    assert address.path == "/setup"
    assert unpack_config(parse_qs(address.query)["config"][0]) == DIGITS | {"name": "λ & μ?"}


def test_a_link_is_short():
    assert len(setup_link(DIGITS)) < 600


NO_MAPPING = urlsafe_b64encode(zlib.compress(b"[1]")).decode()


@pytest.mark.parametrize("packed", ["", "x", "!!!!", pack_config(DIGITS)[:-9], NO_MAPPING])
def test_a_truncated_link_is_refused(packed):
    with pytest.raises(InvalidConfig, match="copy the whole link"):
        unpack_config(packed)


def test_a_link_too_large_for_memory_is_refused():
    bomb = urlsafe_b64encode(zlib.compress(b" " * (MAX_BYTES * 2))).decode()
    with pytest.raises(InvalidConfig):
        unpack_config(bomb)


def test_links_omit_unset_options():
    assert link("live") == "/live"
    assert link("live", experiment=3, runs=None) == "/live?experiment=3"
