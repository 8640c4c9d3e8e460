"""One line of the channel, taken apart: which verb, with what, checked by name.

A message is a JSON object such as `{"do":"reboot","vm":"web_0","notice":"2s"}`.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from forewarn.problems import did_you_mean
from forewarn.protocol.errors import ForewarnError
from forewarn.testing.kit.durations import Length

Json: TypeAlias = dict[str, Any]

LINE_MAX = 1 << 20
"""Characters of a line: a fleet file of a thousand VMs."""


VALUE_TOLD_MAX = 40
"""Characters of a wrong value that an answer repeats."""


class MessageError(ForewarnError):
    """A line that the channel cannot take: whoever wrote it must mend it."""


class Message:
    """The keys of one line."""

    def __init__(self, members: Json) -> None:
        """Take the keys of `members`."""
        self._members = members
        self.id: Any = members.get("id")
        """Given back with the answer; None: there is none."""
        self.verb = self.text("do")
        self.world = self.text("world", "")
        """Which world it is about: several may be open, each by a name."""

    @classmethod
    def read(cls, line: str) -> "Message":
        """Read a line; raises MessageError."""
        if len(line) > LINE_MAX:
            raise MessageError(f"a line has at most {LINE_MAX} characters")
        if not line.strip():
            raise MessageError(
                "an empty line is no order", hint='such as {"do":"world"}'
            )
        try:
            members: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise MessageError(f"this is no JSON: {error}") from error
        if not isinstance(members, dict):
            raise MessageError(
                "a line is one JSON object", hint='such as {"do":"world"}'
            )
        return cls(cast("Json", members))

    def check(self, known: Sequence[str]) -> None:
        """Raise MessageError for a key that the verb does not have."""
        strange = self._members.keys() - {"do", "id", "world", *known}
        if strange:
            name = min(strange)
            raise MessageError(
                f"{self.verb} has no {name!r}{did_you_mean(name, known)}",
                hint=f"it takes {', '.join(known) or 'nothing'}",
            )

    def has(self, key: str) -> bool:
        """Tell whether a key is there."""
        return self._members.get(key) is not None

    def check_one_of(self, *keys: str) -> None:
        """Raise MessageError where several keys are there that exclude each other."""
        said = [key for key in keys if self.has(key)]
        if len(said) > 1:
            raise MessageError(
                f"{self.verb} takes {said[0]!r} or {said[1]!r}, not both"
            )

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; raises MessageError where it is missing, or none."""
        value: object = self._members.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not (value or default is not None):
            raise self._wrong(key, "a text")
        return value

    def fault(self, key: str) -> str | int:
        """Return a line of faults, which may be a status alone: 500."""
        value: object = self._members.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self.text(key)

    def texts(self, key: str) -> list[str]:
        """Return a list of texts, or of the one that is there."""
        value: object = self._members.get(key)
        if value is None:
            return []
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list):
            raise self._wrong(key, "a list of texts")
        found = cast("list[object]", values)
        if not all(isinstance(each, str) for each in found):
            raise self._wrong(key, "a list of texts")
        return cast("list[str]", found)

    def members(self, key: str) -> Json:
        """Return an object; an empty one where it is missing."""
        value: object = self._members.get(key)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return cast("Json", value or {})

    def table(self, key: str) -> dict[str, str]:
        """Return an object of texts."""
        members = self.members(key)
        if not all(isinstance(each, str) for each in members.values()):
            raise self._wrong(key, "an object of texts")
        return members

    def flag(self, key: str) -> bool | None:
        """Return true, false, or None where it is not there."""
        value: object = self._members.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def number(self, key: str) -> int | None:
        """Return a whole number, or None where it is not there."""
        value: object = self._members.get(key)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int)
        ):
            raise self._wrong(key, "a whole number")
        return value

    def length(self, key: str) -> Length | None:
        """Return a length such as "15m" or seconds; None where it is not there."""
        value: object = self._members.get(key)
        if value is None or (
            isinstance(value, str | int | float) and not isinstance(value, bool)
        ):
            return value
        raise self._wrong(key, 'a length such as "15m", or seconds')

    def _wrong(self, key: str, wanted: str) -> MessageError:
        """Return the error for a value of another form, or for none."""
        if self._members.get(key) is None:
            return MessageError(f"{key!r} is missing: it must be {wanted}")
        text = json.dumps(self._members[key])
        if len(text) > VALUE_TOLD_MAX:
            text = f"{text[:VALUE_TOLD_MAX]}…"
        return MessageError(f"{key!r} must be {wanted}, not {text}")
