"""A fake of Patroni's REST API: what it answers, as its documents and version 4 have it.

One node's API over a cluster that a test makes: `GET /patroni`, `/cluster`, `/config`
and `POST /switchover`, which looks at who asks, then at what is asked, then at whether
it is possible, and answers in plain text. There is no PostgreSQL: a switchover advances
by one step with each poll of the cluster.
"""

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.loopback import Quiet, answering

SCOPE = "demo"


class FakePatroni:
    """A cluster, as the node `me` reports it."""

    def __init__(self, *names: str, me: str = "pg1") -> None:
        """Have the first of the members lead."""
        self.me = me
        self.members: dict[str, dict[str, Any]] = {
            name: {
                "name": name,
                "role": "replica",
                "state": "streaming",
                "api_url": f"http://127.0.0.1:8008/{name}",
                "host": f"{name}.example.com",
                "port": 5432,
                "timeline": 4,
                "lag": 0,
            }
            for name in names
        }
        self.config: dict[str, Any] | None = {"ttl": 30, "loop_wait": 10}
        self.is_config_away = False
        self.is_paused = False
        self.plan: dict[str, str] = {}
        self.secret = ""
        """USER:PASSWORD; empty: anybody may ask."""
        self.names_itself = True
        """Older versions tell no name of the member."""
        self.tells_streams = True
        """Older versions have `running` as the state of a member that streams."""
        self.url = ""
        self.posts: list[dict[str, Any]] = []
        self.refusals: list[tuple[int, str]] = []
        """The responses to the next valid requests; status 0: no response."""
        self.steps: list[Callable[[], None]] = []
        """The changes that happen at the next polls of the cluster."""
        self.released = threading.Event()
        self.lead(names[0])

    # The cluster

    def leader(self) -> str:
        """Return the holder of the lock; empty: none."""
        leads = {"leader", "standby_leader", "promoted"}
        return next((n for n, m in self.members.items() if m["role"] in leads), "")

    def lead(self, name: str, role: str = "leader") -> None:
        """Have a member lead, and all others follow."""
        for member_name, member in self.members.items():
            member["role"] = role if member_name == name else "replica"
            member["state"] = "running" if member_name == name else "streaming"

    def unlock(self) -> None:
        """Remove the leader."""
        self.members[self.leader()].update(role="replica", state="stopping")

    def set(self, name: str, /, **members: Any) -> None:
        self.members[name].update(members)

    def switch(self, leader: str, candidate: str) -> None:
        """Begin a switchover, which advances with each poll."""
        self.set(leader, role="replica", state="stopped")
        self.set(candidate, role="promoted", state="running")
        self.steps = [
            lambda: self.set(candidate, role="leader"),
            lambda: self.set(leader, state="starting"),
            lambda: self.lead(candidate),
        ]

    # Its answers

    def get(self, path: str) -> tuple[int, Any]:
        if path == "/patroni":
            return 200, self._patroni()
        if path == "/cluster":
            if self.steps:
                self.steps.pop(0)()
            return 200, self._cluster()
        if path == "/config":
            if self.is_config_away:
                return 503, None
            return (502, None) if self.config is None else (200, self.config)
        return 404, None

    def _patroni(self) -> dict[str, Any]:
        own = self.members.get(self.me, {"role": "replica", "state": "running"})
        is_leader = self.leader() == self.me
        about = {"version": "4.0.4", "scope": SCOPE, "name": self.me}
        if not self.names_itself:
            del about["name"]
        document: dict[str, Any] = {
            "state": "running",
            "role": "primary" if is_leader else "replica",
            "server_version": 160004,
            "timeline": own.get("timeline", 4),
            "patroni": about,
        }
        if is_leader:
            document["replication"] = [
                {
                    "usename": "replicator",
                    "application_name": name,
                    "state": "streaming",
                    "sync_state": "async",
                    "sync_priority": 0,
                }
                for name, member in self.members.items()
                if name != self.me and member["state"] == "streaming"
            ]
        elif self.tells_streams:
            document["replication_state"] = own["state"]
        return document

    def _cluster(self) -> dict[str, Any]:
        members = [dict(member) for member in self.members.values()]
        for member in members:
            if member["role"] in {"leader", "standby_leader"}:
                del member["lag"]
            elif not self.tells_streams and member["state"] == "streaming":
                member["state"] = "running"
        document: dict[str, Any] = {"members": members, "scope": SCOPE}
        if self.is_paused:
            document["pause"] = True
        if self.plan:
            document["scheduled_switchover"] = self.plan
        return document

    def post(self, authorization: str, body: bytes) -> tuple[int, str]:
        """Take an order for a switchover."""
        wanted = f"Basic {base64.b64encode(self.secret.encode()).decode()}"
        if self.secret and not authorization:
            return 401, "no auth header received"
        if self.secret and authorization != wanted:
            return 401, "not authenticated"
        request = json.loads(body)
        if not request:
            return 400, "Bad Request"
        self.posts.append(request)
        leader, candidate = request.get("leader"), request.get("candidate")
        if leader == candidate:
            return 400, "Switchover target and source are the same"
        if leader != self.leader():
            return 412, "leader name does not match"
        if candidate not in self.members:
            return 412, "candidate does not exists"
        if self.members[candidate].get("tags", {}).get("nofailover"):
            return 412, "switchover is not possible: no good candidates have been found"
        if self.refusals:
            status, output = self.refusals.pop(0)
            if status:
                return status, output
            self.switch(leader, candidate)
            return 0, ""
        self.plan = {}
        self.switch(leader, candidate)
        return 200, f'Successfully switched over to "{candidate}"'


@contextlib.contextmanager
def serving(patroni: FakePatroni) -> Generator[FakePatroni]:
    """Listen until the end of the context."""

    class Answers(Quiet, BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            status, output = patroni.get(self.path)
            self._answer(status, "" if output is None else json.dumps(output))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != "/switchover":
                self._answer(501, "Unsupported method ('POST')")
                return
            authorization = self.headers.get("Authorization", "")
            status, output = patroni.post(authorization, body)
            if not status:
                patroni.released.wait(30)
                return
            self._answer(status, output)

        def _answer(self, status: int, output: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(output.encode())

    with answering(Answers) as port:
        patroni.url = f"http://127.0.0.1:{port}"
        try:
            yield patroni
        finally:
            patroni.released.set()
