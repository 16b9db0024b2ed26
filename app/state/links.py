"""Links into the app's pages. A whole set-up fits into one, so that any page can open Set up pre-filled."""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from engine.config.yaml_text import problem_in
from engine.core.errors import InvalidConfig
from storage.models import MAX_ID

MAX_IDS = 10_000  # that a database takes in one query
MAX_BYTES = 1 << 20  # unpacked; an experiment has a few kilobytes


def link(page: str, /, **params: object) -> str:
    """``/page?name=value``, for a link in a text."""
    given = {name: value for name, value in params.items() if value is not None}
    return f"/{page}" + (f"?{urlencode(given)}" if given else "")


def parse_ids(text: str) -> list[int]:
    """Parse ``3,5``, without duplicates and without parts that are no ids."""
    parts = (part.strip() for part in text.split(","))
    numbers = (int(part) for part in parts if part.isdecimal() and len(part) <= len(str(MAX_ID)))
    return list(dict.fromkeys(n for n in numbers if n <= MAX_ID))[:MAX_IDS]


def setup_link(config: Mapping[str, Any]) -> str:
    """Opens Set up filled with an experiment's configuration."""
    return link("setup", config=pack_config(config))


def pack_config(config: Mapping[str, Any]) -> str:
    """A configuration, encoded for a URL."""
    text = json.dumps(config, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def unpack_config(packed: str) -> dict[str, Any]:
    """Inverse of pack_config. Raises InvalidConfig for a link that was truncated or not created by Fedscape."""
    try:
        compressed = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(compressed, MAX_BYTES)
        config = json.loads(text) if unpacker.eof else None
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise InvalidConfig(["the link's configuration cannot be read, perhaps it was cut off; copy the whole link"])
    if reason := problem_in(config):
        raise InvalidConfig([f"the link's configuration cannot be used: {reason}"])
    return config
