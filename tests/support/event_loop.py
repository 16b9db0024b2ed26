"""Coroutines in tests that may share a process with browser tests: Playwright keeps an event loop in the main thread."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Like ``asyncio.run``, in a thread of its own."""
    with ThreadPoolExecutor() as thread:
        return thread.submit(asyncio.run, coroutine).result()
