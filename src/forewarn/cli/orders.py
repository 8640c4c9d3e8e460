"""The orders: each is one POST, and what it made is printed with what to try next."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.cli.failure import Exit
from forewarn.cli.listings import FAILURE, what
from forewarn.cli.made import print_made, print_next
from forewarn.cli.times import with_offset

Json = Mapping[str, Any]


def order(call: Call) -> int:
    """Give an order about VMs."""
    return _give(call, _wishes(call, vms=call.texts("vm")), partial(print_made, call))


def maintain(call: Call) -> int:
    """Maintain hosts."""
    body = _wishes(call, hosts=call.texts("host"), impact=call.text("impact"))
    if duration := call.text("duration"):
        body["duration"] = duration
    if at_once := call.text("at_once"):
        body["at_once"] = _count(at_once)
    if call.flag("emergency"):
        body["emergency"] = True
    return _give(call, body, partial(print_made, call))


def _count(text: str) -> int | str:
    """Return the number; what is none is left for the service to refuse."""
    return int(text) if text.isascii() and text.isdigit() else text


def predict_failure(call: Call) -> int:
    """Announce that a host will fail."""
    body = _wishes(call, host=call.text("host"))
    if ahead := call.text("in"):
        body["in"] = ahead
    return _give(call, body, partial(print_made, call))


def fail(call: Call) -> int:
    """Say that a host or VM is down."""
    return _give(call, _target(call), partial(print_made, call))


def restore(call: Call) -> int:
    """Say that a host or VM is up again."""

    def show(told: Json) -> None:
        output.line(f"{told['kind']} {told['name']} is {told['state']}")

    return _give(call, _target(call), show)


def cancel(call: Call) -> int:
    """Cancel what has not started."""

    def show(told: Json) -> None:
        for each in told["cancelled"]:
            output.line(f"{each['operation']} is cancelled: {what(each)}")

    return _give(call, _body(call, name=call.text("id")), show)


def approve(call: Call) -> int:
    """Approve an event."""

    def show(told: Json) -> None:
        output.line(f"event {told['EventId']} {_approval(told)}")
        print_next(told["operation"])

    body = _body(call, event_id=call.text("event"))
    if vm := call.text("as"):
        body["as_vm"] = vm
    return _give(call, body, show)


def _approval(event: Json) -> str:
    """Return what an event is, now that somebody has wanted to approve it.

    An approval that comes too late is taken without a word, and changes nothing.
    """
    if event["approved_by"] == FAILURE:
        return "tells of a failure: nobody is asked, the approval changes nothing"
    if event["approved_by"]:
        return f"is approved by {event['approved_by']}"
    if event["EventStatus"] == "Started":
        standing = "has started unapproved"
    elif event["outcome"] == "cancelled":
        standing = "was cancelled"
    else:
        standing = f"is over ({event['outcome']}), and nobody approved it"
    return f"{standing}: the approval changes nothing"


def resolve(call: Call) -> int:
    """Say how an operation ended that nobody knows of."""

    def show(told: Json) -> None:
        output.line(f"{told['operation']} is {told['state']}: {what(told)}")

    body = _body(call, operation=call.text("operation"), outcome=call.text("outcome"))
    if down := call.texts("down"):
        body["down"] = down
    return _give(call, body, show)


def _give(call: Call, body: Json, show: Callable[[Json], None]) -> int:
    with Client.of(call) as client:
        told = client.post(call.command.name, body)
    if call.flag("json"):
        output.document(told)
    else:
        show(told)
    return Exit.DONE


def _body(call: Call, **members: Any) -> dict[str, Any]:
    if reason := call.text("reason"):
        members["reason"] = reason
    return members


def _wishes(call: Call, **members: Any) -> dict[str, Any]:
    if not_before := call.text("not_before"):
        members["not_before"] = with_offset(not_before)
    if getattr(call.arguments, "description", None) is not None:
        members["description"] = call.text("description")
    return _body(call, **members)


def _target(call: Call) -> dict[str, Any]:
    body = _body(call, name=call.text("name"))
    if kind := call.text("kind"):
        body["kind"] = kind
    return body
