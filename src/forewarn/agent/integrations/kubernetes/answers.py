"""What counts as an answer of a Kubernetes API server: only what says so itself.

A 404 of a proxy is no node that has gone, a Status is no node without marks, and one
page of a list is not the list. It promises that callers get what they asked for, whole
and by its kind, or an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from forewarn.agent import forms
from forewarn.agent.foreign import items, members
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.api import NOT_FOUND, Api, ApiError, Ask
from forewarn.agent.wire.answers import Answer

T = TypeVar("T")

GONE = 410
"""What the server says of a page whose list is too old to go on with."""

PAGES_MAX = 1_000
"""Of one list: the server chooses how long a page is, and a node has 250 pods or so."""

RESTARTS_MAX = 5
"""Of one list whose pages have become too old: each is good for five minutes."""


def unless_gone(ask: Callable[[], T]) -> T | None:
    """Return the answer; None where the API server says that there is no such object."""
    try:
        return ask()
    except ApiError as error:
        if is_not_found(error):
            return None
        raise


def is_not_found(error: ApiError) -> bool:
    """Tell whether it is the API server that says so, and no proxy before it."""
    body = members(error.body)
    return (
        error.status == NOT_FOUND
        and body.get("kind") == "Status"
        and body.get("reason") == "NotFound"
    )


def as_object(ask: Ask, kind: str, name: str, told: tuple[Answer, Any]) -> Any:
    """Return an object that was asked for; raises HandlerError where it is another."""
    answer, found = told
    metadata = members(members(found).get("metadata"))
    if members(found).get("kind") != kind or metadata.get("name") != name:
        raise ask.odd(answer, f"no {kind} {name}")
    return found


def node_path(name: str) -> str:
    """Return where the API has a node."""
    return f"/api/v1/nodes/{forms.percent_quoted(name)}"


def asked_node(
    api: Api, ask: Ask, name: str, context: RunContext
) -> Mapping[str, Any] | None:
    """Return the node that a request is answered with; None: there is none.

    Raises HandlerError.
    """
    told = unless_gone(lambda: api.answered(ask, context))
    return None if told is None else as_object(ask, "Node", name, told)


def pods_on(
    api: Api,
    node: str,
    query: Mapping[str, str],
    context: RunContext,
    *,
    again: bool = True,
) -> tuple[list[Mapping[str, Any]], str]:
    """Return all pods of a node, over all pages, and the list's version.

    `query` is what else is asked for; raises HandlerError.
    """
    usual = {"fieldSelector": f"spec.nodeName={node}", **query}
    for _ in range(RESTARTS_MAX):
        pods: list[Mapping[str, Any]] = []
        going_on = ""
        version = ""
        for _ in range(PAGES_MAX):
            part = usual
            if going_on:
                # The token knows the version, and the server bears no other beside it.
                part = {k: v for k, v in usual.items() if "resourceVersion" not in k}
                part["continue"] = going_on
            ask = Ask(method="GET", path=f"/api/v1/pods?{_written(part)}", again=again)
            try:
                told = api.answered(ask, context)
            except ApiError as error:
                if error.status != GONE or not going_on:
                    raise
                break
            pods += _page(ask, node, told)
            metadata = members(members(told[1]).get("metadata"))
            version = version or str(metadata.get("resourceVersion") or "")
            going_on = str(metadata.get("continue") or "")
            if not going_on:
                return pods, version
        else:
            raise HandlerError(f"the list of pods has more than {PAGES_MAX} pages")
    raise HandlerError(
        f"the list of pods was too old {RESTARTS_MAX} times before its last page"
    )


def _page(ask: Ask, node: str, told: tuple[Answer, Any]) -> list[dict[str, Any]]:
    """Return the pods of one page; raises HandlerError where it has something else."""
    answer, found = told
    whole = members(found)
    if whole.get("kind") != "PodList" or not isinstance(whole.get("items"), list):
        raise ask.odd(answer, "no list of pods")
    pods = [members(each) for each in items(whole["items"])]
    for pod in pods:
        metadata, spec = members(pod.get("metadata")), members(pod.get("spec"))
        if not all(metadata.get(key) for key in ("name", "namespace", "uid")):
            raise ask.odd(answer, "a pod without name, namespace and uid")
        if spec.get("nodeName") != node:
            raise ask.odd(answer, f"a pod of another node than {node}")
    return pods


def _written(query: Mapping[str, str]) -> str:
    return "&".join(f"{k}={forms.percent_quoted(v)}" for k, v in query.items())
