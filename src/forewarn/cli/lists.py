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
    """List rollouts, or watch them."""
    client, names = Client.of(call), names_of_file(call)

    def read() -> list[Json]:
        return _objects(call, client, ROLLOUTS, names)

    if call.flag("watch"):
        return watch(call, ROLLOUTS, {}, read=read)
    return show(call, ROLLOUTS, read())


def _list(call: Call, listing: Listing) -> int:
    client, names = Client.of(call), names_of_file(call)
    if call.flag("watch"):
        check_names(call, client, names)
        return watch(call, listing, filters(call), names)
    return show(call, listing, _objects(call, client, listing, names))


def _objects(
    call: Call, client: Client, listing: Listing, names: frozenset[str] | None
) -> list[Json]:
    every = client.every(listing.path, listing.path, filters(call, ended=True))
    about = _about_rollout(client) if listing is ROLLOUTS else _itself
    return listing.sorted(named(call, client, every, names, about=about))


def _itself(object_: Json) -> Json:
    return object_


def _about_rollout(client: Client) -> Callable[[Json], Any]:
    """Return a function that adds the operations of a rollout, since only these name its
    hosts and VMs."""

    def about(object_: Json) -> Any:
        query = {"rollout": object_["rollout"], "all": "true"}
        return [object_, *client.every("operations", "operations", query)]

    return about


def rollout(call: Call) -> int:
    """Show one rollout with its operations."""
    name = call.text("rollout")
    client = Client.of(call)
    rollout_ = client.get(f"rollouts/{part(name)}")
    operations = OPERATIONS.sorted(
        client.every("operations", "operations", {"rollout": name, "all": "true"})
    )
    if call.flag("json"):
        output.document({**rollout_, "operations": operations})
        return Exit.DONE
    bound = f", at most {rollout_['at_once']} at once" if rollout_["at_once"] else ""
    why = f": {rollout_['reason']}" if rollout_["reason"] else ""
    output.line(
        f"{rollout_['rollout']}, {rollout_['kind']}: {rollout_['state']}{bound}"
    )
    output.line(f"ordered by {rollout_['actor']} at {rollout_['created']}{why}")
    output.line()
    return show(call, OPERATIONS, operations)


def show(
    call: Call,
    listing: Listing,
    objects: Sequence[Json],
    *,
    rows_max: int | None = None,
) -> Exit:
    """Print objects of a list: the first `rows_max`, and the sums of all."""
    return output.listed(
        call,
        objects,
        listing.empty,
        listing.columns,
        map(listing.row, objects[:rows_max]),
        listing.summary(objects),
        essential=listing.essential,
    )


def filters(call: Call, *, ended: bool = False) -> dict[str, str]:
    """Return the filters of a list; with `ended`, include ended objects if asked
    for."""
    query = selectors(call, "vm", "rollout", "state")
    if ended and (call.flag("all") or call.text("state") in _ENDED_STATES):
        query["all"] = "true"
    return query
