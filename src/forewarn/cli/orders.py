"""The requests: each is one POST, and its result is printed with the next command."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from forewarn.cli import dry_runs, output
from forewarn.cli.api_errors import REFUSALS_MAX, refusal
from forewarn.cli.blackouts import wide_blackout_lines
from forewarn.cli.campaigns import show_campaign
from forewarn.cli.choices import choice_line
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call, Exit
from forewarn.cli.listings import OPERATIONS, cordons_of, what
from forewarn.cli.lists import show
from forewarn.cli.selecting import campaign_hosts, selectors, targets
from forewarn.cli.times import with_offset
from forewarn.cli.windows import windows_line
from forewarn.texts import count
from forewarn.verbs.arguments import REASON
from forewarn.verbs.campaign_terms import HOSTS
from forewarn.verbs.model import Answer, Argument, Entry, Form, Kind
from forewarn.verbs.table import VERBS

SHOWN_MAX = 20
"""Maximum operations, events or targets of a result that are printed, so that all kinds
of lines fit on one screen or two; `--json` is complete."""

_VM_COLUMNS = ("VM", "EVENT", "STATUS", "SCOPE", "TENANT", "OPERATION")


def order(call: Call) -> int:
    """Send a request of the table of verbs."""
    entry = VERBS[call.command.verb]
    client = Client.of(call)
    is_dry_run = call.flag("dry_run")
    answer = client.post(entry.name, _body(call, client, entry), is_question=is_dry_run)
    if call.flag("json"):
        output.document(answer)
    elif is_dry_run:
        dry_runs.show(answer)
    else:
        SHOWN[entry.answer](call, answer)
    refused = answer.get("refused", ())
    for refusal_ in refused[:REFUSALS_MAX]:
        output.problem(refusal(refusal_), hint=refusal_["hint"])
    if more := len(refused[REFUSALS_MAX:]):
        output.problem(f"and {count(more, 'more target')} refused")
    return Exit.FAILED if refused else Exit.DONE


def _print_first(lines: Sequence[str], noun: str) -> None:
    """Print the first lines of a result, and the number of the others."""
    for line in lines[:SHOWN_MAX]:
        output.line(line)
    if more := len(lines[SHOWN_MAX:]):
        output.line(f"and {count(more, f'more {noun}')}")


def _body(call: Call, client: Client, entry: Entry) -> dict[str, Any]:
    """Return the body of a request."""
    key = entry.targets.key
    body: dict[str, Any] = {
        key: targets(call, client, entry) if entry.targets.is_list else call.text(key)
    }
    if entry.targets.kind in {Kind.EITHER, Kind.VM_OR_SCOPE} and selectors(call):
        # A host or a scope can have the name of a selected VM.
        body["kind"] = "vm"
    for argument in (*entry.arguments, REASON):
        key = argument.name.lstrip("-").replace("-", "_")
        value = getattr(call.arguments, key, None)
        if value is not None and (value or argument.key == "description"):
            body[argument.key] = _value(argument, value)
    if HOSTS in {argument.key for argument in entry.arguments} and (
        hosts := campaign_hosts(call, client, entry)
    ):
        body[HOSTS] = hosts
    return {**body, **call.given("revision"), **call.flags("dry_run")}


def _value(argument: Argument, value: Any) -> Any:
    """Return a value for the body; the service reports invalid values."""
    if argument.form is Form.MOMENT:
        return with_offset(value)
    is_number = isinstance(value, str) and value.isascii() and value.isdigit()
    return int(value) if argument.form is Form.COUNT and is_number else value


def _print_restored(_call: Call, answer: Json) -> None:
    lines = [
        f"{target['kind']} {target['name']} is {target['state']}"
        for target in answer["restored"]
    ]
    _print_first(lines, "target")


def _print_cancelled(_call: Call, answer: Json) -> None:
    lines = [
        f"{cancellation['operation']} is cancelled: {what(cancellation)}"
        for cancellation in answer["cancelled"]
    ]
    _print_first(lines, "operation")


def _print_approved(_call: Call, answer: Json) -> None:
    lines = [
        f"event {approved['EventId']} {_approval(approved)}"
        for approved in answer["approved"]
    ]
    _print_first(lines, "event")
    for event in answer["approved"][:1]:
        _print_next(event["operation"])


def _approval(event: Json) -> str:
    """Return the state of an event after an approval.

    An approval that comes too late is accepted without an error, and changes nothing.
    """
    if not event["needs_approval"]:
        return (
            "reports a failure, which needs no approval: the approval changes nothing"
        )
    if event["approved_by"]:
        return f"is approved by {event['approved_by']}"
    if event["EventStatus"] == "Started":
        standing = "has started without approval"
    elif event["outcome"] == "cancelled":
        standing = "was cancelled"
    else:
        standing = f"ended without approval ({event['outcome']})"
    return f"{standing}: the approval changes nothing"


def _print_made(call: Call, request: Json) -> None:
    """Print a request; with --all every operation, and a row for each VM with its
    event."""
    operations = request["operations"]
    word = "rollout" if request["rollout"] else "request"
    output.line(f"{request['kind']}: {word} {request['request']}")
    with_all = call.flag("all")
    show(call, OPERATIONS, operations, rows_max=None if with_all else SHOWN_MAX)
    if not with_all and (more := len(operations[SHOWN_MAX:])):
        output.line(
            f"and {count(more, 'more operation')}: "
            f"forewarn operations --rollout {request['request']}"
        )
    if with_all:
        output.line()
        output.table(
            "it has no VMs",
            _VM_COLUMNS,
            [row for operation in operations for row in _vm_rows(operation)],
        )
    silent = [
        operation
        for operation in operations
        if operation["state"] != "Planned" and not operation["events"]
    ]
    if silent:
        which = f" for {count(len(silent), 'operation')}" if len(operations) > 1 else ""
        output.line(f"no event{which}, so no VM gets notice")
        if why := VERBS[request["kind"]].without_notice:
            output.line(f"  {why}")
    if operations:
        _print_next(operations[0]["operation"])
    if len(operations) > 1 and request["rollout"]:
        output.line(f"next: forewarn operations --rollout {request['rollout']} --watch")


def _print_next(operation: str) -> None:
    """Print the command that explains why an operation waits."""
    output.line(f"next: forewarn explain {operation}")


def _vm_rows(operation: Json) -> Iterator[tuple[str, ...]]:
    names: set[str] = set()
    for event in operation["events"]:
        for name in event["resources"]:
            names.add(name)
            yield (
                name,
                event["EventId"],
                event["status"],
                event["scope"],
                event["tenant"],
                operation["operation"],
            )
    for move in operation["moves"]:
        if move["vm"] not in names:
            yield move["vm"], "-", "-", "-", "-", operation["operation"]


def _print_choices(_call: Call, answer: Json) -> None:
    _print_first([choice_line(deferral) for deferral in answer["deferrals"]], "target")


def _print_scopes(_call: Call, answer: Json) -> None:
    _print_first([windows_line(scope) for scope in answer["scopes"]], "scope")


def _print_blackouts(_call: Call, answer: Json) -> None:
    for line in wide_blackout_lines(answer):
        output.line(line)


def _print_hosts(_call: Call, answer: Json) -> None:
    lines = [
        f"host {host['name']} is "
        + (f"cordoned by {cordons_of(host)}" if host["cordons"] else "open")
        for host in answer["hosts"]
    ]
    _print_first(lines, "host")


SHOWN: Mapping[Answer, Callable[[Call, Json], None]] = {
    Answer.REQUEST: _print_made,
    Answer.RESTORED: _print_restored,
    Answer.CANCELLED: _print_cancelled,
    Answer.APPROVED: _print_approved,
    Answer.HOSTS: _print_hosts,
    Answer.CHOICES: _print_choices,
    Answer.SCOPES: _print_scopes,
    Answer.CAMPAIGN: lambda _, answer: show_campaign(answer),
    Answer.CAMPAIGN_HOSTS: lambda _, answer: show_campaign(answer),
    Answer.BLACKOUTS: _print_blackouts,
    Answer.OPERATION: lambda _, answer: output.line(
        f"{answer['operation']} is {answer['state']}: {what(answer)}"
    ),
}
"""The functions that print the result of a request."""
