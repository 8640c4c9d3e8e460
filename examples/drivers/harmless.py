#!/usr/bin/env python3
"""A harmless program for the command driver: it writes a log and waits.

    harmless.py DIRECTORY ACTION VM [--seconds S] [--wait-for FILE] [--hosts HOST,…]
    harmless.py DIRECTORY observe VM
    harmless.py DIRECTORY observe-many
    harmless.py DIRECTORY probe VM --operation OPERATION
    harmless.py DIRECTORY marks
    harmless.py DIRECTORY abilities

It reads the call from standard input and appends `begun …` and `done …` to DIRECTORY/log.
It stores the host of each VM in DIRECTORY for `observe`, and its mark for `marks`. It shows the input and the output
of such a program; harmless.toml configures it. If the call names no new host of a VM,
the program chooses one of --hosts.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

DONE, RUNS, UNKNOWN, DOWN = 0, 1, 2, 3

MOVES = {"live-migrate", "redeploy"}

WAIT_SECONDS = 60.0
"""Maximum seconds to wait for the file of --wait-for; then the program fails."""


def main() -> int:
    """Run the action in the arguments; return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("action")
    parser.add_argument("vm", nargs="?", default="")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--wait-for", type=Path)
    parser.add_argument("--operation", default="")
    parser.add_argument("--hosts", type=lambda text: text.split(","), default=[])
    words = parser.parse_args()
    words.directory.mkdir(exist_ok=True)
    if words.action == "observe":
        return observe(words.directory, words.vm)
    if words.action == "observe-many":
        return observe_many(words.directory)
    if words.action == "probe":
        return probe(words.directory, words.vm, words.operation)
    if words.action == "marks":
        return marks(words.directory)
    if words.action == "abilities":
        return abilities(words.directory)
    call = json.load(sys.stdin)
    about = (
        f"{words.action} {words.vm} for {call['operation']} call {call['generation']}"
    )
    if is_later(words.directory, f"vm.{words.vm}", call):
        print("a replica that leads in a later term has made another call meanwhile")
        return RUNS
    write_mark(words.directory, f"vm.{words.vm}", call, "begun")
    note(words.directory, f"begun {about}")
    time.sleep(max(words.seconds, 0.0))
    if words.wait_for is not None and not wait_for(words.wait_for):
        print(f"{words.wait_for} never came")
        return RUNS
    is_down = words.action in {"delete", "stop"}
    where = "" if is_down else call["to_host"] or call["host"]
    if words.hosts and words.action in MOVES and not call["to_host"]:
        where = choose_host(call, words.hosts)
        if not where:
            print(f"no host can take {words.vm}")
            return RUNS
        print(f"vm-host: {where}")
    (words.directory / f"vm.{words.vm}").write_text(where)
    write_mark(words.directory, f"vm.{words.vm}", call, "done")
    note(words.directory, f"done {about}")
    print(f"{words.vm} is on {where}" if where else f"{words.vm} is down")
    return DONE


def choose_host(call: dict[str, Any], hosts: list[str]) -> str:
    """Return a host that is not closed, and does not wait if another one can be found.

    Of hosts that wait for their turn in the same maintenance, the last one is best.
    """
    turns = {host: turn for turn, host in enumerate(call["waiting"])}
    fit = [host for host in hosts if host not in {call["host"], *call["closed"]}]
    return max(fit, key=lambda host: turns.get(host, len(turns)), default="")


def observe(directory: Path, vm: str) -> int:
    """Print the VM's host; the exit status says whether it runs."""
    file = directory / f"vm.{vm}"
    if not file.exists():
        return UNKNOWN
    print(host := file.read_text())
    return DONE if host else DOWN


def observe_many(directory: Path) -> int:
    """Print a line for each known VM on standard input."""
    for line in sys.stdin:
        file = directory / f"vm.{(asked := json.loads(line))['vm']}"
        if file.exists():
            host = file.read_text()
            where = {"host": host} if host else {}
            print(json.dumps({**asked, "running": bool(host), **where}))
    return DONE


def probe(directory: Path, vm: str, operation: str) -> int:
    """Return the result of the work on a VM as an exit status."""
    log = directory / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    about = [line for line in lines if f" {vm} for {operation} " in line]
    return DONE if any(line.startswith("done") for line in about) else UNKNOWN


def is_later(directory: Path, place: str, call: dict[str, Any]) -> bool:
    """Return whether the mark there has a later term: the leader of the call was paused."""
    file = directory / f"mark.{place}"
    before: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    is_of_store: bool = before.get("store") == call["store"]
    return is_of_store and 0 < call["term"] < before["term"]


def write_mark(directory: Path, place: str, call: dict[str, Any], state: str) -> None:
    """Keep the last mark of a VM or host, before its work and after it."""
    fresh = directory / f"new-mark.{place}"
    about = {name: call[name] for name in ("mark", "term", "store")}
    fresh.write_text(json.dumps({**about, "state": state}))
    fresh.replace(directory / f"mark.{place}")


def marks(directory: Path) -> int:
    """Print the marks of the VMs or hosts on standard input."""
    for line in sys.stdin:
        kind = "vm" if "vm" in (asked := json.loads(line)) else "host"
        file = directory / f"mark.{kind}.{asked[kind]}"
        found = json.loads(file.read_text()) if file.exists() else {"mark": None}
        print(json.dumps({kind: asked[kind], **found}))
    return DONE


def abilities(directory: Path) -> int:
    """Print what can be done: everything, but for the lines of DIRECTORY/limited."""
    file = directory / "limited"
    limited = [json.loads(line) for line in file.open()] if file.exists() else []
    for line in sys.stdin:
        host, vms = (asked := json.loads(line))["host"], asked["vms"]
        for place in ({"host": host}, *({"host": host, "vm": vm} for vm in vms)):
            print(json.dumps({**place, "able": "yes"}))
        for limit in limited:
            if limit.get("vm") in vms or ("vm" not in limit and limit["host"] == host):
                print(json.dumps({"host": host, **limit}))
    return DONE


def note(directory: Path, line: str) -> None:
    """Append a line to the log."""
    with (directory / "log").open("a") as log:
        log.write(f"{line}\n")


def wait_for(file: Path) -> bool:
    """Wait until a file exists; return whether it does."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not file.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


if __name__ == "__main__":
    sys.exit(main())
