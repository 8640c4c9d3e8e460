"""A browser at a service with tokens: it keeps cookies, and says where requests come
from."""

from typing import Any

from starlette.testclient import TestClient

from forewarn.admin.access import UNIX_PEER, UnixPeer
from forewarn.admin.app import create_app
from forewarn.admin.tokens import Tokens, parse_tokens
from forewarn.instants import Micros
from tests.unit.admin.gateway import LocalGateway

SECRET = "0123456789abcdef01234567"
BEARER = {"Authorization": f"Bearer {SECRET}"}
TOKENS = parse_tokens(f"alice:{SECRET}", file="tokens")
SITE = "https://ops.example"


SECURE = "__Host-forewarn"
PLAIN = "forewarn"


class Browser:
    """One browser, with a page of the service open."""

    def __init__(
        self, client: TestClient, *, keeps_secure: bool = True, origin: str = ""
    ) -> None:
        """Use `client`. Some browsers keep no `Secure` cookie from http."""
        self.client = client
        self.origin = origin or str(client.base_url).rstrip("/")
        self.keeps_secure = keeps_secure
        self.cookies: dict[str, str] = {}
        self.said: list[str] = []
        """The values of `Set-Cookie` of the last response."""

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Send a request of the page."""
        site = {"Sec-Fetch-Site": "same-origin"} if self.keeps_secure else {}
        headers = {"Origin": self.origin} if method != "GET" else {}
        if method == "DELETE":
            headers["Content-Type"] = "application/json"
        if self.cookies:
            pairs = (f"{name}={value}" for name, value in self.cookies.items())
            headers["Cookie"] = "; ".join(pairs)
        headers |= site | more.pop("headers", {})
        answer = self.client.request(method, path, headers=headers, **more)
        # The client has cookies of its own, which other callers would send too.
        self.client.cookies.clear()
        self.said = answer.headers.get_list("set-cookie")
        for cookie in self.said:
            self._keep(cookie)
        return answer

    def _keep(self, said: str) -> None:
        pair, _, attributes = said.partition("; ")
        name, _, value = pair.partition("=")
        if name.startswith("__Host-"):
            assert "Secure" in attributes
            assert "Path=/;" in attributes
            assert "Domain" not in attributes
        if "Secure" in attributes and not self.keeps_secure:
            return
        if "Max-Age=0" in attributes:
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = value

    def log_in(self, **body: str) -> Any:
        """Begin a session, with a `token` or a `link`."""
        return self.ask("POST", "/v1/session", json=body)

    def who(self) -> str:
        """Return the name of the caller; empty: a session must begin first."""
        answer = self.ask("GET", "/v1/session")
        return answer.json()["name"] if answer.status_code == 200 else ""


class Service:
    """A service with a token file."""

    def __init__(
        self, tokens: Tokens | None = TOKENS, *, base: str = SITE, **more: Any
    ) -> None:
        self.gateway = more.pop("gateway", None) or LocalGateway()
        self.app = create_app(
            self.gateway,
            tokens=tokens,
            version="1.2",
            clock=self.gateway.clock,
            **more,
        )
        self.client = TestClient(self.app, base_url=base)
        self.headers = BEARER if tokens is not None else {}

    def token(self, tenant: str = "shop", **more: Any) -> Any:
        body = {"tenant": tenant, "name": "ci", **more}
        answer = self.client.post("/v1/tokens", headers=self.headers, json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def revoke(self, made: Any) -> None:
        answer = self.client.post(
            "/v1/tokens/revoke", headers=self.headers, json={"id": made["id"]}
        )
        assert answer.status_code == 200, answer.text

    def move(self, span: Micros) -> None:
        self.gateway.clock.advance_to(self.gateway.now() + span)

    def link(self, token: str = SECRET) -> Any:
        answer = self.client.post(
            "/v1/session/links", json={}, headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 201, answer.text
        return answer.json()


class AtSocket:
    """The application at a Unix socket, where the kernel identifies `dora`."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.peer = UnixPeer(
            name="unix:dora",
            where="pid 7, uid 7",
            is_operator=True,
            wanted="forewarn",
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, UNIX_PEER: self.peer}
        await self.app(scope, receive, send)
