"""The effect of a request with `--dry-run`, as the service counts it."""

from collections.abc import Mapping

from forewarn.cli import output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call
from forewarn.problems import listed
from forewarn.texts import count

HOSTS_SHOWN = 4
"""Maximum hosts to which VMs would go that are named: they are on one line."""

_EFFECTS: Mapping[str, str] = {
    "cancelled": "would be cancelled without impact",
    "continues": "would continue: what has started is not stopped",
    "approved": "would be approved",
    "started": "would be started at once",
    "announced": "would be announced now",
    "planned": "would be planned, and announced later",
    "ended": "would be ended",
    "held": "would be held",
    "freed": "would be held no longer",
}
"""The sentence about each kind of effect, in the order in which they are shown."""


def send(call: Call, path: str, body: Mapping[str, object]) -> int:
    """Send a request as a dry run, and print what it would do."""
    effect = Client.of(call).post(path, {**body, "dry_run": True}, is_question=True)
    return output.shown(call, effect, show)


def show(effect: Json) -> None:
    """Print what a request would do; its refusals are not printed."""
    output.line("nothing was changed: this was a dry run")
    if not effect["effect"]:
        output.line("no operation is concerned")
    for kind, sentence in _EFFECTS.items():
        if part := effect["effect"].get(kind):
            output.line(f"{_amount(kind, part)} {sentence}")
    if hosts := sorted({move["to_host"] for move in effect["moves"]}):
        output.line(f"VMs would go to {listed(hosts, HOSTS_SHOWN)}")
    if effect["waiting_hosts"]:
        output.line(f"{count(effect['waiting_hosts'], 'host')} not announced yet")
    if effect["at_least"]:
        output.line("more is concerned: these are the first of very many operations")


def _amount(kind: str, part: Json) -> str:
    """Return how much is concerned, such as `2 hosts (30 VMs of 3 tenants)`.

    Approvals are about events, and the rest is about hosts or VMs. A tenant gets only
    the numbers of its own VMs and events.
    """
    of = f" of {count(part['tenants'], 'tenant')}" if part.get("tenants") else ""
    vms = f"{count(part['vms'], 'VM')}{of}" if part["vms"] else ""
    first = ""
    if kind == "approved" and part["events"]:
        first = count(part["events"], "event")
    elif part.get("hosts"):
        first = count(part["hosts"], "host")
    if first and vms:
        return f"{first} ({vms})"
    return first or vms or count(part.get("operations", part["events"]), "operation")
