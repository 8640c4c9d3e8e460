"""Selectors on the command line: filters of lists, and targets of requests."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from forewarn.cli import files, suitable
from forewarn.cli.client import PAGE, Client, Json, part
from forewarn.cli.command_table import SELECTORS, Call, CommandError, Exit
from forewarn.problems import NAMES_LISTED_MAX, listed
from forewarn.verbs.campaign_terms import HOSTS
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
    about: Callable[[T], Any] = lambda object_: object_,
) -> list[T]:
    """Return the objects of a list that have one of the names; None: all objects.

    `about` returns JSON with the names of an object. Raises CommandError if a name is in
    no object and does not exist: a selector with this name is refused too.
    """
    if names is None:
        return list(objects)
    with_texts = [(object_, frozenset(_texts(about(object_)))) for object_ in objects]
    check_names(call, client, names.difference(*(texts for _, texts in with_texts)))
    return [object_ for object_, texts in with_texts if not names.isdisjoint(texts)]


def check_names(call: Call, client: Client, names: frozenset[str] | None) -> None:
    """Raise CommandError for the first name of the file that does not exist."""
    if not names:
        return
    sections = ("tenants", "scopes", "hosts", "vms")
    fleet = client.whole("fleet", {"limit": PAGE}, *sections)
    in_fleet = {row["name"] for section in sections for row in fleet[section]}
    # The others can be IDs, or names of VMs that were deleted.
    for name in sorted(names - in_fleet):
        try:
            client.get(f"explain/{part(name)}")
        except CommandError as error:
            if error.status is Exit.REFUSED:
                error.message = f"{call.text('file')}: {error.message}"
            raise


def concerns(object_: Json, names: frozenset[str] | None) -> bool:
    """Return whether a JSON object has one of the names; None: all objects match."""
    return names is None or not names.isdisjoint(_texts(object_))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value.rpartition(":")[2]
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(cast("Json", value).values()))
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item)


def targets(call: Call, client: Client, entry: Entry) -> list[str]:
    """Return the targets of a request: typed and from a file, or selected.

    Raises CommandError for names together with selectors. A selector narrows a list of
    names in some programs and adds to it in others, and a mistake would be announced.
    """
    names, selection = _named_or_selected(call, entry, entry.targets.key)
    if selection:
        names = _checked(_selected(call, client, entry, selection), entry, selection)
    if not names:
        raise _unnamed(entry, entry.targets.kind.value)
    return names


def campaign_hosts(call: Call, client: Client, entry: Entry) -> list[str]:
    """Return the hosts of a request about a campaign: typed, from a file, or selected.

    Selectors take only hosts to which the request applies. Empty: there are neither names
    nor selectors, and the request needs none. Raises CommandError as `targets` does.
    """
    names, selection = _named_or_selected(call, entry, HOSTS)
    if not selection:
        (argument,) = (
            argument for argument in entry.arguments if argument.key == HOSTS
        )
        if argument.is_needed and not names:
            raise _unnamed(entry, "host")
        return names
    hosts = [
        host["name"] for host in suitable.hosts_and_vms(client, selection)["hosts"]
    ]
    campaign = client.get(f"campaigns/{part(call.text('campaign'))}")
    failed = {failure["host"] for failure in campaign["failed"]}
    # An operation that was not announced has no VMs yet, so only its host can match.
    by_host = {key: name for key, name in selection.items() if key not in _ABOUT_VMS}
    rollout = {"rollout": campaign["rollout"], **by_host}
    if entry.name == "campaign-add":
        operations = client.every(
            "operations", "operations", {**rollout, "all": "true"}
        )
        members = {
            operation["target"]
            for operation in operations
            if operation["state"] != _SKIPPED
        }
        chosen = set(hosts) - members
    elif entry.name == "campaign-retry":
        chosen = failed | {deferral["host"] for deferral in campaign["deferred"]}
    else:
        operations = client.every("operations", "operations", rollout)
        waiting = {
            operation["target"]
            for operation in operations
            if operation["state"] in suitable.UNSTARTED
        }
        chosen = failed | waiting
    return _checked([host for host in hosts if host in chosen], entry, selection)


def _named_or_selected(
    call: Call, entry: Entry, key: str
) -> tuple[list[str], dict[str, str]]:
    """Return the names, typed and from a file, and the selectors: one is empty."""
    names = [*call.texts(key), *lines_of_file(call)]
    selection = selectors(call, "rollout")
    if names and selection:
        raise CommandError(
            Exit.USAGE,
            f"{entry.command} takes names or selectors, not both: {listed(names)} and "
            f"{_typed(selection)}",
            hint="Leave out the selectors, or the names and --file.",
        )
    return names, selection


def _unnamed(entry: Entry, noun: str) -> CommandError:
    return CommandError(
        Exit.USAGE,
        f"{entry.command} needs a name or a selector",
        hint=f"Give at least one {noun}, a selector such as --scope, or --file.",
    )


def _checked(names: list[str], entry: Entry, selection: Mapping[str, str]) -> list[str]:
    """Return the selected names; raises CommandError if there are none."""
    if not names:
        raise CommandError(
            Exit.REFUSED, f"nothing to {entry.command} matches {_typed(selection)}"
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
        return [
            object_["operation"]
            for object_ in objects
            if object_["state"] in suitable.UNSTARTED
        ]
    if entry.targets.kind is Kind.EVENT:
        events = client.every("events", "events", {**selection, "state": "scheduled"})
        return [event["EventId"] for event in events if not event["approved_by"]]
    wanted = call.text("kind")
    if entry.targets.kind is Kind.SCOPE or wanted == "scope":
        return suitable.scopes(call, client, entry.name, selection)
    are_hosts = entry.targets.kind is Kind.HOST or wanted == "host"
    fleet = suitable.hosts_and_vms(client, selection)
    objects = suitable.suitable(
        call, client, entry.name, selection, fleet["hosts" if are_hosts else "vms"]
    )
    if entry.answer is Answer.RESTORED and not are_hosts and objects:
        _refuse_vms_of_hosts(objects, fleet["hosts"], selection)
    return [object_["name"] for object_ in objects]


def _refuse_vms_of_hosts(
    vms: Iterable[Json], hosts: Iterable[Json], selection: Mapping[str, str]
) -> None:
    """Raise CommandError if all selected VMs are down with their hosts: each would be
    refused for this reason."""
    down = {host["name"] for host in hosts if host["state"] == "down"}
    with_host = sorted({vm["host"] for vm in vms})
    if down.issuperset(with_host):
        raise CommandError(
            Exit.REFUSED,
            f"all VMs that are down and match {_typed(selection)} are on hosts that are "
            f"down: {listed(with_host)}",
            hint=f"Run `forewarn restore {' '.join(with_host[:NAMES_LISTED_MAX])}` to "
            "restore the hosts with their VMs.",
        )


_ABOUT_VMS = frozenset({"scope", "tenant", "tag"})
"""The selectors that match VMs, and hosts by their VMs."""

_SKIPPED = "Cancelled"
"""The state of the operation of a host that a campaign left out: it can be added again."""
