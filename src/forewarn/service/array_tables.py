"""The arrays of tables in forewarn.toml, such as [[webhook]].

These arrays exist only in the file, since a flag or an environment variable cannot say
which table it means. The full name of a key has a number, `webhook.2.url`. Messages
name the array, the key and the line.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from forewarn.fleet.validators import is_loopback
from forewarn.instants import MINUTE, SECOND
from forewarn.problems import quoted
from forewarn.protocol.events import EventType
from forewarn.service import settings_model
from forewarn.service.options import Forms
from forewarn.settings.forms import Option
from forewarn.store.notices import NoticeKind
from forewarn.store.records import EventChange

WEBHOOK_TIMEOUT_MAX = 5 * MINUTE
"""Maximum time of one post: a slower receiver should respond first and work later."""

ARRAYS: Mapping[str, type[settings_model.WebhookSettings]] = {
    "webhook": settings_model.WebhookSettings,
}
"""The arrays of forewarn.toml, each with the class of its tables."""

_WEBHOOK: Mapping[str, Option] = {
    "name": Option(
        form=Forms.NAME,
        is_needed=True,
        text="Name of the receiver in lists, logs and metrics: up to 63 of `a-z`, `0-9`, "
        "`-` and `_`. Each name must be unique. Messages queued for a name that is no "
        "longer configured are dropped.",
    ),
    "url": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="URL that messages are posted to: `https`, or `http` on this machine.",
    ),
    "url_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the URL on its first line, instead of `url`. Needed for chats: "
        "anyone who has the URL of a chat can post.",
    ),
    "secret_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the signing key: `whsec_` and base64. While you replace a key, put "
        "the previous key on a second line. Needed for the format `events`.",
    ),
    "format": Option(
        form=Forms.WORD,
        words=("events", "slack", "teams", "text"),
        text="Form of the messages: `events` for programs; for people, the incoming "
        "webhooks of `slack` and `teams`, or plain `text`.",
    ),
    "tenant": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="Tenant whose events the receiver gets. Empty: an operator's receiver, which "
        "gets the events of all tenants.",
    ),
    "types": Option(
        form=Forms.WORDS,
        may_be_empty=True,
        words=tuple(t.value for t in EventType),
        text="Event types to send: a list of `Freeze`, `Reboot`, `Redeploy`, "
        "`Preempt`, `Terminate`. Empty: all.",
    ),
    "statuses": Option(
        form=Forms.WORDS,
        may_be_empty=True,
        words=tuple(change.value for change in EventChange),
        text="Changes to send: a list of `scheduled`, `changed`, `approved`, `started`, "
        "`completed`, `cancelled`, `failed`. Empty: all.",
    ),
    "events": Option(
        form=Forms.SWITCH,
        text="Whether the receiver gets changes of events, by `types` and `statuses`.",
    ),
    "notices": Option(
        form=Forms.WORDS,
        may_be_empty=True,
        words=(settings_model.ALL_NOTICES, *(kind.value for kind in NoticeKind)),
        text="Notices about campaigns, the brake and blackouts to send, or `all`: a list of "
        "`campaign-started`, `stage-started`, `approval-needed`, `campaign-paused`, "
        "`campaign-halted`, `campaign-resumed`, `campaign-done`, `campaign-aborted`, "
        "`brake-on`, `brake-off`, `blackout-set`, `blackout-removed`. Empty: none. Only for "
        "an operator's receiver.",
    ),
    "timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=WEBHOOK_TIMEOUT_MAX,
        text="Maximum time of a post. A slower one counts as a failure.",
    ),
    "insecure": Option(
        form=Forms.SWITCH,
        text="Whether the URL may be `http` on another machine.",
    ),
    "ca_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the certificate authorities to verify the receiver's certificate. "
        "Empty: the authorities of the system.",
    ),
    "proxy": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="Proxy to use. Empty: no proxy, even if the environment names one.",
    ),
}

OPTIONS: Mapping[str, Mapping[str, Option]] = {"webhook": _WEBHOOK}
"""The keys of each array, in the order of the file."""


def incomplete(
    array: str, entries: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield the full name and the problem of each key that others demand.

    `entries` has valid tables only.
    """
    for number, entry in enumerate(entries, start=1):
        table, form = f"{array}.{number}", entry.get("format", "events")
        if entry.get("url") and entry.get("url_file"):
            yield f"{table}.url_file", "cannot be combined with url"
        elif entry.get("url") and form in _CHATS:
            yield (
                f"{table}.url",
                f"must be in url_file, since {form} has no other secret",
            )
        elif not (entry.get("url") or entry.get("url_file")):
            yield f"{table}.url", "is missing"
        if form == "events" and not entry.get("secret_file"):
            yield f"{table}.secret_file", "is missing"


_CHATS = frozenset({"slack", "teams"})
"""Formats whose URL is the secret."""

_NUMBER = re.compile(r"\.\d+(?=\.|$)")


def plain(name: str) -> str:
    """Return a full name without its number: `webhook.url`."""
    return _NUMBER.sub("", name, count=1)


def wrong(
    array: str, entries: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield the full name and the problem of each key that conflicts with another one.

    `entries` has the valid keys of each table.
    """
    names: set[str] = set()
    for number, entry in enumerate(entries, start=1):
        name, url = entry.get("name"), entry.get("url")
        if name in names:
            yield (
                f"{array}.{number}.name",
                f"{quoted(str(name))} is not unique: another table has the same name",
            )
        elif name is not None:
            names.add(name)
        if entry.get("notices") and entry.get("tenant"):
            yield (
                f"{array}.{number}.notices",
                "must be empty, since a tenant's receiver gets no notices",
            )
        if entry.get("events") is False and not entry.get("notices"):
            yield (
                f"{array}.{number}.events",
                "must be true, since the receiver would get nothing without `notices`",
            )
        if url and not (entry.get("insecure") or is_private(url)):
            yield (
                f"{array}.{number}.url",
                "must be https, since http is not encrypted (insecure = true allows it)",
            )


def is_private(url: str) -> bool:
    """Return whether a URL is private in transit: https, or a host on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")
