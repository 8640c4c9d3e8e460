"""Replace names and IDs in a recording by pseudonyms, before it is written.

Known values are replaced: names of VMs become `vm_1` and so on, IDs of events are
numbered, and a description keeps only words that platforms use. Unknown values are
removed. Equal originals have equal pseudonyms within one recording only.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from forewarn.protocol.events import EventSource, EventStatus, EventType
from forewarn.sim.recording import Answer, Failed, Outcome

LEFT_OUT = b"(left out: it could not be given pseudonyms)"
"""Replaces an unknown body."""

LEFT_OUT_JSON = b'{"error":"(left out)"}'
"""Replaces an unknown JSON body, so that clients can still read it."""

ORIGINALS_MAX = 100_000
"""Maximum number of stored originals: more than the events of a scope in a year."""

_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_WORD = re.compile(r"\w[\w'.:/@-]*\w|\w")
_DATE = re.compile(
    r"(?:[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT"
    r"|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})?)?"
)
_NUMBER = re.compile(r"-?\d{1,10}")

_KEPT_HEADERS: Mapping[str, re.Pattern[str]] = {
    "server": re.compile(r"forewarn|IMDS/[\d.]+|Microsoft-[A-Za-z]+/[\d.]+"),
    "content-type": re.compile(
        r"(?:application|text)/[a-z]+(?:; ?charset=[A-Za-z0-9-]{1,16})?", re.IGNORECASE
    ),
    "retry-after": re.compile(r"\d{1,10}"),
    "allow": re.compile(r"[A-Z]+(?:, ?[A-Z]+)*"),
}
"""Headers that are kept if their value has this form. `ETag` and `Content-Length` have
other rules."""

_ETAG = re.compile(r'(?:W/)?"?\d{1,20}"?')
"""A tag that is a number, which is the incarnation."""

_WORDS = """
a about after again all an and approved are as at authorized be because been before
being by cloud deallocated delete deleted deletion delay due during emergency
encountered event evicted eviction failure failing for freeze freezes from going
hardware has have host image impact in infrastructure initiated instance instances
is it its live machine machines maintenance may memory memory-preserving migrate
migrated migration minutes moved network no node not of on operating operation or
os os-image out paused pause planned platform preempt preempted preempting
preserving reason reboot rebooted rebooting recovery redeploy redeployed redeploying
reimage reimaged repair request requested restart restarted restarting scale scaled
scheduled seconds server set shut shutdown soon spot started stopped system
terminate terminated that the this to undergoing unknown until update updated
upgrade upgraded user virtual vm vms was which will with you your
"""

_VOCABULARY = frozenset(_WORDS.split())
"""Words of a description that are kept, in lower case."""


class Pseudonyms:
    """The pseudonyms of one recording."""

    def __init__(self, *, underscore: bool = False) -> None:
        """Start without pseudonyms; `underscore`: names have a `_` in this api-version."""
        self._underscore = underscore
        self._names: dict[str, str] = {}
        self._guids: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._tags: dict[str, str] = {}
        self._members: Mapping[str, Callable[[Any], object]] = {
            "EventId": _of_text(self._guid),
            "Resources": self._resources,
            "Description": _of_text(self._described),
            "NotBefore": lambda value: _plain(value, _DATE),
            "DurationInSeconds": lambda value: _plain(value, _NUMBER),
            **dict.fromkeys(_TOLD, _of_text(self._told)),
        }
        """Conversions of the members of an event; other members are removed."""

    def __call__(self, outcome: Outcome) -> Outcome:
        """Return an outcome with pseudonyms."""
        if isinstance(outcome, Failed):
            # The error of the system contains addresses and host names.
            return Failed(failure=outcome.failure)
        body = self._body(outcome.body)
        return Answer(
            status=outcome.status,
            headers=tuple(self._headers(outcome, length=len(body))),
            body=body,
        )

    def name(self, name: str) -> str:
        """Return the pseudonym of a VM's name."""
        return _numbered(self._names, name, "vm_{}".format) if name else ""

    def _headers(self, answer: Answer, *, length: int) -> list[tuple[str, str]]:
        headers_kept: list[tuple[str, str]] = []
        for name, value in answer.headers:
            key = name.lower()
            if key == "etag":
                headers_kept.append((name, self._tag(value)))
            elif key == "content-length":
                headers_kept.append((name, str(length)))
            elif key in _KEPT_HEADERS and _KEPT_HEADERS[key].fullmatch(value):
                headers_kept.append((name, value))
        return headers_kept

    def _tag(self, tag: str) -> str:
        is_number = _ETAG.fullmatch(tag)
        return tag if is_number else _numbered(self._tags, tag, '"tag-{}"'.format)

    def _body(self, body: bytes) -> bytes:
        if not body:
            return body
        try:
            value: object = json.loads(body)
        except (ValueError, RecursionError):
            return LEFT_OUT
        if not isinstance(value, dict):
            return LEFT_OUT_JSON
        members = cast("dict[str, Any]", value)
        if not {"DocumentIncarnation", "Events"} & members.keys():
            return LEFT_OUT_JSON
        return json.dumps(self._document(members), separators=(",", ":")).encode(
            "ascii"
        )

    def _document(self, members: Mapping[str, Any]) -> dict[str, object]:
        """Return a document with known members only, in their order."""
        document: dict[str, object] = {}
        for key, value in members.items():
            if key == "DocumentIncarnation":
                document[key] = _plain(value, _NUMBER)
            elif key == "Events" and isinstance(value, list):
                events = cast("list[object]", value)
                # Learn all names first: a description may contain a later one.
                for event in events:
                    if isinstance(event, dict):
                        self._resources(cast("dict[str, Any]", event).get("Resources"))
                document[key] = [self._event(event) for event in events]
            elif key == "Events":
                document[key] = _plain(value)
        return document

    def _event(self, event: object) -> object:
        if not isinstance(event, dict):
            return _plain(event)
        members = cast("dict[str, Any]", event).items()
        known = self._members
        return {key: known[key](value) for key, value in members if key in known}

    def _told(self, value: str) -> str:
        if not value or value in _TELLING:
            return value
        return _numbered(self._words, value, "word_{}".format)

    def _resources(self, value: object) -> object:
        if isinstance(value, list):
            return [self._resources(item) for item in cast("list[object]", value)]
        return self._name(value) if isinstance(value, str) else _plain(value)

    def _name(self, name: str) -> str:
        if not name:
            return name
        if self._underscore and name.startswith("_"):
            return "_" + self._name(name[1:])
        return self.name(name)

    def _guid(self, event_id: str) -> str:
        # IDs ignore case. The pseudonym has no letters, so it has no case.
        return _numbered(
            self._guids, event_id.upper(), "00000000-0000-4000-8000-{:012d}".format
        )

    def _described(self, text: str) -> str:
        for name in sorted(self._names, key=len, reverse=True):
            # Names that are not words, such as `a b`, need a separate replacement.
            if not _WORD.fullmatch(name):
                text = text.replace(name, self._names[name])
        text = _GUID.sub(lambda match: self._guid(match[0]), text)
        return _WORD.sub(lambda match: self._word(match[0]), text)

    def _word(self, word: str) -> str:
        if word in self._names:
            return self._names[word]
        if word.lower() in _VOCABULARY or word in _MADE_WORDS:
            return word
        if word in self._guids.values() or word in self._names.values():
            return word
        end = "." if word.endswith(".") else ""
        return _numbered(self._words, word.removesuffix("."), "word_{}".format) + end


_TELLING = frozenset(
    {
        "VirtualMachine",
        *(event_type.value for event_type in EventType),
        *(status.value for status in EventStatus),
        *(source.value for source in EventSource),
    }
)
"""Values that are kept."""

_MADE_WORDS = frozenset(str(number) for number in range(1_000))
"""Short numbers such as seconds, minutes and counts."""


_TOLD = ("EventStatus", "EventType", "EventSource", "ResourceType")
"""Members whose standard values are kept."""


def _of_text(keep: Callable[[str], str]) -> Callable[[object], object]:
    """Return a conversion that applies `keep` to texts, and `_plain` to other values."""
    return lambda value: keep(value) if isinstance(value, str) else _plain(value)


def _plain(value: object, form: re.Pattern[str] | None = None) -> object:
    """Return a harmless value, or "" in its place."""
    if isinstance(value, str):
        return value if form is not None and form.fullmatch(value) else ""
    if isinstance(value, int) and not isinstance(value, bool) and form is not _NUMBER:
        return 0
    return value if isinstance(value, bool | int | None) else ""


def _numbered(known: dict[str, str], original: str, name: Callable[[int], str]) -> str:
    """Return the pseudonym of an original; a new original gets the next number."""
    pseudonym = known.get(original)
    if pseudonym is None:
        pseudonym = name(len(known) + 1)
        if len(known) < ORIGINALS_MAX:
            known[original] = pseudonym
    return pseudonym
