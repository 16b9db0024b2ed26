"""A page that reconnects to a web server that does not know its session is loaded again.

Sessions are in the memory of a web server. They are gone when it has stopped, and two minutes after a page lost its
connection. Streamlit then opens a new session, in which nothing has been drawn, so what the page still shows would not
respond: its fragments and downloads are those of the old session. The choices are in the address, and stay.
"""

from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import runtime
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg


class Reconnection:
    """Wraps the app."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = earlier_session(scope) if scope["type"] == "websocket" else ""
        await self.app(scope, with_reload(session, receive, send) if session else receive, send)


def earlier_session(scope: Scope) -> str:
    """The session that the page had before it lost its connection; empty if it was just loaded."""
    protocols = Headers(scope=scope).get("sec-websocket-protocol", "").split(",")
    return protocols[2].strip() if len(protocols) > 2 else ""


def with_reload(session: str, receive: Receive, send: Send) -> Receive:
    """``receive`` of a connection that lets the browser load the page again if it does not continue ``session``."""
    calls = 0

    async def received() -> Message:
        nonlocal calls
        calls += 1
        # The first call accepts the connection; before the second, Streamlit continues the session or opens a new one.
        if calls == 2 and not runtime.get_instance().is_active_session(session):
            with suppress(OSError):  # it is closed already, as ``receive`` will say
                await send({"type": "websocket.send", "bytes": reload()})
        return await receive()

    return received


def reload() -> bytes:
    """Streamlit's message that opens an address in the browser; the empty one is that of the page."""
    message = ForwardMsg()
    message.auth_redirect.url = ""
    return message.SerializeToString()
