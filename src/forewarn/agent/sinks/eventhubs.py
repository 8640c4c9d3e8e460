"""Notifications to Azure Event Hubs over HTTPS, with a shared access signature.

This makes a central log of many VMs: all post to the same hub, with a key that can only
send. The key is read for each notification. A token made from it is valid for an hour.
If the key, the hub or the clock is wrong, notifications wait, since that can be fixed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from forewarn.agent import forms, secrets
from forewarn.agent.core.model import NoteKind
from forewarn.agent.handlers.posting import Post, Template, unreached
from forewarn.agent.handlers.run_context import DeliveryError
from forewarn.agent.handlers.secret import read_secret
from forewarn.agent.integrations.kind import Entry, Faults, SinkKind
from forewarn.agent.options import CA_FILE, Forms
from forewarn.agent.settings_model import NotifySettings
from forewarn.agent.sinks.port import Notification
from forewarn.agent.sinks.shared import KindSink, timeout_key
from forewarn.agent.sinks.wording import sentence
from forewarn.agent.wire.urls import parse_url
from forewarn.clock import Clock
from forewarn.instants import HOUR, MINUTE, SECOND, Micros, format_instant
from forewarn.problems import quoted
from forewarn.settings.forms import Option

DOMAIN = "servicebus.windows.net"
API_VERSION = "2014-01"

TOKEN_LIFE: Micros = HOUR
"""Lifetime of a token: long enough to be made rarely, short enough if it is stolen."""

RENEW_BEFORE: Micros = 10 * MINUTE
"""Tokens are renewed this long before they expire, since clocks may differ."""

WHOLE, SAMPLE = "whole", "sample"

_HUB = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,254}[A-Za-z0-9])?", re.ASCII)
_KEY_NAME = re.compile(r"[A-Za-z0-9._-]{1,256}", re.ASCII)
_UNAUTHORISED = 401
_SETTINGS_AT_FAULT = frozenset({_UNAUTHORISED, 403, 404, 410})
"""Statuses that are not about the message: another key or a new hub would help."""

_SAMPLE_MESSAGES = {
    NoteKind.SEEN: "Scheduled Event was detected",
    NoteKind.APPROVED: "Scheduled Event was acknowledged",
}


def host_of(namespace: str) -> str:
    """Return the host of a namespace."""
    return namespace if "." in namespace else f"{namespace}.{DOMAIN}"


def faults(entry: Entry) -> Faults:
    """Find invalid names."""
    if "namespace" in entry:
        try:
            is_host = not parse_url(f"https://{host_of(entry['namespace'])}").target
        except ValueError:
            is_host = False
        if not is_host:
            yield (
                "namespace",
                f"{quoted(entry['namespace'])} is not a valid namespace or host",
            )
    if "hub" in entry and not _HUB.fullmatch(entry["hub"]):
        yield "hub", f"{quoted(entry['hub'])} is not a valid name of an event hub"
    if "key_name" in entry and not _KEY_NAME.fullmatch(entry["key_name"]):
        yield "key_name", f"{quoted(entry['key_name'])} is not a valid name of a policy"


def signed(resource: str, *, key_name: str, key: str, expiry: int) -> str:
    """Return a token for a resource that expires at `expiry`, in seconds since 1970."""
    # These modules load OpenSSL, which otherwise only TLS needs.
    import base64  # noqa: PLC0415
    import hmac  # noqa: PLC0415

    quoted_resource = forms.percent_quoted(resource)
    text = f"{quoted_resource}\n{expiry}".encode()
    digest = hmac.digest(key.encode(), text, "sha256")
    signature = forms.percent_quoted(base64.b64encode(digest))
    return (
        f"SharedAccessSignature sr={quoted_resource}&sig={signature}"
        f"&se={expiry}&skn={forms.percent_quoted(key_name)}"
    )


class EventHubsSink(KindSink):
    """Sends each notification as one event."""

    def __init__(self, settings: NotifySettings, clock: Clock) -> None:
        """Store the settings."""
        super().__init__(settings, clock)
        more = settings.more
        self._resource = f"https://{host_of(more['namespace'])}/{more['hub']}"
        self._secret_file = more["key_file"]
        self._token = ("", "", 0)
        """The key that the token was made from, the token, and its expiry."""

    def deliver(self, number: int, notification: Notification) -> None:
        """Send the notification once; raises DeliveryError."""
        is_sample = self._more.get("shape") == SAMPLE
        body = sample(notification) if is_sample else notification.as_json(number)
        template = Template(
            url=f"{self._resource}/messages?api-version={API_VERSION}",
            headers=(
                ("Authorization", self.token(self._clock.now())),
                ("Content-Type", "application/json; charset=utf-8"),
            ),
            ca_file=self._ca_file,
        )
        try:
            post = Post(template, {}, usual=json.dumps(body), clock=self._clock)
            post.send(seconds=self._seconds)
        except DeliveryError as error:
            message = error.message
            if error.status == _UNAUTHORISED:
                self._token = ("", "", 0)
                message = f"{message} (are the key and this machine's clock right?)"
            may_pass = error.may_pass or error.status in _SETTINGS_AT_FAULT
            raise DeliveryError(message, may_pass=may_pass, wait=error.wait) from error

    def token(self, now: Micros) -> str:
        """Return a token that is valid for some time; raises DeliveryError."""
        key = read_secret(self._secret_file)
        made_of, token, ends = self._token
        if made_of == key and now < ends - RENEW_BEFORE <= now + TOKEN_LIFE:
            return token
        ends = now + TOKEN_LIFE
        token = signed(
            self._resource,
            key_name=self._more["key_name"],
            key=key,
            expiry=ends // SECOND,
        )
        self._token = (key, token, ends)
        # Anyone who has the token can post until it expires.
        secrets.hold(f"token of {self._secret_file}", _signatures(token))
        return token

    def _wrong(self) -> Iterator[str]:
        """Yield why the server cannot be reached; the key itself is not checked."""
        host = Template(url=f"{self._resource}/messages", ca_file=self._ca_file)
        yield from unreached(host, clock=self._clock)
        read_secret(self._secret_file)


def _signatures(token: str) -> Sequence[str]:
    """Return the secret parts of a token: its signature, quoted and unquoted."""
    quoted_signature = token.partition("&sig=")[2].partition("&")[0]
    return quoted_signature, forms.percent_read(quoted_signature)


def sample(notification: Notification) -> dict[str, Any]:
    """Return the notification in the format of Azure's sample for central logging."""
    note = notification.note
    event = forms.event_json(note.notice)
    return {
        **event,
        "EventId": note.event_id,
        "Resources": next(iter(event.get("Resources", ())), ""),
        "NotBefore": event.get("NotBefore", "").replace(" ", "_"),
        "Hostname": notification.vm,
        "Time": format_instant(note.at)[11:19],
        "Msg": _SAMPLE_MESSAGES.get(note.kind) or sentence(notification),
        "LogType": "DEBUG",
    }


KIND = SinkKind(
    make=EventHubsSink,
    name=lambda settings: (
        f"eventhubs {settings.more['namespace']}/{settings.more['hub']}"
    ),
    keys={
        "namespace": Option(
            form=Forms.TEXT,
            text=f"The namespace, such as `contoso` for `contoso.{DOMAIN}`, or the full"
            " host name.",
        ),
        "hub": Option(form=Forms.TEXT, text="The event hub."),
        "key_name": Option(
            form=Forms.TEXT,
            text="The name of the shared access policy, which needs only the claim "
            "Send.",
        ),
        "key_file": Option(
            form=Forms.TEXT, text="A file with the policy's key on its first line."
        ),
        "shape": Option(
            form=Forms.WORD,
            words=(WHOLE, SAMPLE),
            text="`whole`: the usual JSON of notifications. `sample`: the event with "
            "`Hostname`, `Time`, `Msg` and `LogType`, as in Azure's sample for "
            "central logging. Default: `whole`.",
        ),
        "ca_file": CA_FILE,
        "timeout": timeout_key(),
    },
    needed=("namespace", "hub", "key_name", "key_file"),
    faults=faults,
)
