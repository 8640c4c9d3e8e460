"""A demo of the main features in about a minute, with a real service and HTTP clients.

    make demo
    make demo CONSOLE=1

It starts `forewarn serve` with a database file and small clients for the VMs. It sends
requests with the `forewarn` command, and shows on a timeline what the VMs see.
In one of them `forewarn agent` prepares, approves and recovers.
Then `forewarn simulate` runs a drill with a fragile client and with one that passes.
At last, a campaign maintains six hosts; its first host fails and is repaired.
With `--console`, a larger campaign then runs until Ctrl-C, and its console is opened.
The exit status is 0 only if the clients saw all of it.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from demo_parts import agent, campaign, clients, console, drill, setting
from demo_parts.clients import Vm
from demo_parts.timeline import Timeline

START_SECONDS = 150
"""Maximum seconds until the service is ready: usually one, on a busy machine many."""
ANSWER_SECONDS = 10
"""Maximum seconds of one answer to the question whether it is ready."""
STEP_SECONDS = 60
"""Maximum seconds of a step before the demo reports it as missing."""


class Operator:
    """An operator with the `forewarn` command."""

    def __init__(
        self, url: str, timeline: Timeline, *, directory: Path | None = None
    ) -> None:
        """Send requests to the service at `url`, with files of a directory."""
        self._url = url
        self._timeline = timeline
        self._directory = directory

    def run(self, *words: str) -> Any:
        """Run a command, show it on the timeline, and return its JSON."""
        self._timeline.say("operator", f"$ forewarn {shlex.join(words)}", bold=True)
        return self.ask(*words)

    def ask(self, *words: str) -> Any:
        """Run a command, and return its JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "forewarn", *words, "--json"],
            cwd=self._directory,
            env={**os.environ, "FOREWARN_URL": self._url},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            why = done.stderr.strip() or f"it ended with status {done.returncode}"
            raise SystemExit(f"forewarn {shlex.join(words)}: {why}")
        return json.loads(done.stdout)

    def console(self) -> None:
        """Print a link to the console, and open it if there is a browser."""
        subprocess.run(
            [sys.executable, "-m", "forewarn", "console"],
            env={**os.environ, "FOREWARN_URL": self._url},
            check=True,
        )

    def explain(self, operation: str) -> list[str]:
        """Show the reasons why an operation has not started."""
        reasons = self.run("explain", operation)["blocked_by"]
        for reason in reasons:
            self._timeline.say("forewarn", f"  waits: {reason}")
        return reasons


@contextmanager
def service(directory: Path, places: setting.Places) -> Generator[None]:
    """Run `forewarn serve` in a separate process, and stop it at the end."""
    log = (directory / "serve.log").open("w")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "forewarn", "serve"),
            *("--config", str(directory / "forewarn.toml")),
            *("--fleet", str(directory / "fleet.toml")),
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not is_ready(places.admin_url):
            status = process.poll()
            if status is not None or time.monotonic() > deadline:
                why = (
                    f"it was not ready after {START_SECONDS} s; the machine may be busy"
                    if status is None
                    else f"it ended with status {status}"
                )
                text = (directory / "serve.log").read_text() or "(empty)"
                raise SystemExit(f"the service did not start: {why}. Its log:\n{text}")
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()


def is_ready(url: str) -> bool:
    """Return whether the service is ready."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=ANSWER_SECONDS):
            return True
    except (urllib.error.URLError, OSError):
        return False


def shared_host(operator: Operator, vms: dict[str, Vm], timeline: Timeline) -> None:
    """Maintain one host with two tenants: it starts when both have approved."""
    timeline.head("1  Maintenance of a host that two tenants share")
    order = operator.run("maintain", "h1", "--impact", "freeze")
    operation = order["operations"][0]["operation"]
    web, db = vms["web_0"], vms["db_0"]
    mine = web.wait_event("Scheduled", "Freeze", "web_0", within=STEP_SECONDS)
    theirs = db.wait_event("Scheduled", "Freeze", "db_0", within=STEP_SECONDS)
    timeline.check("each tenant sees one event, its own", seen=mine != theirs)
    web.approve(mine)
    reasons = operator.explain(operation)
    timeline.check(
        "it waits for the second tenant",
        seen=any("tenant bank has not approved" in reason for reason in reasons)
        and web.status_of(mine) == "Scheduled",
    )
    db.approve(theirs)
    timeline.check(
        "with the last approval it starts, for both",
        seen=web.wait_status(mine, "Started", within=STEP_SECONDS)
        and db.wait_status(theirs, "Started", within=STEP_SECONDS),
    )
    timeline.check(
        "impact and recovery are over: the events are gone",
        seen=web.wait_gone(mine, within=STEP_SECONDS)
        and db.wait_gone(theirs, within=STEP_SECONDS),
    )


def user_reboot(operator: Operator, vms: dict[str, Vm], timeline: Timeline) -> None:
    """Restart a VM as a user; another VM of its scope approves."""
    timeline.head("2  A user restarts web_1; its neighbour web_0 approves")
    operator.run("reboot", "web_1")
    neighbour = vms["web_0"]
    event = neighbour.wait_event("Scheduled", "Reboot", "web_1", within=STEP_SECONDS)
    timeline.check(
        "the whole scope sees it, as a user's",
        seen=neighbour.source_of(event) == "User",
    )
    neighbour.approve(event)
    timeline.check(
        "approved, started, over",
        seen=vms["web_1"].wait_status(event, "Started", within=STEP_SECONDS)
        and neighbour.wait_gone(event, within=STEP_SECONDS),
    )


def host_failure(operator: Operator, vms: dict[str, Vm], timeline: Timeline) -> None:
    """Report a failed host: its events start at once and last until it is restored."""
    timeline.head("3  Host h3 fails, and is restored")
    operator.run("fail", "h3")
    event = vms["web_0"].wait_event("Started", "Reboot", "web_2", within=STEP_SECONDS)
    timeline.check(
        "no notice: it was never Scheduled",
        seen=vms["web_0"].history_of(event) == ["Started"],
    )
    operator.run("restore", "h3")
    timeline.check(
        "restored: the event is gone",
        seen=vms["web_0"].wait_gone(event, within=STEP_SECONDS),
    )


def rollout(operator: Operator, vms: dict[str, Vm], timeline: Timeline) -> None:
    """Announce two hosts one after the other; cancel after the first has started."""
    timeline.head("4  A rollout over h1 and h2, cancelled after the first")
    order = operator.run("maintain", "h1", "h2", "--impact", "freeze")
    first, second = (operation["operation"] for operation in order["operations"])
    web, db = vms["web_0"], vms["db_0"]
    on_h1 = [
        web.wait_event("Scheduled", "Freeze", "web_0", within=STEP_SECONDS),
        db.wait_event("Scheduled", "Freeze", "db_0", within=STEP_SECONDS),
    ]
    reasons = operator.explain(second)
    timeline.check(
        "h1 is announced, and h2 waits for its turn",
        seen=any("turn" in reason for reason in reasons),
    )
    web.approve(on_h1[0])
    db.approve(on_h1[1])
    started = web.wait_status(on_h1[0], "Started", within=STEP_SECONDS)
    operator.run("cancel", order["rollout"])
    timeline.check("h1 has started before the rest is cancelled", seen=started)
    timeline.check(
        "the first, past its point of no return, ends as it should",
        seen=web.wait_gone(on_h1[0], within=STEP_SECONDS)
        and db.wait_gone(on_h1[1], within=STEP_SECONDS)
        and operator.run("explain", first)["state"] == "Done",
    )
    timeline.check(
        "cancelled: h2 was never announced",
        seen=operator.run("explain", second)["state"] == "Cancelled"
        and not web.was_named("Freeze", "web_1"),
    )


def main() -> int:
    """Run all parts; return 0 if the clients saw everything."""
    parser = argparse.ArgumentParser(description="Show forewarn at work.")
    parser.add_argument(
        "--console",
        action="store_true",
        help="open the console at the end, and run until Ctrl-C",
    )
    has_console = parser.parse_args().console
    stays = False
    timeline = Timeline()
    directory = Path(tempfile.mkdtemp(prefix="forewarn-demo-"))
    places = setting.prepare(directory)
    timeline.head(
        "A fleet of three hosts; tenants shop (web_0…2) and bank (db_0, db_1)"
    )
    try:
        with service(directory, places), clients.watching(places.vms, timeline) as vms:
            operator = Operator(places.admin_url, timeline)
            timeline.check(
                "every VM asks, and is served an empty document",
                seen=all(vm.wait_enabled(within=STEP_SECONDS) for vm in vms.values()),
            )
            shared_host(operator, vms, timeline)
            user_reboot(operator, vms, timeline)
            host_failure(operator, vms, timeline)
            rollout(operator, vms, timeline)
            agent.play(
                operator.run,
                vms["web_0"],
                place=(directory, places.vms["web_0"]),
                timeline=timeline,
                within=STEP_SECONDS,
            )
        drill.play(timeline)
        bios = directory / "bios"
        places = campaign.prepare(bios)
        with service(bios, places):
            operator = Operator(places.admin_url, timeline, directory=bios)
            campaign.play(
                operator.run,
                operator.ask,
                directory=bios,
                timeline=timeline,
                within=STEP_SECONDS,
            )
        stays = has_console and timeline.all_seen
        if stays:
            watched = directory / "watched"
            (port,) = setting.free_ports(1)
            console.prepare(watched, port=port)
            places = setting.Places(admin_url=f"http://127.0.0.1:{port}", vms={})
            with service(watched, places):
                operator = Operator(places.admin_url, timeline, directory=watched)
                console.begin(operator.ask)
                timeline.end(console.OPENED)
                console.stay(operator.console, url=places.admin_url)
    except clients.NotSeenError as error:
        timeline.check(str(error), seen=False)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if not stays:
        timeline.end(console.OFFER)
    return 0 if timeline.all_seen else 1


if __name__ == "__main__":
    sys.exit(main())
