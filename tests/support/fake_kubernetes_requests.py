"""Requests to the fake of a Kubernetes API server, and its refusals."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


class StatusError(Exception):
    """An answer that is an API Status."""

    def __init__(
        self, code: int, reason: str, message: str, causes: Iterable[Any] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": {"causes": list(causes)},
            "code": code,
        }


@dataclass
class Request:
    """One request that came."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = ""
    token: str = ""
