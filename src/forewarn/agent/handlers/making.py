"""The handlers of the settings, ready to work: what kind each one is.

The three plain kinds are here; all others are in the catalog of integrations. A kind
is loaded only where the settings use it: an agent stays in memory for months.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from forewarn.agent.handlers.exec import ExecWorker, Program
from forewarn.agent.handlers.ground import Ground
from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.records import Shelf
from forewarn.agent.integrations.registry import handler_kind
from forewarn.agent.settings_model import HandlerSettings

if TYPE_CHECKING:
    from forewarn.agent.handlers.webhook import Pods

Maker = Callable[[HandlerSettings, Ground], Worker]


def shelf_beside(state: str | os.PathLike[str]) -> Shelf:
    """Return where runs are recorded: in a folder beside the journal."""
    return Shelf(f"{os.path.realpath(state)}.runs")


def memos_beside(state: str | os.PathLike[str]) -> str:
    """Return where handlers remember what they did: in another such folder."""
    return f"{os.path.realpath(state)}.memos"


def make_workers(
    settings: Sequence[HandlerSettings], ground: Ground
) -> dict[str, Worker]:
    """Return the handlers by name."""
    return {each.name: _maker(each.kind)(each, ground) for each in settings}


def _maker(word: str) -> Maker:
    kind = handler_kind(word)
    return KINDS[word] if kind is None else kind.make


def _program(settings: HandlerSettings) -> Program:
    return Program(
        name=settings.name,
        prepare=settings.prepare,
        recover=settings.recover,
        check=settings.check,
        directory=settings.directory,
        environment=settings.environment,
    )


def _exec(settings: HandlerSettings, ground: Ground) -> Worker:
    return ExecWorker(
        _program(settings), shelf=ground.shelf, environment=ground.environment
    )


def _python(settings: HandlerSettings, ground: Ground) -> Worker:
    from forewarn.agent.handlers.python import python_worker  # noqa: PLC0415

    return python_worker(
        _program(settings), shelf=ground.shelf, environment=ground.environment
    )


def _webhook(settings: HandlerSettings, ground: Ground) -> Worker:
    from forewarn.agent.handlers.posting import Template  # noqa: PLC0415
    from forewarn.agent.handlers.webhook import (  # noqa: PLC0415
        WebhookWorker,
        with_url,
    )

    template = Template(
        url="",
        method=settings.method,
        headers=settings.headers,
        body=settings.body,
        secret_file=settings.secret_file,
        ca_file=settings.ca_file,
    )
    return WebhookWorker(
        prepare=with_url(template, settings.prepare),
        recover=with_url(template, settings.recover),
        clock=ground.clock,
        pods=_pods(settings, ground) if settings.pods else None,
    )


def _pods(settings: HandlerSettings, ground: Ground) -> Pods:
    # Whoever tells of no pods does not load what asks a cluster for them.
    from forewarn.agent.integrations.kubernetes.listing import (  # noqa: PLC0415
        PodList,
    )

    return PodList(
        node=settings.pods_node,
        kubeconfig=settings.pods_kubeconfig,
        environment=ground.environment,
        clock=ground.clock,
    )


KINDS: Mapping[str, Maker] = {"exec": _exec, "python": _python, "webhook": _webhook}
