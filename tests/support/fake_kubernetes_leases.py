"""Leases of coordination.k8s.io/v1, as the fake of an API server keeps them.

A create of what is there, and an update of another resourceVersion, are refused with
409, as the API does.
"""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forewarn.clock import SystemClock
from forewarn.instants import Micros
from tests.support.fake_kubernetes_requests import Request, StatusError

GROUP = "coordination.k8s.io"

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


@dataclass
class Leases:
    """All Leases of a cluster, by namespace and name."""

    found: dict[tuple[str, str], dict[str, Any]] = field(
        default_factory=dict[tuple[str, str], dict[str, Any]]
    )
    version: int = 7_000
    past: list[tuple[Micros, str, Mapping[str, Any]]] = field(
        default_factory=list[tuple[Micros, str, Mapping[str, Any]]]
    )
    """The name and the metadata of each that was stored, and when that was."""

    def answer(
        self, request: Request, namespace: str, name: str
    ) -> tuple[int, dict[str, Any]]:
        """Return status and JSON of an answer; an empty name is all of them."""
        key = namespace, name
        if request.method == "GET" and name:
            return 200, copy.deepcopy(self._known(key))
        if request.method == "POST" and not name:
            return 201, self._create(namespace, request.body)
        if request.method == "PUT" and name:
            return 200, self._update(key, request.body)
        raise StatusError(405, "MethodNotAllowed", "the method is not allowed")

    def verb(self, request: Request) -> str:
        """Return the right that a request needs."""
        return {"GET": "get", "POST": "create", "PUT": "update"}[request.method]

    def _known(self, key: tuple[str, str]) -> dict[str, Any]:
        if key not in self.found:
            message = f'leases.{GROUP} "{key[1]}" not found'
            raise StatusError(404, "NotFound", message)
        return self.found[key]

    def _create(self, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if (namespace, name) in self.found:
            message = f'leases.{GROUP} "{name}" already exists'
            raise StatusError(409, "AlreadyExists", message)
        if "resourceVersion" in body["metadata"]:
            message = "resourceVersion should not be set on objects to be created"
            raise StatusError(400, "BadRequest", message)
        return self._stored(namespace, name, body)

    def _update(self, key: tuple[str, str], body: Mapping[str, Any]) -> dict[str, Any]:
        known = self._known(key)
        # Without one an update is unconditional, as in the API.
        wanted = body["metadata"].get("resourceVersion")
        if wanted not in {None, known["metadata"]["resourceVersion"]}:
            raise StatusError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on leases.{GROUP} "{key[1]}": the object '
                "has been modified; please apply your changes to the latest version and "
                "try again",
            )
        return self._stored(*key, body)

    def _stored(
        self, namespace: str, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        self._check(name, body)
        self.version += 1
        stored = copy.deepcopy(dict(body))
        stored["metadata"] |= {
            "namespace": namespace,
            "resourceVersion": str(self.version),
            "uid": f"uid-{name}",
        }
        self.found[namespace, name] = stored
        self.past.append((SystemClock().now(), name, stored["metadata"]))
        return copy.deepcopy(stored)

    def _check(self, name: str, body: Mapping[str, Any]) -> None:
        spec = body.get("spec", {})
        is_sound = (
            (body["apiVersion"], body["kind"]) == (f"{GROUP}/v1", "Lease")
            and _NAME.fullmatch(name)
            and body["metadata"]["name"] == name
            and spec.get("holderIdentity") != ""
            and spec.get("leaseDurationSeconds", 1) > 0
            and all(
                _MICRO_TIME.fullmatch(spec[key])
                for key in ("renewTime", "acquireTime")
                if key in spec
            )
        )
        if not is_sound:
            raise StatusError(422, "Invalid", f'Lease "{name}" is invalid: {spec}')
