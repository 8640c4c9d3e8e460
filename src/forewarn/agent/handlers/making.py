"""The handlers of the settings, ready to work: what kind each one is.

A new kind is one more entry of `KINDS`, and a word of `keys.HANDLER_KINDS`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.agent.handlers.exec import ExecWorker, Program
from forewarn.agent.handlers.port import Worker
from forewarn.agent.handlers.posting import Template
from forewarn.agent.handlers.python import python_worker
from forewarn.agent.handlers.records import Shelf
from forewarn.agent.handlers.webhook import WebhookWorker, with_url
from forewarn.agent.values import HandlerSettings
from forewarn.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What handlers stand on."""

    shelf: Shelf
    environment: Mapping[str, str]
    """The agent's own."""
    clock: Clock


Maker: TypeAlias = Callable[[HandlerSettings, Ground], Worker]


def shelf_beside(state: str | os.PathLike[str]) -> Shelf:
    """Return where runs are recorded: in a folder beside the journal."""
    return Shelf(f"{os.path.abspath(state)}.runs")


def make_workers(
    settings: Sequence[HandlerSettings], ground: Ground
) -> dict[str, Worker]:
    """Return the handlers by name."""
    return {each.name: KINDS[each.kind](each, ground) for each in settings}


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
    return python_worker(
        _program(settings), shelf=ground.shelf, environment=ground.environment
    )


def _webhook(settings: HandlerSettings, ground: Ground) -> Worker:
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
    )


KINDS: Mapping[str, Maker] = {"exec": _exec, "python": _python, "webhook": _webhook}
