"""Coroutines in tests that may share their process with Playwright, which keeps an event loop running."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Like ``asyncio.run``, in a separate thread."""
    with ThreadPoolExecutor() as thread:
        return thread.submit(asyncio.run, coroutine).result()
