"""Parse and check one line of the channel.

A message is a JSON object such as `{"do":"reboot","vm":"web_0","notice":"2s"}`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from forewarn.problems import did_you_mean
from forewarn.protocol.errors import ForewarnError
from forewarn.testing.kit.durations import is_number
from forewarn.testing.kit.forms import (
    Form,
    is_fault,
    is_names,
    is_switch,
    is_text,
    is_texts,
    is_whole,
)

Json: TypeAlias = dict[str, Any]

LINE_MAX = 1 << 20
"""Maximum length of a line, in characters: a fleet file with a thousand VMs."""

VALUE_SHOWN_MAX = 40
"""Maximum length of a wrong value in an answer, in characters: enough to recognize it."""

TEXT = Form(is_text, "a string")
TEXTS = Form(is_names, "a list of strings")
FLAG = Form(is_switch, "true or false")
NUMBER = Form(is_whole, "a whole number")
LENGTH = Form(
    lambda value: is_text(value) or is_number(value),
    'a length such as "15m", or seconds',
)

FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("but", "hosts", "names", "targets"), TEXTS),
    **dict.fromkeys(("enabled", "judge", "migrates", "spot", "together"), FLAG),
    **dict.fromkeys(("at_least", "at_once", "count", "seed", "since", "vms"), NUMBER),
    **dict.fromkeys(("ahead", "duration", "during", "notice"), LENGTH),
    **dict.fromkeys(("timeout", "within"), LENGTH),
    "arguments": Form(lambda value: isinstance(value, dict), "an object"),
    "faults": Form(is_fault, "a string"),
    "settings": Form(is_texts, "an object of texts"),
    "speed": Form(is_number, "a number"),
}
"""The forms of values by their keys; all others are texts."""


class MessageError(ForewarnError):
    """An invalid line: its author must fix it."""


class Message:
    """The keys and values of one line."""

    def __init__(self, members: Json) -> None:
        """Check the keys of every message: `do`, `id` and `world`."""
        self._members = members
        self.id: Any = members.get("id")
        """Identifier that the answer repeats; None if there is none."""
        self.verb: str = self.needed("do")
        self.world: str = self.value("world") or ""
        """Name of the world; several can be open."""

    @classmethod
    def read(cls, line: str) -> "Message":
        """Read a line; raises MessageError."""
        if len(line) > LINE_MAX:
            raise MessageError(f"a line has at most {LINE_MAX} characters")
        if not line.strip():
            raise MessageError(
                "an empty line is not a request", hint='Example: {"do":"world"}'
            )
        try:
            members: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MessageError(f"the line is not JSON: {error}") from error
        if not isinstance(members, dict):
            raise MessageError(
                "a line must be one JSON object", hint='Example: {"do":"world"}'
            )
        return cls(cast("Json", members))

    def check(self, known: Sequence[str]) -> None:
        """Raise MessageError for a key that the verb does not have."""
        strange = self._members.keys() - {"do", "id", "world", *known}
        if strange:
            name = min(strange)
            raise MessageError(
                f"{self.verb} has no {name!r}{did_you_mean(name, known)}",
                hint=f"Its keys are: {', '.join(known) or 'none'}.",
            )

    def has(self, key: str) -> bool:
        """Return whether a key has a value."""
        return self._members.get(key) is not None

    def check_one_of(self, *keys: str) -> None:
        """Raise MessageError for several keys that exclude each other."""
        present = [key for key in keys if self.has(key)]
        if len(present) > 1:
            raise MessageError(
                f"{self.verb} takes {present[0]!r} or {present[1]!r}, not both"
            )

    def value(self, key: str, form: Form | None = None) -> Any:
        """Return a value after a check of its form; None if it is missing."""
        value: object = self._members.get(key)
        form = form or FORMS.get(key, TEXT)
        if value is not None and not form.is_right(value):
            raise self._wrong(key, form)
        return value

    def needed(self, key: str, form: Form | None = None) -> Any:
        """Return a value as `value` does; raises MessageError if it is missing."""
        value: object = self.value(key, form)
        if value in (None, ""):
            raise self._wrong(key, form or FORMS.get(key, TEXT))
        return value

    def given(self, *keys: str, needs: Sequence[str] = ()) -> Json:
        """Return the given values of some keys; raises if one of `needs` is missing."""
        for key in needs:
            self.needed(key)
        return {key: self.value(key) for key in keys if self.has(key)}

    def _wrong(self, key: str, form: Form) -> MessageError:
        """Return the error for a wrong or missing value."""
        if self._members.get(key) is None:
            return MessageError(f"{key!r} is missing: it must be {form.expected}")
        text = json.dumps(self._members[key])
        if len(text) > VALUE_SHOWN_MAX:
            text = f"{text[:VALUE_SHOWN_MAX]}…"
        return MessageError(f"{key!r} must be {form.expected}, not {text}")
