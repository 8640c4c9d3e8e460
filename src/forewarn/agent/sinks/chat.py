"""Notifications to a chat's incoming webhook, whose URL is the secret.

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
from forewarn.agent.sinks.port import Told
from forewarn.agent.sinks.shared import KindSink, secret_faults, timeout_key
from forewarn.agent.wire.urls import Url, parse_url
from forewarn.clock import Clock
from forewarn.settings.forms import Option

_ADDRESS_AT_FAULT = frozenset({401, 403, 404, 405, 410})
"""Statuses that mean that the address accepts no message at all."""

_KEY_PART_MIN = 16
"""Minimum length of a secret part of the URL. Parts of this length are unique."""

Shape = Callable[[Told], dict[str, Any]]
"""Creates the JSON for a chat."""


class ChatSink(KindSink):
    """Sends each notification as one message."""

    def __init__(self, shape: Shape, settings: NotifySettings, clock: Clock) -> None:
        """Store the settings."""
        super().__init__(settings, clock)
        self._shape = shape
        self._url_file: str = settings.more["url_file"]

    def deliver(self, number: int, told: Told) -> None:
        """Send the notification once; raises DeliveryError."""
        del number
        text, _ = self._url()
        template = Template(url=text, ca_file=self._ca_file)
        usual = json.dumps(self._shape(told))
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
        faults = secret_faults(self._url_file, parts=_parts)
        return [*faults, *unreached(host, clock=self._clock)]

    def _url(self) -> tuple[str, Url]:
        text = read_secret(self._url_file, parts=_parts)
        try:
            return text, parse_url(text)
        except ValueError:
            # Do not quote the text, which may be a secret even if it is not a URL.
            raise DeliveryError(
                f"the first line of {self._url_file} is not an http or https URL"
            ) from None


def chat_kind(shape: Shape) -> SinkKind:
    """Return the kind of a chat with this message format."""
    return SinkKind(
        make=partial(ChatSink, shape),
        name=name_of,
        keys={
            "url_file": Option(
                form=Forms.TEXT,
                text="A file with the webhook's URL on its first line. Anyone who has the URL can "
                "post, so the settings do not contain it.",
            ),
            "timeout": timeout_key(),
            "ca_file": CA_FILE,
        },
        needed=("url_file",),
    )


def name_of(settings: NotifySettings) -> str:
    """Return the receiver's name, which has the file's name, since the URL may
    change."""
    return f"{settings.kind} {settings.more['url_file']}"


def _parts(text: str, least: int = _KEY_PART_MIN) -> Sequence[str]:
    """Return the secret parts of a webhook's URL: those of its path and query."""
    _, _, rest = text.partition("://")
    parts = re.split(r"[/?&=]", rest)[1:] if rest else [text]
    return tuple(each for each in parts if len(each) >= least)
