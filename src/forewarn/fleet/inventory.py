"""Read an inventory: JSON from a program in, the desired fleet out.

`docs/reference/inventory.md` describes the format. An inventory is one object with lists
of objects, whose members are the keys of the fleet file. It is read by the reader of fleet
files, so both have the same keys, forms and rules. A member that is null counts as absent,
because programs write null for values that they do not know. A problem has the place of
its entry as a path for `jq`, such as `.vms[17]`.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NoReturn, cast

from forewarn.fleet.errors import FilePlaces, FleetFileError, Kind, Spot
from forewarn.fleet.export import export_tables
from forewarn.fleet.file import DraftReader, WantedFleet, read_drafts
from forewarn.problems import Problem, did_you_mean, listed, quoted
from forewarn.settings.forms import what
from forewarn.texts import readable

LISTS: Mapping[str, Kind] = {
    "tenants": Kind.TENANT,
    "scopes": Kind.SCOPE,
    "hosts": Kind.HOST,
    "vms": Kind.VM,
}
"""The members of an inventory, and the objects in each."""

UNKNOWN_HOSTS = "unknown_hosts"
"""The member with texts about hosts that the program could not read."""

NEEDED = ("hosts", "vms")
"""Members without which an inventory is refused: a program that has failed often prints
an empty object."""


DIGITS_MAX = 20
"""Maximum digits of a number: the largest of a computer, of 64 bits, has 20. The time to
read a number grows faster than its digits, and Python refuses some thousand of them."""

_TEXT_OR_NUMBER = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?P<digits>[0-9]+)(?:\.[0-9]+)?(?:[Ee][+-]?[0-9]+)?'
)


class InventoryError(FleetFileError):
    """An inventory is invalid, and nothing was changed."""

    advice = "Fix the output of the program. Nothing was changed."


class _JsonPlaces(FilePlaces):
    """Finds places in JSON, as paths: the text is often one line."""

    def root(self, name: str) -> Spot:
        """Return the place of the entry that contains a member, such as `vm.18.host`."""
        kind, _, rest = name.partition(".")
        index, _, _ = rest.partition(".")
        path = f".{_LIST_OF[kind]}[{int(index) - 1}]"
        return Spot(file=f"{super().root(name).file}: {path}")


_LIST_OF = {kind.value: name for name, kind in LISTS.items()}


def read_inventory(text: str, *, name: str) -> WantedFleet:
    """Return the fleet that an inventory describes; `name` is for messages.

    Raises InventoryError with all problems.
    """
    parsed = _object(text, name)
    unknown_hosts = _unknown_hosts(parsed.pop(UNKNOWN_HOSTS, None), name)
    reader = DraftReader(_tables(parsed, name), text="", file=name, places=_JsonPlaces)
    wanted = read_drafts(reader, refusal=InventoryError)
    return replace(wanted, unknown_hosts=unknown_hosts)


def _unknown_hosts(value: object, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    texts = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(text, str) and text for text in texts):
        message = "must be a list of texts, one for each host that was not read"
        raise InventoryError([_problem(name, f".{UNKNOWN_HOSTS}", message)])
    return tuple(readable(str(text)) for text in texts)


def fleet_file(wanted: WantedFleet) -> str:
    """Return the text of a fleet file with these objects.

    Equal objects give equal text, whatever their order in the inventory.
    """
    return "".join(
        export_tables(
            wanted.tenants.values(),
            wanted.scopes.values(),
            wanted.hosts.values(),
            sorted(wanted.vms.values(), key=attrgetter("name")),
        )
    )


def _tables(parsed: Mapping[str, object], name: str) -> dict[str, object]:
    """Return the lists of an inventory as the tables of a fleet file."""
    members = (*LISTS, UNKNOWN_HOSTS)
    problems = [
        Problem(
            file=name,
            line=0,
            key=quoted(key),
            message=f"there is no such member; members are {listed(members)}"
            + did_you_mean(key, members),
        )
        for key in parsed
        if key not in LISTS
    ]
    tables: dict[str, object] = {}
    for key, kind in LISTS.items():
        entries = parsed.get(key)
        if entries is None:
            if key in NEEDED:
                problems.append(_problem(name, f".{key}", "is missing"))
        elif not isinstance(entries, list):
            message = f"must be a list of objects, not {what(entries)}"
            problems.append(_problem(name, f".{key}", message))
        else:
            tables[kind.value] = rows = cast("list[object]", entries)
            problems += (
                _problem(
                    name, f".{key}[{index}]", f"must be an object, not {what(entry)}"
                )
                for index, entry in enumerate(rows)
                if not isinstance(entry, dict)
            )
    if problems:
        raise InventoryError(problems)
    return tables


def _problem(name: str, path: str, message: str) -> Problem:
    return Problem(file=f"{name}: {path}", line=0, key="", message=message)


def _object(text: str, name: str) -> dict[str, object]:
    """Return the object that the text is, without members that are null."""
    line = 0
    try:
        value: object = json.loads(
            text,
            object_pairs_hook=_members,
            parse_constant=_refuse,
            parse_int=_whole_number,
        )
    except json.JSONDecodeError as error:
        line = error.lineno
        message = f"this is not JSON: {error.msg}, in column {error.colno}"
        if not text.strip():
            line, message = 0, "is empty, but must be a JSON object"
    except _LongNumberError:
        line, message = _long_number(text)
    except ValueError as error:
        message = f"this is not JSON: {error}"
    except RecursionError:
        message = "lists or objects are nested too deeply"
    else:
        if isinstance(value, dict):
            return cast("dict[str, object]", value)
        message = f"must be a JSON object, not {what(value)}"
    raise InventoryError([Problem(file=name, line=line, key="", message=message)])


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = Counter(key for key, _ in pairs)
        twice = next(key for key, times in names.items() if times > 1)
        raise ValueError(f"an object has the member {quoted(twice)} twice")
    return {key: value for key, value in members.items() if value is not None}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


class _LongNumberError(ValueError):
    """A number has too many digits."""


def _whole_number(digits: str) -> int:
    if len(digits.removeprefix("-")) > DIGITS_MAX:
        raise _LongNumberError
    return int(digits)


def _long_number(text: str) -> tuple[int, str]:
    """Return the line of the first number with too many digits, and a message."""
    number = next(
        match
        for match in _TEXT_OR_NUMBER.finditer(text)
        if len(match["digits"] or "") > DIGITS_MAX and match["digits"] == match[0]
    )
    column = number.start() - text.rfind("\n", 0, number.start())
    return text.count("\n", 0, number.start()) + 1, (
        f"a number has {len(number[0])} digits, in column {column}; "
        f"the maximum is {DIGITS_MAX}"
    )
