"""Small web servers that respond with their port, over HTTP and over a WebSocket, as the web servers behind a proxy."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

STREAM = "/_stcore/stream"


class NamedServer:
    """It sets a cookie with every response over HTTP."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._server = serve(self._greet, "127.0.0.1", self.port, process_request=self._respond)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        """Nothing listens on the port afterwards."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server = self._thread = None

    def _respond(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == STREAM:
            return None
        response = connection.respond(200, f"{self.port} {request.headers['Host']}")
        response.headers["Set-Cookie"] = "_streamlit_user=ada; Path=/; HttpOnly; SameSite=lax"
        response.headers["Set-Cookie"] = "_streamlit_xsrf=token; Path=/"
        return response

    def _greet(self, connection: ServerConnection) -> None:
        connection.send(str(self.port))


@contextmanager
def running(ports: list[int]) -> Iterator[dict[int, NamedServer]]:
    """By port."""
    servers = {port: NamedServer(port) for port in ports}
    for server in servers.values():
        server.start()
    try:
        yield servers
    finally:
        for server in servers.values():
            server.stop()
