"""What may be in forewarn.toml several times: arrays of tables, such as [[webhook]].

They are in the file only: no flag and no variable of the environment could say
which one it means. A key's whole name has a number, `webhook.2.url`; people are
told the array's and the key's, with the line.
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
from forewarn.store.outbox import EventChange

WEBHOOK_TIMEOUT_MAX = 5 * MINUTE
"""A receiver that thinks for longer should answer first and think then."""

ARRAYS: Mapping[str, type[settings_model.WebhookSettings]] = {
    "webhook": settings_model.WebhookSettings,
}
"""The arrays of forewarn.toml, and what their tables are."""

_WEBHOOK: Mapping[str, Option] = {
    "name": Option(
        form=Forms.NAME,
        is_needed=True,
        text="What the receiver is called in lists, logs and metrics: up to 63 of `a-z`, "
        "`0-9`, `-` and `_`, each name once. What waits for a name that is gone is "
        "given up.",
    ),
    "url": Option(
        form=Forms.WEB,
        is_needed=True,
        text="Where changes are posted. `https`, or `http` on this machine.",
    ),
    "secret_file": Option(
        form=Forms.LINE,
        is_needed=True,
        text="A file with the key of the signatures, `whsec_` and base64; a second line "
        "has the key before it, while it is exchanged.",
    ),
    "tenant": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="The tenant whose events it hears of. Empty: it is the operator's and hears "
        "of all.",
    ),
    "types": Option(
        form=Forms.WORDS,
        may_be_empty=True,
        words=tuple(t.value for t in EventType),
        text="Which types of events: a list of `Freeze`, `Reboot`, `Redeploy`, "
        "`Preempt`, `Terminate`. Empty: all.",
    ),
    "statuses": Option(
        form=Forms.WORDS,
        may_be_empty=True,
        words=tuple(change.value for change in EventChange),
        text="Which changes: a list of `scheduled`, `changed`, `approved`, `started`, "
        "`completed`, `cancelled`, `failed`. Empty: all.",
    ),
    "timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=WEBHOOK_TIMEOUT_MAX,
        text="How long a post may take, until it counts as a failure.",
    ),
    "insecure": Option(
        form=Forms.SWITCH,
        text="Whether the URL may be `http` on another machine.",
    ),
    "ca_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="A file with the authorities that its certificate is verified against. "
        "Empty: the system's.",
    ),
    "proxy": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="The proxy that it is reached through. Empty: none, whatever the "
        "environment says.",
    ),
}

OPTIONS: Mapping[str, Mapping[str, Option]] = {"webhook": _WEBHOOK}
"""The keys of each array, in the order of the file."""

_NUMBER = re.compile(r"\.\d+(?=\.|$)")


def plain(name: str) -> str:
    """Return a whole name without its number: `webhook.url`."""
    return _NUMBER.sub("", name, count=1)


def wrong(array: str, found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the whole names of keys with what is wrong, seen together.

    `found` has the sound keys of each table.
    """
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
