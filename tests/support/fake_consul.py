"""A fake of Consul's agent: maintenance mode and what shows it, with ACLs.

It answers as Consul's HTTP API is documented to: maintenance is a critical check with
its reason as notes, one that is there already is left as it is, and lists have only
what a token may read.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.support.json_api import JsonApi, Request, Response

NODE_CHECK = "_node_maintenance"
SERVICE_CHECK = "_service_maintenance:"
USUAL_REASON = "Maintenance mode is enabled for this node, but no reason was provided."

_MAINTENANCE = "/v1/agent/maintenance"
_SERVICE = "/v1/agent/service/maintenance/"


@dataclass(slots=True)
class FakeConsul(JsonApi):
    """One agent of Consul."""

    node: str = "web-0"
    services: tuple[str, ...] = ("web", "api/v2")
    token: str = ""
    """The one that may do everything; empty: there are no ACLs."""
    reader: str = ""
    """Another one, which may only read."""
    checks: dict[str, dict[str, Any]] = field(
        default_factory=dict[str, dict[str, Any]], init=False
    )

    def maintained(self) -> dict[str, str]:
        """Return what is in maintenance, with the reasons."""
        return {name: check["Notes"] for name, check in self.checks.items()}

    def maintain(self, check: str, reason: str = "") -> None:
        """Put something into maintenance, as an operator does."""
        if check in self.checks:
            return
        service = check.removeprefix(SERVICE_CHECK) if check != NODE_CHECK else ""
        self.checks[check] = {
            "Node": self.node,
            "CheckID": check,
            "Name": f"{'Service' if service else 'Node'} Maintenance Mode",
            "Status": "critical",
            "Notes": reason or USUAL_REASON,
            "Output": "",
            "ServiceID": service,
            "ServiceName": service,
            "Type": "maintenance",
        }

    def answer(self, request: Request) -> Response:
        sent_token = request.headers.get("x-consul-token", "")
        if sent_token not in {"", self.token, self.reader}:
            return Response(status=403, text="ACL not found")
        may_write = sent_token == self.token
        may_read = may_write or sent_token == self.reader
        match (request.method, request.path):
            case ("GET", "/v1/agent/checks"):
                return Response(self.checks if may_read else {})
            case ("GET", "/v1/agent/services"):
                services = {service: {"ID": service} for service in self.services}
                return Response(services if may_read else {})
            case ("PUT", path) if path == _MAINTENANCE or path.startswith(_SERVICE):
                return self._maintenance(request, may_write=may_write)
            case _:
                return Response(status=404, text="404 page not found")

    def _maintenance(self, request: Request, *, may_write: bool) -> Response:
        service = (
            request.path.removeprefix(_SERVICE) if _SERVICE in request.path else ""
        )
        enable = request.query.get("enable")
        if enable not in {"true", "false"}:
            return Response(status=400, text="Missing value for enable")
        if not may_write:
            right = f'service:write\' on "{service}"' if service else "node:write'"
            text = f"Permission denied: token lacks permission '{right}"
            return Response(status=403, text=text)
        if service and service not in self.services:
            text = (
                f'Unknown service ID "{service}". Ensure that the service ID is passed'
            )
            return Response(status=404, text=text)
        check = f"{SERVICE_CHECK}{service}" if service else NODE_CHECK
        if enable == "true":
            self.maintain(check, request.query.get("reason", ""))
        else:
            self.checks.pop(check, None)
        # Consul answers nothing at all.
        return Response(text="")
