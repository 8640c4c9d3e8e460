"""A fake of Consul's keys: values, and writes that are guarded by ModifyIndex.

It answers as Consul's HTTP API is documented to: values are in base64, a write with `cas`
says true or false, and `cas=0` makes a key only where there is none.
"""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from forewarn.clock import SystemClock
from forewarn.instants import Micros
from tests.support.json_api import JsonApi, Request, Response

_KEYS = "/v1/kv/"


@dataclass(slots=True)
class FakeConsulKeys(JsonApi):
    """One agent of Consul."""

    token: str = ""
    """The one that may do everything; empty: there are no ACLs."""
    keys: dict[str, tuple[int, bytes]] = field(
        default_factory=dict[str, tuple[int, bytes]], init=False
    )
    """The ModifyIndex and the value of each."""
    index: int = field(default=1_000, init=False)
    past: list[tuple[Micros, str, bytes]] = field(
        default_factory=list[tuple[Micros, str, bytes]], init=False
    )
    """The key and the value of each write, and when it was."""

    def answer(self, request: Request) -> Response:
        if request.headers.get("x-consul-token", "") != self.token:
            text = "Permission denied: token lacks permission 'key:write'"
            return Response(status=403, text=text)
        key = request.path.removeprefix(_KEYS)
        if request.method == "GET" and key in self.keys:
            return Response([self._entry(key)])
        if request.method == "GET":
            return Response(status=404, text="")
        if request.method == "PUT":
            return Response(self._put(key, request))
        return Response(status=405, text="method not allowed")

    def _entry(self, key: str) -> dict[str, Any]:
        index, value = self.keys[key]
        return {
            "LockIndex": 0,
            "Key": key,
            "Flags": 0,
            "Value": base64.b64encode(value).decode() if value else None,
            "CreateIndex": 1_000,
            "ModifyIndex": index,
        }

    def _put(self, key: str, request: Request) -> bool:
        known, _ = self.keys.get(key, (0, b""))
        if "cas" in request.query and int(request.query["cas"]) != known:
            return False
        self.index += 1
        self.keys[key] = self.index, json.dumps(request.body).encode()
        self.past.append((SystemClock().now(), key, self.keys[key][1]))
        return True
