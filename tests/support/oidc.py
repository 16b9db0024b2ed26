"""A small OpenID Connect provider on 127.0.0.1: the authorization-code flow with PKCE, and ID tokens signed with RS256.

There is no password: every user is ``Provider.person``. Everything else is checked as by a real provider.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "fedscape", "known to both"


@dataclass
class Provider:
    """``person`` has the claims of the next sign-in; ``lasts_s`` is how long its ID token is valid."""

    url: str
    person: dict[str, Any] = field(default_factory=dict)
    lasts_s: float = 3600
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
        }

    def authorize(self, query: dict[str, str]) -> str:
        """The address to send the browser back to, with a code."""
        self.check(query.get("client_id") == CLIENT_ID, "the client id")
        self.check(query.get("response_type") == "code", "the response type")
        self.check("openid" in query.get("scope", ""), "the scope")
        self.check(query.get("code_challenge_method") == "S256", "PKCE")
        code = secrets.token_urlsafe()
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any]:
        """The response to a code, which is valid once."""
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        posted = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        self.check(authorization == f"Basic {basic}" or posted, "the client's secret")
        request = self.codes.pop(form["code"])
        self.check(form["redirect_uri"] == request["redirect_uri"], "the address to come back to")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
        self.check(challenge.rstrip("=") == request["code_challenge"], "the verifier of PKCE")
        now = time.time()
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": int(now), "exp": int(now + self.lasts_s)}
        claims |= {"nonce": request["nonce"], "sub": f"id of {self.person.get('email')}"} | self.person
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)
        return {"access_token": "unused", "token_type": "Bearer", "expires_in": 3600, "id_token": token}

    def check(self, is_right: bool, what: str) -> None:
        if not is_right:
            self.problems.append(f"{what} was wrong")


@contextmanager
def provider() -> Iterator[Provider]:
    """Runs the provider in a thread. Fails at the end if a request was invalid."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        running = Provider(f"http://127.0.0.1:{server.server_port}")
        server.RequestHandlerClass = _handler(running)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield running
        server.shutdown()
    assert not running.problems, running.problems


def _handler(running: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_response(302)
                self.send_header("Location", running.authorize(query))
                self.end_headers()
            elif parts.path == "/keys":
                self.answer({"keys": [running.key.as_dict(private=False)]})
            else:
                self.answer(running.discovery())

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(text).items()}
            self.answer(running.token(form, self.headers.get("Authorization", "")))

        def answer(self, content: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler
