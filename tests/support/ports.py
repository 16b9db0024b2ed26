"""Free ports for servers of tests."""

import random
import socket
from contextlib import ExitStack

LOWEST, HIGHEST = 20_000, 32_000  # below the ports that Linux gives to outgoing connections
TRIES = 200
_random = random.SystemRandom()  # not the same in every process of the test run


def free_ports(number: int) -> list[int]:
    """Successive ports of 127.0.0.1 on which nothing listens."""
    for _ in range(TRIES):
        first = _random.randint(LOWEST, HIGHEST - number)
        found = list(range(first, first + number))
        if _are_free(found):
            return found
    raise OSError(f"no {number} consecutive free ports from {LOWEST} to {HIGHEST}")


def _are_free(ports: list[int]) -> bool:
    with ExitStack() as probes:
        for port in ports:
            try:
                probes.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                return False
    return True
