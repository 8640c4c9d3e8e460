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
    objects: Iterable[T],
    names: frozenset[str] | None,
    *,
    about: Callable[[T], Any] = lambda each: each,
) -> list[T]:
    """Return the objects of a list that have one of the names; None: all objects.

    `about` returns JSON with the names of an object. Raises CommandError if a name is in
    no object and does not exist: a selector with this name is refused too.
    """
    if names is None:
        return list(objects)
    with_texts = [(each, frozenset(_texts(about(each)))) for each in objects]
    check_names(call, client, names.difference(*(texts for _, texts in with_texts)))
    return [each for each, texts in with_texts if not names.isdisjoint(texts)]


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
    selection = selectors(call)
    if names and selection:
        raise CommandError(
            Exit.USAGE,
            f"{entry.command} takes names or selectors, not both: {listed(names)} and "
            f"{_typed(selection)}",
            hint="Leave out the selectors, or the names and --file.",
        )
    if selection:
        names = _selected(call, client, entry, selection)
        if not names:
            raise CommandError(
                Exit.REFUSED, f"nothing to {entry.command} matches {_typed(selection)}"
            )
    if not names:
        noun = entry.targets.kind.value
        raise CommandError(
            Exit.USAGE,
            f"{entry.command} needs a name or a selector",
            hint=f"Give at least one {noun}, a selector such as --scope, or --file.",
        )
    return names


def _typed(selection: Mapping[str, str]) -> str:
    """Return selectors as they are typed."""
    return " ".join(f"--{key} {value}" for key, value in selection.items())


def _selected(
    call: Call, client: Client, entry: Entry, selection: dict[str, str]
) -> list[str]:
    if entry.targets.kind is Kind.WORK:
        objects = client.every("operations", "operations", selection)
        return [each["operation"] for each in objects if each["state"] in _UNSTARTED]
    if entry.targets.kind is Kind.EVENT:
        events = client.every("events", "events", {**selection, "state": "scheduled"})
        return [each["EventId"] for each in events if not each["approved_by"]]
    are_hosts = entry.targets.kind is Kind.HOST or call.text("kind") == "host"
    section = "hosts" if are_hosts else "vms"
    states = _STATES.get(entry.name, _PRESENT)
    fleet = client.whole(
        "fleet", {"limit": PAGE, "after": "hosts:", **selection}, *_PLACES
    )
    objects = [each for each in fleet[section] if each["state"] in states]
    if entry.targets.kind is Kind.SCOPE:
        return list(dict.fromkeys(each["scope"] for each in objects))
    if entry.answer is Answer.RESTORED and not are_hosts and objects:
        _refuse_vms_of_hosts(objects, fleet["hosts"], selection)
    return [each["name"] for each in objects]


def _refuse_vms_of_hosts(
    vms: Iterable[Json], hosts: Iterable[Json], selection: Mapping[str, str]
) -> None:
    """Raise CommandError if all selected VMs are down with their hosts: each would be
    refused for this reason."""
    down = {each["name"] for each in hosts if each["state"] == "down"}
    with_host = sorted({each["host"] for each in vms})
    if down.issuperset(with_host):
        raise CommandError(
            Exit.REFUSED,
            f"all VMs that are down and match {_typed(selection)} are on hosts that are "
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
