"""The clients that come with forewarn, in the VMs of `forewarn simulate`.

Everything is as it comes: the simulator's speed, the clients' pace, their files. Each
client prepares with a program that does nothing, and approves.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.support.forked import Program, started
from tests.support.processes import eventually

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "examples" / "clients"

LONGEST_SECONDS = 300.0
"""Timeout of a scenario; the longest one without approvals takes a minute and a
half."""

ANYWHERE = ("--listen=127.0.0.1:0", "--admin=127.0.0.1:0")

HANDLER = """
[[handler]]
name = "nothing"
kind = "exec"
prepare = ["true"]
"""

ONE_FOR_ALL = (
    HANDLER
    + """
[[rule]]
handlers = ["nothing"]
approver = "leader"
"""
)
"""As docs/how-to/agent/rule-recipes.md has it: by itself an agent never approves for VMs whose state
it does not know."""

NAMES_SEVERAL = frozenset({"one-host-three-vms", "terminate-several"})
"""Scenarios with an event that names more than one VM."""

SLEEPER = f"""
import sys, time, urllib.request
asked = urllib.request.Request(
    sys.argv[1] + "/metadata/scheduledevents?api-version=2020-07-01",
    headers={{"Metadata": "true"}},
)
urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(asked).read()
time.sleep({2 * LONGEST_SECONDS})
"""
"""A client that switches its events on, and then sleeps through all of them."""

Command = Callable[[str, Path, str], list[str]]
"""The command that starts a client: for an endpoint, in a directory of its own, in a
scenario."""


def _agent(endpoint: str, directory: Path, scenario: str) -> list[str]:
    text = ONE_FOR_ALL if scenario in NAMES_SEVERAL else HANDLER
    (directory / "agent.toml").write_text(text, encoding="utf-8")
    program = [sys.executable, "-m", "forewarn", "agent", "--config", "agent.toml"]
    return [*program, "--endpoint", endpoint, "--state", "agent.db", "--listen", ""]


def _example(*program: str) -> Command:
    return lambda endpoint, _, __: [
        *("env", f"FOREWARN_ENDPOINT={endpoint}"),
        *program,
        "true",
    ]


SHIPPED: Mapping[str, Command] = {
    "watch.py": _example(sys.executable, str(CLIENTS / "watch.py")),
    "watch.sh": _example("bash", str(CLIENTS / "watch.sh")),
    "agent": _agent,
}
SLEEPING: Mapping[str, Command] = {
    "sleeper": lambda endpoint, _, __: [sys.executable, "-c", SLEEPER, endpoint]
}


class Played(NamedTuple):
    """The result of a scenario with a client in each of its VMs."""

    status: int
    log: str
    """The output of the simulator, and then the output of each client."""


def play(scenario: str, command: Command, directory: Path) -> Played:
    """Play a scenario, at its own speed, to a client in each VM that is served."""
    directory.mkdir()
    path = directory / "simulator.log"
    simulator = started(["simulate", scenario, *ANYWHERE], cwd=directory, log=path)
    clients: list[Program] = []
    try:
        log = eventually(
            lambda: path.read_text(encoding="utf-8"),
            lambda text: " ready" in text or simulator.poll() is not None,
            what="a simulator",
        )
        for vm, endpoint in re.findall(r"serving +(\S+) at (http://\S+)", log):
            if vm == "operators":
                continue
            place = directory / vm
            place.mkdir()
            clients.append(_start(command(endpoint, place, scenario), place / "log"))
        status = simulator.wait(LONGEST_SECONDS)
    finally:
        for program in (simulator, *clients):
            program.kill()
            program.wait()
    logs = [path, *sorted(directory.glob("*/log"))]
    return Played(status, "\n".join(log.read_text(encoding="utf-8") for log in logs))


def _start(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            arguments,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def judge(scenario: str, directory: Path) -> None:
    """Play a scenario to each shipped client, and to one that sleeps, at the same time.

    Each shipped one must pass, and the sleeping one must fail, for what it did not do.
    """
    clients = {**SHIPPED, **SLEEPING}
    with ThreadPoolExecutor(len(clients)) as pool:
        running = {
            name: pool.submit(play, scenario, command, directory / name)
            for name, command in clients.items()
        }
        played = {name: program.result() for name, program in running.items()}
    for name in SHIPPED:
        assert played[name].status == 0, f"{name}:\n{played[name].log}"
    for name in SLEEPING:
        status, log = played[name]
        assert status == 1, f"{name}:\n{log}"
        assert re.search(rf"failed +{scenario}: ", log), log
        assert re.search(r"did not (approve|ask again|see) ", log), log
        assert "Traceback" not in log
