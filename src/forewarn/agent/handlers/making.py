"""Create the handlers of the settings.

The three generic kinds are created here, all others by the registry of integrations. A
kind is loaded only if the settings use it, since an agent stays in memory for months.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from forewarn.agent.handlers.exec import ExecWorker, python_worker
from forewarn.agent.handlers.port import Ground, Worker
from forewarn.agent.handlers.records import RunRecords
from forewarn.agent.integrations.registry import handler_kind
from forewarn.agent.settings_model import HandlerSettings

Maker = Callable[[HandlerSettings, Ground], Worker]


def records_next_to(state: str | os.PathLike[str]) -> RunRecords:
    """Return the directory of run records, which is next to the journal."""
    return RunRecords(f"{os.path.realpath(state)}.runs")


def memos_beside(state: str | os.PathLike[str]) -> str:
    """Return the directory of the memos of handlers, next to the journal."""
    return f"{os.path.realpath(state)}.memos"


def make_workers(
    settings: Sequence[HandlerSettings], ground: Ground
) -> dict[str, Worker]:
    """Create the handlers, and return them by name."""
    return {setting.name: _maker(setting.kind)(setting, ground) for setting in settings}


def _maker(word: str) -> Maker:
    if (kind := handler_kind(word)) is not None:
        return kind.make
    if word == "python":
        return python_worker
    if word == "webhook":
        from forewarn.agent.handlers.webhook import WebhookWorker  # noqa: PLC0415

        return WebhookWorker
    return ExecWorker
