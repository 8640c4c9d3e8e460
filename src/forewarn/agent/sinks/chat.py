"""Notifications to Slack and Microsoft Teams, through an incoming webhook of the chat.

`forewarn.chat` has the shapes of the messages. The URL of the webhook is the secret.

The URL is read from its file for each notification, and appears in no error and no log.
If the address fails, the notification waits, since the file may be fixed. If the
message is refused, it is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from forewarn import chat
from forewarn.agent.foreign import told as told_of
from forewarn.agent.handlers.posting import (
    SECRET_PART_MIN,
    Post,
    Template,
    unreached,
)
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.handlers.secret import read_secret
from forewarn.agent.integrations.kind import SinkKind
from forewarn.agent.options import CA_FILE, Forms
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.port import Notification
from forewarn.agent.sinks.shared import KindSink, timeout_key
from forewarn.agent.sinks.wording import facts, sentence, severity, title
from forewarn.agent.wire.urls import Url, parse_url
from forewarn.clock import Clock
from forewarn.settings.forms import Option

_ADDRESS_AT_FAULT = frozenset({401, 403, 404, 405, 410})
"""Statuses that mean that the address accepts no message at all."""

_KEY_PART_MIN = 16
"""Minimum length of a secret part of the URL. Parts of this length are unique."""

Shape = Callable[[Notification], dict[str, Any]]
"""Creates the JSON for a chat."""


class ChatSink(KindSink):
    """Sends each notification as one message."""

    def __init__(self, shape: Shape, settings: NotifySettings, clock: Clock) -> None:
        """Store the settings."""
        super().__init__(settings, clock)
        self._shape = shape
        self._secret_file = settings.more["url_file"]

    def deliver(self, number: int, notification: Notification) -> None:
        """Send the notification once; raises DeliveryError."""
        del number
        text, _ = self._url()
        template = Template(url=text, ca_file=self._ca_file)
        usual = json.dumps(self._shape(notification))
        try:
            post = Post(template, {}, usual=usual, clock=self._clock)
            post.send(seconds=self._seconds)
        except DeliveryError as error:
            may_pass = error.may_pass or error.status in _ADDRESS_AT_FAULT
            message = told_of(error.message, also=_parts(text, SECRET_PART_MIN))
            raise DeliveryError(message, may_pass=may_pass, wait=error.wait) from None

    def _wrong(self) -> Sequence[str]:
        _, url = self._url()
        host = Template(url=f"{url.base}/", ca_file=self._ca_file)
        return unreached(host, clock=self._clock)

    def _url(self) -> tuple[str, Url]:
        text = read_secret(self._secret_file, parts=_parts)
        try:
            return text, parse_url(text)
        except ValueError:
            # Do not quote the text, which may be a secret even if it is not a URL.
            raise DeliveryError(
                f"the first line of {self._secret_file} is not an http or https URL"
            ) from None


def _parts(text: str, least: int = _KEY_PART_MIN) -> Sequence[str]:
    """Return the secret parts of a webhook's URL: those of its path and query."""
    _, _, rest = text.partition("://")
    parts = re.split(r"[/?&=]", rest)[1:] if rest else [text]
    return tuple(part for part in parts if len(part) >= least)


def slack_message(notification: Notification) -> dict[str, Any]:
    """Return the message for Slack."""
    return chat.slack_message(_text(notification))


def teams_message(notification: Notification) -> dict[str, Any]:
    """Return the message for Teams."""
    return chat.teams_message(_text(notification))


def _text(notification: Notification) -> chat.ChatText:
    return chat.ChatText(
        title=title(notification),
        sentence=sentence(notification),
        facts=facts(notification),
        severity=severity(notification),
    )


KINDS = {
    word: SinkKind(
        make=partial(ChatSink, shape),
        # The name has the file's name, since the URL may change.
        name=lambda settings: f"{settings.kind} {settings.more['url_file']}",
        keys={
            "url_file": Option(
                form=Forms.TEXT,
                text="A file with the webhook's URL on its first line. Anyone who has "
                "the URL can post, so the settings do not contain it.",
            ),
            "timeout": timeout_key(),
            "ca_file": CA_FILE,
        },
        needed=("url_file",),
    )
    for word, shape in (("slack", slack_message), ("teams", teams_message))
}
"""The kinds of receiver, by chat."""
