"""A fleet of two tenants on shared hosts, with names that one of them must never read."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.testclient import TestClient

from forewarn.admin.app import create_app
from forewarn.control.requests.approvals import Approval
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from tests.unit.admin.gateway import LocalGateway

FLEET = """\
[[tenant]]
name = "shop"

[[tenant]]
name = "hidden-bank"

[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"

[[scope]]
name = "hidden-db"
tenant = "hidden-bank"
kind = "availability-set"

[[host]]
name = "hidden-h1"

[[host]]
name = "hidden-h2"

[[vm]]
name = "web_0"
host = "hidden-h1"
scope = "web"
fault_domain = 0
address = "192.0.2.4"

[[vm]]
name = "web_1"
host = "hidden-h2"
scope = "web"
fault_domain = 1

[[vm]]
name = "hidden-db-0"
host = "hidden-h1"
scope = "hidden-db"
fault_domain = 0
address = "203.0.113.9"

[[vm]]
name = "hidden-db-1"
host = "hidden-h2"
scope = "hidden-db"
fault_domain = 1
"""

SECRETS = ("hidden", "203.0.113.9", "HIDDEN")
"""Part of every name and address of others, and of texts by operators."""


class Shared:
    """A service with two tenants on shared hosts."""

    def __init__(self, extra: Sequence[APIRouter] = ()) -> None:
        """Serve them, with the routes of `extra`."""
        self.gateway = LocalGateway(FLEET)
        self._tokens = Counter[str]()
        self.app: FastAPI = create_app(
            self.gateway,
            tokens=None,
            version="1",
            collect=no_readings,
            receivers=Receivers(),
            extra=extra,
        )
        self.client = TestClient(self.app, base_url="http://127.0.0.1:8200")

    def order(self, path: str, **body: Any) -> Any:
        """Send a request as the operator, with a reason."""
        full_body = {"reason": "hidden reason", **body}
        answer = self.client.post(f"/v1/{path}", json=full_body)
        assert answer.is_success, answer.text
        return answer.json()

    def token(self, tenant: str = "shop", **more: Any) -> str:
        """Create a token, and return its text."""
        self._tokens[tenant] += 1
        number = self._tokens[tenant]
        name = "ci" if number == 1 else f"ci-{number}"
        return str(self.order("tokens", tenant=tenant, name=name, **more)["token"])

    def ask(self, token: str, method: str, path: str, **more: Any) -> Any:
        """Send a request with a token."""
        headers = {"Authorization": f"Bearer {token}"}
        return self.client.request(method, path, headers=headers, **more)

    def live(self) -> None:
        """Create shared maintenance, failures and ended operations."""
        for vm in ("web_0", "web_1", "hidden-db-0", "hidden-db-1"):
            self.gateway.enable(vm)
        self.gateway.advance("20m")
        done = self.order("reboot", vms=["hidden-db-0"])
        self.order("cancel", names=[done["request"]])
        operation = self.order("maintain", hosts=["hidden-h1"], impact="live-migrate")
        events = {event["tenant"]: event["EventId"] for event in _events(operation)}
        self.order("approve", event_ids=[events["shop"]])
        # The last approval starts the operation, so the history names its actor.
        approval = Approval(vm="hidden-db-0", event_ids=(events["hidden-bank"],))
        assert self.gateway.plane.approve([approval], now=self.gateway.now()) == (None,)
        self.gateway.advance("30m")
        self.order("fail", names=["hidden-db-1"])
        operation = self.order("maintain", hosts=["hidden-h2"], impact="reboot")
        for event in _events(operation):
            if event["tenant"] == "hidden-bank":
                self.order("approve", event_ids=[event["EventId"]])
        self.order("reboot", vms=["hidden-db-0"])

    def foreign(self) -> dict[str, str]:
        """Return a name of each kind that belongs to the other tenant only."""

        def ask(reader: Reader) -> dict[str, str]:
            foreign = [
                operation
                for operation in every(reader, kinds.ALL_OPERATIONS)
                if operation.scopes == ("hidden-db",)
            ]
            events = list(
                every(reader, kinds.EVENTS_OF_OPERATION, foreign[0].operation_id)
            )
            return {
                "vm": "hidden-db-0",
                "host": "hidden-h1",
                "scope": "hidden-db",
                "tenant": "hidden-bank",
                "operation": foreign[0].operation_id,
                "request": foreign[0].request,
                "event": events[0].event_id,
            }

        return self.gateway.store.read(ask)

    def secrets(self) -> Iterator[str]:
        """Yield texts that the tenant shop must never read."""

        def ask(reader: Reader) -> list[str]:
            secrets: list[str] = [*SECRETS]
            for operation in every(reader, kinds.ALL_OPERATIONS):
                if "web" not in operation.scopes:
                    secrets += [operation.operation_id, operation.request]
                secrets += [
                    event.event_id
                    for event in every(
                        reader, kinds.EVENTS_OF_OPERATION, operation.operation_id
                    )
                    if event.tenant != "shop"
                ]
            return secrets

        yield from self.gateway.store.read(ask)


UNKNOWN = {
    "vm": "nobody-x",
    "host": "nobody-x",
    "scope": "nobody-x",
    "tenant": "nobody-x",
    "operation": "op-0000000000",
    "request": "rq-0000000000",
    "event": "00000000-0000-4000-8000-000000000000",
}
"""Names that do not exist."""


def _events(made: Any) -> list[Any]:
    return [event for operation in made["operations"] for event in operation["events"]]


class Receivers:
    """Two receivers of webhooks, one of each tenant."""

    async def webhooks(self) -> list[dict[str, Any]]:
        return [{"webhook": "hidden-oncall"}, {"webhook": "ours"}]

    async def test_webhook(self, name: str) -> dict[str, Any]:
        return {"webhook": name, "error": "hidden"}


async def no_readings() -> list[Any]:
    return []


def paths(description: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield each method and path of the API with its description."""
    for path, verbs in description["paths"].items():
        for verb, body in verbs.items():
            yield verb.upper(), path, body


def without(text: str, name: str) -> str:
    """Return an answer without the names in the question."""
    return re.sub(re.escape(name), "ASKED", text, flags=re.IGNORECASE)
