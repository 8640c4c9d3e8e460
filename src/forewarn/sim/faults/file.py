"""The reader of faults files: TOML with a `[[fault]]` table for each fault.

A table has one line (`fault = "500 x2"`), separate keys (`kind = "500"`, `times = 2`), or a
list of lines (`playbook = [...]`), and optionally VMs. All problems are reported together,
with line and key.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, cast

from forewarn.problems import quoted
from forewarn.settings import forms
from forewarn.settings.forms import Form, Forms, Option, from_text
from forewarn.settings.tables import Tables
from forewarn.sim.faults import syntax
from forewarn.sim.faults.fault import (
    BODY_MAX,
    FAULTS,
    FaultError,
    FaultFileError,
    Playbook,
    Replacement,
)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)

_STATUSES = frozenset(status.value for status in HTTPStatus if status >= HTTPStatus.OK)

_FRAMING = frozenset({"content-length", "transfer-encoding", "connection"})
"""Headers that determine the end of an answer: the server sets them."""


def _status(_option: Option, value: object) -> int:
    if value not in _STATUSES:
        raise ValueError("must be an HTTP status of at least 200")
    return cast("int", value)


def _headers(_option: Option, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise ValueError("must be a table of strings")  # noqa: TRY004
    for name, text in cast("dict[str, object]", value).items():
        if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
            raise ValueError(f"{quoted(name)} cannot be set")
        if not isinstance(text, str) or not _VALUE.fullmatch(text):
            raise ValueError(f"{quoted(name)} must be printable ASCII text")
    return tuple(cast("dict[str, str]", value).items())


def _body(_option: Option, value: object) -> bytes:
    if not isinstance(value, str) or len(value.encode()) > BODY_MAX:
        raise ValueError(f"must be text of at most {BODY_MAX} bytes")
    return value.encode()


def _content_type(_option: Option, value: object) -> str:
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        raise ValueError("must be printable ASCII text")
    return value


_REPLACE: Mapping[str, Option] = {
    "status": Option(form=Form(expected="a status of HTTP", read=_status)),
    "headers": Option(form=Form(expected="a table of strings", read=_headers)),
    "body": Option(form=Form(expected="a string", read=_body)),
    "content_type": Option(form=Form(expected="a string", read=_content_type)),
}
"""The keys of `kind = "replace"`, which describe the answer."""


def _text(value: object) -> str:
    """Return a value as it is written in a line."""
    if not isinstance(value, str | int):
        raise ValueError("must be text or a whole number")  # noqa: TRY004
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(_option: Option, value: object) -> str:
    try:
        return syntax.find(_text(value)).name
    except FaultError as error:
        raise ValueError(error.message) from error


def _written(option: Option) -> Option:
    """Return an option of a line for a file, where it may also be a number."""

    def read(_option: Option, value: object) -> Any:
        return from_text(option, _text(value))

    return replace(option, form=replace(option.form, read=read, kind=object))


_SHARED: Mapping[str, Option] = {"vm": Option(form=Forms.NAMES, may_be_empty=True)}

_FORMS: Mapping[str, Mapping[str, Option]] = {
    "fault": {"fault": Option(form=Forms.LINE, may_be_empty=True), **_SHARED},
    "playbook": {
        "playbook": Option(form=Form(expected="a list of faults", read=forms.texts)),
        "loop": Option(form=Forms.SWITCH),
        **_SHARED,
    },
    "kind": {
        "kind": Option(form=Form(expected="a kind of fault", read=_kind)),
        **_SHARED,
    },
}
"""The keys of each form of a fault, by the key that identifies the form."""

_KINDS: Mapping[str, Mapping[str, Option]] = {
    kind.name: {
        **_FORMS["kind"],
        **{key: _written(option) for key, option in syntax.options_of(kind).items()},
        **(_REPLACE if kind.name == "replace" else {}),
    }
    for kind in FAULTS.values()
}
"""The keys of each kind."""


def read_faults(text: str, *, name: str) -> tuple[Playbook, ...]:
    """Return the playbooks of a file; `name` is its name for messages.

    Raises FaultFileError with all problems. Only the player knows which VMs exist: see
    `Player.play_file`.
    """
    tables = Tables(name)
    root = {"fault": Option(form=Forms.TABLES)}
    parsed = tables.parse(text)
    members = {} if parsed is None else tables.take("", parsed, root)
    playbooks = [
        _playbook(tables, f"fault.{number}", entry)
        for number, entry in enumerate(members.get("fault", ()), start=1)
    ]
    if not playbooks and not tables.problems:
        tables.blame("", "has no [[fault]] table")
    if tables.problems:
        raise FaultFileError(tables.problems)
    return tuple(playbook for playbook in playbooks if playbook is not None)


def _playbook(
    tables: Tables, where: str, entry: Mapping[str, object]
) -> Playbook | None:
    """Return the playbook of one table; None after reporting problems."""
    problems_before = len(tables.problems)
    ways = [way for way in _FORMS if way in entry]
    if len(ways) != 1:
        every = {
            key: option for keys in _FORMS.values() for key, option in keys.items()
        }
        tables.take(where, entry, {**every, **_KINDS["replace"], **syntax.KEYS})
        if len(tables.problems) == problems_before or ways:
            key = f"{where}.{ways[1]}" if ways else where
            tables.blame(key, f"needs one of {', '.join(_FORMS)}")
        return None
    [way] = ways
    options, way_shown = _FORMS[way], f"`{way}`"
    if way == "kind":
        # The kind determines the valid keys.
        kind = tables.take(where, {way: entry[way]}, options).get(way)
        if kind is None:
            return None
        options = _KINDS[kind]
        way_shown = f"kind {quoted(kind)}"
    values = tables.take(where, entry, options, of=f" for {way_shown}")
    if len(tables.problems) > problems_before:
        return None
    vms = values.pop("vm", ())
    try:
        if way == "fault":
            playbook = syntax.parse_playbook(values["fault"], vms=vms)
        elif way == "playbook":
            playbook = syntax.playbook(
                values["playbook"], vms=vms, loops=values.get("loop", False)
            )
        else:
            own = {key: values.pop(key) for key in _REPLACE if key in values}
            fault = syntax.fault_of(values)
            fault = replace(fault, replacement=Replacement(**own))
            playbook = Playbook(steps=(fault,), vms=vms)
    except FaultError as error:
        # In a line, the invalid key is inside the text.
        key = error.key if way == "kind" else way
        tables.blame(f"{where}.{key}", error.message)
        return None
    return replace(playbook, file=tables.file, line=tables.line(f"{where}.vm"))
