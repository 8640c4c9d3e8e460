"""Faults in a file: TOML with a `[[fault]]` table for each.

A table has the words of one line (`fault = "500 x2"`), or its keys one by one
(`kind = "500"`, `times = 2`), or a list of lines (`playbook = [...]`); and for whom.
All that is wrong is told together, with line and key.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, cast

from forewarn import toml
from forewarn.fleet.lines import Lines
from forewarn.problems import Problem, did_you_mean, not_toml, quoted
from forewarn.sim.faults import syntax
from forewarn.sim.faults.errors import FaultError, FaultFileError
from forewarn.sim.faults.fault import BODY_MAX, Fault, Playbook, Replacement

TABLE = "fault"

_FORMS = ("fault", "playbook", "kind")
_REPLACE = ("status", "headers", "body", "content_type")
_SHARED = ("vm", "loop")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)

_STATUSES = frozenset(each.value for each in HTTPStatus if each >= HTTPStatus.OK)

_FRAMING = frozenset({"content-length", "transfer-encoding", "connection"})
"""Headers that say where an answer ends: these are the server's own."""


def read_faults(text: str, *, name: str) -> tuple[Playbook, ...]:
    """Return what a file plays; `name` is the file's, for messages.

    Raises FaultFileError with all problems. Which VMs there are only the player
    knows: see `Player.play_file`.
    """
    document = _parse(text, name)
    found = document.get(TABLE)
    entries = cast("list[object]", found) if isinstance(found, list) else []
    problems = [
        Problem(
            file=name,
            line=Lines(text).root(key),
            key=key,
            message=f"is no table of this file{did_you_mean(key, [TABLE])}",
        )
        for key in document
        if key != TABLE
    ]
    if not isinstance(found, list) and not problems:
        message = "has no [[fault]] table"
        problems.append(Problem(file=name, line=0, key="", message=message))
    read = read_tables(entries)
    for at, problem in read.problems:
        line = Lines(text).key(TABLE, at, problem.key)
        key = f"{TABLE}.{problem.key}" if problem.key else TABLE
        problems.append(Problem(file=name, line=line, key=key, message=problem.message))
    if problems:
        raise FaultFileError(problems)
    lines = Lines(text)
    return tuple(
        replace(playbook, file=name, line=lines.key(TABLE, at, "vm"))
        for at, playbook in enumerate(read.playbooks)
    )


class ReadTables:
    """What tables play, and what is wrong with which of them."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.playbooks: list[Playbook] = []
        self.problems: list[tuple[int, FaultError]] = []


def read_tables(entries: Sequence[object]) -> ReadTables:
    """Return what `[[fault]]` tables mean, also those inside another file."""
    read = ReadTables()
    for at, entry in enumerate(entries):
        try:
            read.playbooks.append(read_table(entry))
        except FaultError as error:
            read.problems.append((at, error))
    return read


def read_table(entry: object) -> Playbook:
    """Return what one table plays; raises FaultError with the key."""
    if not isinstance(entry, Mapping):
        raise FaultError("must be a table: [[fault]]")
    table = cast("Mapping[str, Any]", entry)
    forms = [key for key in _FORMS if key in table]
    if len(forms) != 1:
        known = [*_FORMS, *_SHARED]
        for key in table:
            if key not in known and (near := did_you_mean(key, known)):
                raise FaultError(f"is no key of a fault{near}", key=key)
        raise FaultError(
            "needs one of fault, playbook and kind", key="".join(forms[1:2])
        )
    form = forms[0]
    vms = _vms(table.get("vm", []))
    loops = table.get("loop", False)
    if not isinstance(loops, bool) or (loops and form != "playbook"):
        raise FaultError("must be true or false, for a playbook", key="loop")
    rest = {key: table[key] for key in table if key not in {form, *_SHARED}}
    if form == "kind":
        return Playbook(steps=(_of_keys(table["kind"], rest),), vms=vms)
    if rest:
        key = next(iter(rest))
        near = did_you_mean(key, [*_FORMS, *_SHARED])
        raise FaultError(f"does not belong beside {form}{near}", key=key)
    value = table[form]
    texts = [value] if form == "fault" else value
    if not isinstance(texts, list) or not texts:
        raise FaultError("must be a list of faults", key=form)
    lines = cast("list[Any]", texts)
    if not all(isinstance(line, str) for line in lines):
        raise FaultError('must be text, such as "500 x2"', key=form)
    try:
        if form == "fault":
            return syntax.parse_playbook(value, vms=vms)
        return syntax.playbook(lines, vms=vms, loops=loops)
    except FaultError as error:
        # The key that was at fault is inside the text of this one.
        raise FaultError(error.message, key=form) from None


def _vms(value: Any) -> tuple[str, ...]:
    names: list[Any] = [value] if isinstance(value, str) else value
    if not isinstance(value, str | list) or not all(
        isinstance(each, str) and each for each in names
    ):
        raise FaultError("must be the name of a VM, or a list of names", key="vm")
    return tuple(names)


def _of_keys(kind: Any, rest: Mapping[str, Any]) -> Fault:
    given = {"kind": _text("kind", kind)}
    own = {key: rest[key] for key in rest if key in _REPLACE}
    for key, value in rest.items():
        if key not in own:
            given[key] = _text(key, value)
    if given["kind"] != "replace":
        for key in own:
            raise FaultError('belongs to kind = "replace" only', key=key)
        return syntax.build(given)
    return replace(syntax.build(given), replacement=_replacement(own))


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise FaultError("must be text or a whole number", key=key)


def _replacement(own: Mapping[str, Any]) -> Replacement:
    status = own.get("status", 200)
    if status not in _STATUSES:
        raise FaultError("must be a status of HTTP, from 200 on", key="status")
    headers: Any = own.get("headers", {})
    if not isinstance(headers, Mapping):
        raise FaultError("must be a table of texts", key="headers")
    pairs: list[tuple[str, str]] = []
    for name, value in cast("Mapping[str, Any]", headers).items():
        if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
            raise FaultError(f"{quoted(name)} cannot be set", key="headers")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise FaultError(f"{quoted(name)} must be plain text", key="headers")
        pairs.append((name, value))
    body = own.get("body", "")
    if not isinstance(body, str) or len(body.encode()) > BODY_MAX:
        raise FaultError(f"must be text of at most {BODY_MAX} bytes", key="body")
    kind = own.get("content_type", Replacement().content_type)
    if not isinstance(kind, str) or not _VALUE.fullmatch(kind):
        raise FaultError("must be plain text", key="content_type")
    return Replacement(
        status=status, headers=tuple(pairs), body=body.encode(), content_type=kind
    )


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return toml.loads(text)
    except (ValueError, RecursionError) as error:
        raise FaultFileError([not_toml(error, file=name, text=text)]) from None
