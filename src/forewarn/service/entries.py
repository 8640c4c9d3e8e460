"""What may be in forewarn.toml several times: arrays of tables, such as [[webhook]].

They are in the file only: no flag and no variable of the environment could say
which one it means. A key's whole name has a number, `webhook.2.url`; people are
told the array's and the key's, with the line.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any
from urllib.parse import urlsplit

from forewarn.fleet.values import is_loopback
from forewarn.instants import MINUTE, SECOND
from forewarn.problems import quoted
from forewarn.protocol.events import EventType
from forewarn.service import values
from forewarn.service.options import Form, Option
from forewarn.store.outbox import EventChange

ENTRIES_MAX = 100
"""Of one array: receivers are a few for each tenant, and each has a connection."""

WEBHOOK_TIMEOUT_MAX = 5 * MINUTE
"""A receiver that thinks for longer should answer first and think then."""

ARRAYS: Mapping[str, type[values.WebhookSettings]] = {
    "webhook": values.WebhookSettings,
}
"""The arrays of forewarn.toml, and what their tables are."""

_SPECIAL: Mapping[str, Option] = {
    "webhook.name": Option(form=Form.NAME),
    "webhook.url": Option(form=Form.WEB),
    "webhook.secret_file": Option(form=Form.TEXT),
    "webhook.tenant": Option(form=Form.TEXT, may_be_empty=True),
    "webhook.types": Option(form=Form.WORDS, words=tuple(t.value for t in EventType)),
    "webhook.statuses": Option(
        form=Form.WORDS, words=tuple(change.value for change in EventChange)
    ),
    "webhook.timeout": Option(least=SECOND, most=WEBHOOK_TIMEOUT_MAX),
    "webhook.insecure": Option(form=Form.SWITCH),
    "webhook.ca_file": Option(form=Form.TEXT, may_be_empty=True),
    "webhook.proxy": Option(form=Form.WEB, may_be_empty=True),
}

OPTIONS: Mapping[str, Option] = {
    f"{array}.{each.name}": _SPECIAL[f"{array}.{each.name}"]
    for array, entry in ARRAYS.items()
    for each in fields(entry)
}
"""Every key of every array by the array's name and its own."""

NEEDED: Mapping[str, tuple[str, ...]] = {
    array: tuple(each.name for each in fields(entry) if each.default is MISSING)
    for array, entry in ARRAYS.items()
}
"""The keys that each table of an array must have."""

_NUMBER = re.compile(r"\.\d+(?=\.|$)")


def plain(name: str) -> str:
    """Return a whole name without its number: `webhook.url`."""
    return _NUMBER.sub("", name, count=1)


def wrong(array: str, found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the whole names of keys with what is wrong, seen together.

    `found` has the sound keys of each table.
    """
    if len(found) > ENTRIES_MAX:
        yield f"{array}.{ENTRIES_MAX + 1}", f"there may be {ENTRIES_MAX} at most"
    names: set[str] = set()
    for number, entry in enumerate(found, start=1):
        name, url = entry.get("name"), entry.get("url")
        if name in names:
            yield f"{array}.{number}.name", f"{quoted(str(name))} is there twice"
        elif name is not None:
            names.add(name)
        if url and not (entry.get("insecure") or is_private(url)):
            yield (
                f"{array}.{number}.url",
                "must be https: http can be read on its way (insecure = true allows it)",
            )


def is_private(url: str) -> bool:
    """Tell whether nobody reads what is sent there: https, or this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")
