"""The commands `addresses`: read a plan file and run `nft` and `ip` as root.

forewarn's tables have its name, and its routes and rules have its protocol number. So
the kernel is the only record. Rules are added first and removed last, so that the
service is never reachable without them.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forewarn.addresses import file, model, routing, ruleset
from forewarn.cli import files, tables
from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import read_fleet

PROGRAM_SECONDS_MAX = 30
"""Timeout for a call of `nft` or `ip`, in seconds: each usually takes milliseconds."""

_PACKAGES = {"nft": "nftables", "ip": "iproute2"}
"""The Debian package of each program."""

_SBIN = ":/usr/sbin:/sbin"
"""Their directories, which may be missing in a user's PATH."""


def plan(call: Call) -> int:
    """Print the plan as a shell script."""
    wanted = _plan(call)
    commands = routing.changes(routing.Routing(), routing.wanted(wanted))
    if call.flag("json"):
        calls = [["ip", *arguments] for arguments in commands]
        print(json.dumps({"nft": ruleset.ruleset(wanted), "commands": calls}, indent=2))
    else:
        _print_script(ruleset.ruleset(wanted), commands)
    return Exit.DONE


def apply(call: Call) -> int:
    """Apply the plan file to this host."""
    wanted = _plan(call)
    host = _Host(call)
    links = host.links()
    text = ruleset.ruleset(wanted)
    commands = routing.changes(host.ours(), routing.wanted(wanted, devices=links))
    if call.flag("dry_run"):
        _print_script(text, commands)
    else:
        host.load(text)
        host.change(commands)
        print(f"applied: ports {len(wanted.ports)}, way {wanted.way.value}")
    for port in wanted.ports:
        if complaint := _complaint(port, links):
            print(f"forewarn: {port.vm}: {complaint}", file=sys.stderr)
    return Exit.DONE


def undo(call: Call) -> int:
    """Remove forewarn's tables, routes and rules."""
    host = _Host(call)
    families = host.families()
    text = ruleset.removal(families)
    commands = routing.changes(host.ours(), routing.Routing())
    if call.flag("dry_run"):
        _print_script(text, commands)
        return Exit.DONE
    host.change(commands)
    if families:
        host.load(text)
    print("removed" if families or commands else "nothing to remove")
    return Exit.DONE


def show(call: Call) -> int:
    """Show the state of each guest of the file."""
    wanted = _plan(call)
    rows = [*_rows(wanted, _Host(call))]
    if call.flag("json"):
        print(json.dumps(rows, indent=2))
        return Exit.DONE
    cells = [[str(cell) or "-" for cell in row.values()] for row in rows]
    print("\n".join(tables.lines([*map(str.upper, rows[0])], cells)))
    return Exit.DONE


def _rows(wanted: model.Plan, host: "_Host") -> Iterator[dict[str, Any]]:
    links, counts, present = host.links(), host.counters(), host.ours()
    is_routed = not routing.changes(present, routing.wanted(wanted, devices=links))
    for port in wanted.ports:
        if ruleset.asked(port) not in counts:
            state = "not applied"
        elif complaint := _complaint(port, links):
            state = complaint
        else:
            state = "ok" if is_routed else "routes differ: apply again"
        yield {
            "vm": port.vm,
            "interface": port.interface,
            "bridge": port.bridge,
            "address": " ".join(port.addresses),
            "listener": f"{port.listener.host}:{port.listener.port}",
            "asked": counts.get(ruleset.asked(port), 0),
            "forged": counts.get(ruleset.forged(port), 0),
            "refused": counts.get(ruleset.refused(port), 0),
            "state": state,
        }


def _complaint(port: model.Port, links: Mapping[str, str]) -> str:
    """Return why a guest cannot be reached now; empty if it can."""
    if port.device not in links:
        return f"{port.device} does not exist: apply again when it does"
    if port.interface not in links:
        return f"{port.interface} does not exist yet"
    master = links[port.interface]
    # A VLAN of a bridge has a separate name, such as `vmbr0.10`.
    if port.bridge and master not in {port.bridge, port.bridge.partition(".")[0]}:
        return f"{port.interface} is not a port of {port.bridge}"
    if not port.bridge and master:
        return f"{port.interface} is a port of {master}: set `bridge`"
    return ""


def _plan(call: Call) -> model.Plan:
    text, name = files.read_text(call.text("file"))
    vms = None
    try:
        if fleet := call.text("fleet"):
            fleet_text, fleet_name = files.read_text(fleet)
            vms = read_fleet(fleet_text, name=fleet_name).vms
        return file.read_plan(text, name=name, vms=vms)
    except (FleetFileError, file.AddressFileError) as error:
        raise CommandError(
            Exit.USAGE, "nothing was changed", lines=error.message.splitlines()
        ) from error


def _print_script(text: str, commands: Sequence[routing.Command]) -> None:
    print("set -e")
    if text:
        print(f"nft -f - <<'END'\n{text}END")
    for arguments in commands:
        print(shlex.join(["ip", *arguments]))


class _Host:
    """The network of this host, through `nft` and `ip`."""

    def __init__(self, call: Call) -> None:
        """Check that the user is root; raises CommandError."""
        if os.geteuid():
            name = call.command.name
            raise CommandError(Exit.FAILED, f"`forewarn {name}` needs root")
        self._environ = call.environ

    def links(self) -> dict[str, str]:
        """Return every interface with its bridge, which may be empty."""
        return {
            link["ifname"]: link.get("master", "")
            for link in self._ask("ip", "-j", "link", "show")
        }

    def ours(self) -> routing.Routing:
        """Return forewarn's routes and rules."""
        number = str(routing.PROTOCOL)
        return routing.read_routing(
            self._ask(
                "ip", "-4", "-j", "route", "show", "table", "all", "proto", number
            ),
            self._ask("ip", "-4", "-j", "rule", "show"),
        )

    def families(self) -> list[str]:
        """Return the families in which forewarn has a table."""
        listed = [table.get("table", {}) for table in self._nft("list", "tables")]
        return [
            family
            for family in ruleset.FAMILIES
            if any(
                table.get("family") == family and table.get("name") == ruleset.TABLE
                for table in listed
            )
        ]

    def counters(self) -> dict[str, int]:
        """Return the number of packets of each counter of forewarn."""
        counters = [
            counter.get("counter", {}) for counter in self._nft("list", "counters")
        ]
        return {
            counter["name"]: counter["packets"]
            for counter in counters
            if counter.get("table") == ruleset.TABLE
        }

    def load(self, text: str) -> None:
        """Load a ruleset in one transaction."""
        self._run("nft", "-f", "-", stdin=text)

    def change(self, commands: Sequence[routing.Command]) -> None:
        """Run the changes of routes and rules in this order."""
        for arguments in commands:
            self._run("ip", "-4", *arguments)

    def _nft(self, *arguments: str) -> list[dict[str, Any]]:
        return self._ask("nft", "-j", *arguments)["nftables"]

    def _ask(self, *arguments: str) -> Any:
        # `ip` prints nothing if there is nothing to list.
        return json.loads(self._run(*arguments) or "[]")

    def _run(self, *arguments: str, stdin: str = "") -> str:
        hint = "Run `forewarn addresses undo` to remove the changes."
        return run_program(arguments, self._environ, stdin=stdin, hint=hint)


def with_sbin(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose PATH has the directories of `nft` and `ip`."""
    return {**environ, "PATH": environ.get("PATH", os.defpath) + _SBIN}


def run_program(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    stdin: str = "",
    hint: str = "",
) -> str:
    """Return the output of `nft` or `ip`; raises CommandError, with `hint` if it
    failed."""
    try:
        done = subprocess.run(  # noqa: S603 - words, no shell
            command,
            input=stdin,
            env={**with_sbin(environ), "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_SECONDS_MAX,
        )
    except FileNotFoundError as error:
        raise missing(command[0]) from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(Exit.FAILED, f"`{shlex.join(command)}` timed out") from error
    if done.returncode:
        raise CommandError(
            Exit.FAILED,
            f"`{shlex.join(command)}` failed",
            hint=hint,
            lines=done.stderr.splitlines(),
        )
    return done.stdout


def missing(program: str) -> CommandError:
    """Return the error for a program that is not installed."""
    return CommandError(
        Exit.FAILED,
        f"{program} is not installed; its Debian package is {_PACKAGES[program]}",
    )
