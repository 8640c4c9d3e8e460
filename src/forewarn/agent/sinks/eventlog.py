"""Notifications to the Windows event log, with its command `eventcreate`.

An entry has a number and a text, but no fields. The command registers the source at the
first use, which needs administrator rights.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping

from forewarn.agent.core.model import NoteKind
from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.integrations.kind import SinkKind
from forewarn.agent.options import Forms
from forewarn.agent.sinks.port import Notification
from forewarn.agent.sinks.shared import KindSink, timeout_key
from forewarn.agent.sinks.wording import (
    Severity,
    facts,
    plain,
    sentence,
    severity,
    title,
)
from forewarn.settings.forms import Option

COMMAND = "eventcreate"
SOURCE = "forewarn-agent"
LOG = "application"

TEXT_CHARACTERS = 4_000
"""Maximum length of a string: the whole command stays well below Windows' limit."""

REAP_SECONDS = 2.0
"""How long to wait for a killed command."""

NUMBERS: Mapping[NoteKind, int] = {
    NoteKind.SEEN: 101,
    NoteKind.PREPARING: 102,
    NoteKind.HANDLER: 103,
    NoteKind.PREPARED: 104,
    NoteKind.WITHHELD: 105,
    NoteKind.APPROVED: 106,
    NoteKind.REFUSED: 107,
    NoteKind.STARTED: 108,
    NoteKind.CANCELLED: 109,
    NoteKind.GONE: 110,
    NoteKind.RECOVERING: 111,
    NoteKind.RECOVERED: 112,
    NoteKind.FAILED: 113,
    NoteKind.LOCK: 114,
    NoteKind.GATE: 115,
}
"""The command accepts 1 to 1000. These numbers never change."""

_TYPES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING"}


class EventLogSink(KindSink):
    """Writes each notification as one entry."""

    def deliver(self, number: int, notification: Notification) -> None:
        """Write one entry; raises DeliveryError."""
        log, source = self._more.get("log", LOG), self._more.get("source", SOURCE)
        command = [
            *(self._command, "/L", log.upper(), "/SO", source),
            *("/T", _TYPES.get(severity(notification), "INFORMATION")),
            *(
                "/ID",
                str(NUMBERS[notification.note.kind]),
                "/D",
                text_of(number, notification),
            ),
        ]
        try:
            child = subprocess.Popen(  # noqa: S603 - what the settings name
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise DeliveryError(f"{self._command}: {error.strerror}") from error
        try:
            output, _ = child.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            assert child.stdout is not None
            # Its child processes may keep the other end open, so do not wait for them.
            child.stdout.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(REAP_SECONDS)
            raise DeliveryError(
                f"{self._command}: it did not end within {self._seconds:g} s"
            ) from None
        if child.returncode != 0:
            why = last_line(output) or f"status {child.returncode}"
            raise DeliveryError(f"{self._command}: {why}")

    @property
    def _command(self) -> str:
        return self._more.get("command", COMMAND)

    def _wrong(self) -> Iterator[str]:
        if shutil.which(self._command) is None:
            yield f"there is no program {self._command}: it is part of Windows"


def text_of(number: int, notification: Notification) -> str:
    """Return the text of an entry on one line, which never looks like an option."""
    known = "; ".join(f"{name}: {value}" for name, value in facts(notification))
    text = f"forewarn: {title(notification)}. {sentence(notification)} [{known}; Number: {number}]"
    return plain(text, TEXT_CHARACTERS)


KIND = SinkKind(
    make=EventLogSink,
    name=lambda settings: (
        f"eventlog {settings.more.get('log', LOG)} {settings.more.get('source', SOURCE)}"
    ),
    keys={
        "log": Option(
            form=Forms.WORD,
            words=("application", "system"),
            text=f"The log: `application` or `system`. Default: `{LOG}`.",
        ),
        "source": Option(
            form=Forms.NAME, text=f"The source of the entries. Default: `{SOURCE}`."
        ),
        "command": Option(
            form=Forms.TEXT,
            text="The program, as a path or as a name on the agent's PATH. Default: "
            f"`{COMMAND}`.",
        ),
        "timeout": timeout_key(),
    },
)
