"""`operations`, `events` and `rollout`: tables for people, JSON for programs."""

from collections.abc import Callable, Sequence
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client, Json, part
from forewarn.cli.command_table import Call, Exit
from forewarn.cli.listings import EVENTS, OPERATIONS, ROLLOUTS, Listing
from forewarn.cli.selecting import check_names, named, names_of_file, selectors
from forewarn.cli.watching import watch

_ENDED_STATES = frozenset({"done", "cancelled", "failed", "removed"})


def operations(call: Call) -> int:
    """List operations, or watch them."""
    return _list(call, OPERATIONS)


def events(call: Call) -> int:
    """List events, or watch them."""
    return _list(call, EVENTS)


def rollouts(call: Call) -> int:
    """List rollouts."""
    return _list(call, ROLLOUTS)


def _list(call: Call, listing: Listing) -> int:
    names = names_of_file(call)
    if call.flag("watch"):
        check_names(call, Client.of(call), names)
        return watch(call, listing, filters(call), names)
    client = Client.of(call)
    every = client.every(listing.path, listing.path, filters(call, ended=True))
    about = _about_rollout(client) if listing is ROLLOUTS else _itself
    found = named(call, client, every, names, about=about)
    return show(call, listing, listing.sorted(found))


def _itself(each: Json) -> Json:
    return each


def _about_rollout(client: Client) -> Callable[[Json], Any]:
    """Return a function that adds the operations of a rollout, since only these name its
    hosts and VMs."""

    def about(each: Json) -> Any:
        asked = {"rollout": each["rollout"], "all": "true"}
        return [each, *client.every("operations", "operations", asked)]

    return about


def rollout(call: Call) -> int:
    """Show one rollout with its operations."""
    name = call.text("rollout")
    client = Client.of(call)
    told = client.get(f"rollouts/{part(name)}")
    found = OPERATIONS.sorted(
        client.every("operations", "operations", {"rollout": name, "all": "true"})
    )
    if call.flag("json"):
        output.document({**told, "operations": found})
        return Exit.DONE
    bound = f", at most {told['at_once']} at once" if told["at_once"] else ""
    why = f": {told['reason']}" if told["reason"] else ""
    output.line(f"{told['rollout']}, {told['kind']}: {told['state']}{bound}")
    output.line(f"ordered by {told['actor']} at {told['created']}{why}")
    output.line()
    return show(call, OPERATIONS, found)


def show(
    call: Call, listing: Listing, found: Sequence[Json], *, rows_max: int | None = None
) -> Exit:
    """Print objects of a list: the first `rows_max`, and the sums of all."""
    return output.listed(
        call,
        found,
        listing.empty,
        listing.columns,
        map(listing.row, found[:rows_max]),
        listing.summary(found),
        essential=listing.essential,
    )


def filters(call: Call, *, ended: bool = False) -> dict[str, str]:
    """Return the filters of a list; with `ended`, include ended objects if asked
    for."""
    asked = selectors(call, "vm", "rollout", "state")
    if ended and (call.flag("all") or call.text("state") in _ENDED_STATES):
        asked["all"] = "true"
    return asked
