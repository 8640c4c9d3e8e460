"""Validate responses of a Kubernetes API server.

A 404 of a proxy does not mean that a node was deleted. A Status object is not a node, and
one page of a list is not the whole list. Callers get the complete object of the requested
kind, or an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.agent.foreign import members, objects
from forewarn.agent.forms import percent_quoted
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.api import NOT_FOUND, Api, ApiError, Ask
from forewarn.agent.wire.answers import Answer

GONE = 410
"""Status for a page of a list that has expired."""

PAGES_MAX = 1_000
"""Maximum number of pages of one list: a node has about 250 pods."""

RESTARTS_MAX = 5
"""Maximum number of restarts of a list that has expired: pages last five minutes."""


def is_not_found(error: ApiError) -> bool:
    """Return whether the API server itself reports it, and not a proxy."""
    body = members(error.body)
    return (
        error.status == NOT_FOUND
        and body.get("kind") == "Status"
        and body.get("reason") == "NotFound"
    )


def as_object(ask: Ask, kind: str, name: str, response: tuple[Answer, Any]) -> Any:
    """Return the requested object; raises HandlerError if it is another one."""
    answer, value = response
    if value.get("kind") != kind or members(value.get("metadata")).get("name") != name:
        raise ask.unexpected(answer, f"no {kind} {name}")
    return value


def asked_node(
    api: Api, ask: Ask, name: str, context: RunContext
) -> Mapping[str, Any] | None:
    """Send a request, and return the node of the response; None: it does not exist.

    Raises HandlerError.
    """
    try:
        return as_object(ask, "Node", name, api.answered(ask, context))
    except ApiError as error:
        if is_not_found(error):
            return None
        raise


def pods_on(
    api: Api,
    node: str,
    query: Mapping[str, str],
    context: RunContext,
    *,
    again: bool = True,
) -> tuple[list[Mapping[str, Any]], str]:
    """Return all pods of a node, from all pages, and the version of the list.

    `query` has additional parameters; raises HandlerError.
    """
    usual = {"fieldSelector": f"spec.nodeName={node}", **query}
    for _ in range(RESTARTS_MAX):
        pods: list[Mapping[str, Any]] = []
        going_on = version = ""
        for _ in range(PAGES_MAX):
            part = usual
            if going_on:
                # The token contains the version, and the server rejects a second one.
                part = {k: v for k, v in usual.items() if "resourceVersion" not in k}
                part["continue"] = going_on
            written = "&".join(f"{k}={percent_quoted(v)}" for k, v in part.items())
            ask = Ask(method="GET", path=f"/api/v1/pods?{written}", again=again)
            try:
                page = api.answered(ask, context)
            except ApiError as error:
                if error.status != GONE or not going_on:
                    raise
                break
            pods += _page(ask, node, page)
            metadata = members(page[1].get("metadata"))
            version = version or str(metadata.get("resourceVersion") or "")
            if not (going_on := str(metadata.get("continue") or "")):
                return pods, version
        else:
            raise HandlerError(f"the list of pods has more than {PAGES_MAX} pages")
    raise HandlerError(
        f"the list of pods expired {RESTARTS_MAX} times before its last page"
    )


def _page(ask: Ask, node: str, response: tuple[Answer, Any]) -> list[dict[str, Any]]:
    """Return the pods of one page; raises HandlerError if it is not valid."""
    answer, value = response
    if value.get("kind") != "PodList" or not isinstance(value.get("items"), list):
        raise ask.unexpected(answer, "no list of pods")
    pods = objects(value["items"])
    for pod in pods:
        metadata, spec = members(pod.get("metadata")), members(pod.get("spec"))
        if not all(metadata.get(key) for key in ("name", "namespace", "uid")):
            raise ask.unexpected(answer, "a pod without name, namespace and uid")
        if spec.get("nodeName") != node:
            raise ask.unexpected(answer, f"a pod of another node than {node}")
    return pods
