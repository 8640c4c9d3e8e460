"""Selectors on the command line: filters of lists, and targets of requests."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from forewarn.cli import files
from forewarn.cli.client import PAGE, Client, Json, part
from forewarn.cli.command_table import SELECTORS, Call, CommandError, Exit
from forewarn.problems import NAMES_LISTED_MAX, listed
from forewarn.verbs.model import Answer, Entry, Kind

T = TypeVar("T")

KEYS = tuple(option.key for option in SELECTORS)


def selectors(call: Call, *more: str) -> dict[str, str]:
    """Return the selectors that were given, and other options of these names."""
    return call.given(*more, *KEYS)


def names_of_file(call: Call) -> frozenset[str] | None:
    """Return the names in the file of `--file`; None without one."""
    return frozenset(lines_of_file(call)) if call.text("file") else None


def lines_of_file(call: Call) -> list[str]:
    """Return the names in the file of `--file`, in its order.

    Raises CommandError for a file without names: an empty file must not select
    everything, or silently nothing.
    """
    if not (file := call.text("file")):
        return []
    text, shown = files.read_text(file)
    names = [name for line in text.splitlines() if (name := line.strip())]
    if not names:
        raise CommandError(
            Exit.USAGE,
            f"{shown} has no names",
            hint="Write one name on each line.",
        )
    return names


def named(
    call: Call,
    client: Client,
    found: Iterable[T],
    names: frozenset[str] | None,
    *,
    about: Callable[[T], Any] = lambda each: each,
) -> list[T]:
    """Return the objects of a list that have one of the names; None: all objects.

    `about` returns JSON with the names of an object. Raises CommandError if a name is in
    no object and does not exist: a selector with this name is refused too.
    """
    if names is None:
        return list(found)
    told = [(each, frozenset(_texts(about(each)))) for each in found]
    check_names(call, client, names.difference(*(texts for _, texts in told)))
    return [each for each, texts in told if not names.isdisjoint(texts)]


def check_names(call: Call, client: Client, names: frozenset[str] | None) -> None:
    """Raise CommandError for the first name of the file that does not exist."""
    if not names:
        return
    sections = ("tenants", "scopes", "hosts", "vms")
    fleet = client.whole("fleet", {"limit": PAGE}, *sections)
    in_fleet = {each["name"] for section in sections for each in fleet[section]}
    # The others can be IDs, or names of VMs that were deleted.
    for name in sorted(names - in_fleet):
        try:
            client.get(f"explain/{part(name)}")
        except CommandError as error:
            if error.status is Exit.REFUSED:
                error.message = f"{call.text('file')}: {error.message}"
            raise


def concerns(each: Json, names: frozenset[str] | None) -> bool:
    """Return whether a JSON object has one of the names; None: all objects match."""
    return names is None or not names.isdisjoint(_texts(each))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value.rpartition(":")[2]
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(cast("Json", value).values()))
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _texts(each)


def targets(call: Call, client: Client, entry: Entry) -> list[str]:
    """Return the targets of a request: typed and from a file, or selected.

    Raises CommandError for names together with selectors. A selector narrows a list of
    names in some programs and adds to it in others, and a mistake would be announced.
    """
    names = [*call.texts(entry.targets.key), *lines_of_file(call)]
    asked = selectors(call)
    if names and asked:
        raise CommandError(
            Exit.USAGE,
            f"{entry.command} takes names or selectors, not both: {listed(names)} and "
            f"{_typed(asked)}",
            hint="Leave out the selectors, or the names and --file.",
        )
    if asked:
        names = _selected(call, client, entry, asked)
        if not names:
            raise CommandError(
                Exit.REFUSED, f"nothing to {entry.command} matches {_typed(asked)}"
            )
    if not names:
        what = entry.targets.kind.value
        raise CommandError(
            Exit.USAGE,
            f"{entry.command} needs a name or a selector",
            hint=f"Give at least one {what}, a selector such as --scope, or --file.",
        )
    return names


def _typed(asked: Mapping[str, str]) -> str:
    """Return selectors as they are typed."""
    return " ".join(f"--{key} {value}" for key, value in asked.items())


def _selected(
    call: Call, client: Client, entry: Entry, asked: dict[str, str]
) -> list[str]:
    if entry.targets.kind is Kind.WORK:
        found = client.every("operations", "operations", asked)
        return [each["operation"] for each in found if each["state"] in _UNSTARTED]
    if entry.targets.kind is Kind.EVENT:
        events = client.every("events", "events", {**asked, "state": "scheduled"})
        return [each["EventId"] for each in events if not each["approved_by"]]
    are_hosts = entry.targets.kind is Kind.HOST or call.text("kind") == "host"
    section = "hosts" if are_hosts else "vms"
    states = _STATES.get(entry.name, _PRESENT)
    fleet = client.whole("fleet", {"limit": PAGE, "after": "hosts:", **asked}, *_PLACES)
    found = [each for each in fleet[section] if each["state"] in states]
    if entry.targets.kind is Kind.SCOPE:
        return list(dict.fromkeys(each["scope"] for each in found))
    if entry.answer is Answer.RESTORED and not are_hosts and found:
        _refuse_vms_of_hosts(found, fleet["hosts"], asked)
    return [each["name"] for each in found]


def _refuse_vms_of_hosts(
    vms: Iterable[Json], hosts: Iterable[Json], asked: Mapping[str, str]
) -> None:
    """Raise CommandError if all selected VMs are down with their hosts: each would be
    refused for this reason."""
    down = {each["name"] for each in hosts if each["state"] == "down"}
    with_host = sorted({each["host"] for each in vms})
    if down.issuperset(with_host):
        raise CommandError(
            Exit.REFUSED,
            f"all VMs that are down and match {_typed(asked)} are on hosts that are "
            f"down: {listed(with_host)}",
            hint=f"Run `forewarn restore {' '.join(with_host[:NAMES_LISTED_MAX])}` to "
            "restore the hosts with their VMs.",
        )


_PLACES = ("hosts", "vms")
"""The last sections of the fleet, in the order of its pages."""


_UNSTARTED = frozenset({"Planned", "Announced", "Ready"})

_PRESENT = frozenset({"up", "running", "down"})

_STATES: Mapping[str, frozenset[str]] = {
    "fail": _PRESENT - {"down"},
    "restore": frozenset({"down"}),
}
"""States of hosts and VMs to which a request applies."""
