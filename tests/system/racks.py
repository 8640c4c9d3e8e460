"""Hosts whose programs have a set behavior: they work, fail, lie, hang, or wait.

A campaign moves the VMs of each host away, and flashes it. The same program is every host
step, and moves the VMs. It writes what it does to a journal that outlives the service,
like the firmware of a host.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarn.store.check import check
from forewarn.store.sqlite import SqliteStore
from tests.support.processes import Serving, eventually
from tests.support.watched import Mirror, stored

NEW, OLD = "2.19", "2.18"
"""Versions of the firmware: the campaign's, and the one that the hosts have."""

STEPS = ("enter", "drain", "work", "verify", "exit")
"""The phases of a visit that run a program; `drain` moves one VM."""

NAMES = {"enter": "enter", "work": "flash", "verify": "flashed", "exit": "leave"}
"""The name of the host step of each place."""

TIMES = 2
"""The number of times that `verify` must succeed."""

# $0 is the program, and its directory has all its files.
PROGRAM = """
step=$1 host=$2 call=$3 subject=$4 value=$5
cd "${0%/*}" || exit 9
echo "begun $step $host $call $subject" >> journal
if [ -e "hold.$step.$host" ]; then
    : > "held.$step.$host"
    left=6000
    while [ -e "hold.$step.$host" ] && [ $left -gt 0 ]; do sleep 0.01; left=$((left - 1)); done
fi
case "$(cat "behavior.$step" 2>/dev/null)" in
    fail) echo "flash chip of $host: write protected"; exit 3 ;;
    lie) echo "done $step $host $call $subject" >> journal; exit 0 ;;
    hang) exec sleep 600 ;;
    deaf) trap '' TERM; while :; do sleep 1; done ;;
esac
case "$step" in
    drain) echo "$value" > "vm.$subject" ;;
    work) echo "$value" > "firmware.$host" ;;
    verify)
        has=$(cat "firmware.$host" 2>/dev/null || echo 2.18)
        [ "$has" = "$value" ] || { echo "$host has $has, not $value"; exit 1; } ;;
esac
echo "done $step $host $call $subject" >> journal
"""

OBSERVE = 'cat "${0%/*}/vm.$1"'


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the journal: what a program did, and for which call."""

    what: str
    """`begun` or `done`."""
    step: str
    host: str
    call: str
    """The visit or operation, and the generation of the call."""
    subject: str
    """The VM of a drain; the version for the other steps."""


class Racks:
    """The hosts `h0`, which has no VM, and `h1` to `hN`, each with a VM of a scope."""

    def __init__(
        self,
        directory: Path,
        hosts: int,
        *,
        timeouts: Mapping[str, str] | None = None,
        verify_within: str = "5m",
    ) -> None:
        """Prepare the programs of `hosts` hosts; `timeouts` has those of some steps."""
        self.directory = directory
        self.hosts = tuple(f"h{number}" for number in range(hosts))
        self.room = directory / "room"
        self.room.mkdir()
        self.services: list[Serving] = []
        (self.room / "program").write_text(PROGRAM)
        (self.room / "observe").write_text(OBSERVE)
        for number in range(1, hosts):
            (self.room / f"vm.vm_{number}").write_text(f"h{number}\n")
        settings = self._settings(timeouts or {}, verify_within)
        (directory / "forewarn.toml").write_text(settings)
        self._fleet = '[[tenant]]\nname = "shop"\n[[host]]\nname = "h0"\n' + "".join(
            f'[[host]]\nname = "h{number}"\n'
            f'[[scope]]\nname = "s{number}"\ntenant = "shop"\nkind = "availability-set"\n'
            f'[[vm]]\nname = "vm_{number}"\nhost = "h{number}"\nscope = "s{number}"\n'
            'listen = "127.0.0.1:0"\n'
            for number in range(1, hosts)
        )

    def _settings(self, timeouts: Mapping[str, str], verify_within: str) -> str:
        program, observe = self.room / "program", self.room / "observe"
        command = f'"/bin/sh", "{program}"'
        move = f'[{command}, "drain", "{{host}}", "{{operation}}/{{generation}}", '
        steps = "".join(
            f'[host_step.{name}]\nprogram = [{command}, "{{step}}", "{{host}}", '
            '"{visit}/{generation}", "{version}", "{version}"]\n'
            'arguments = { version = "[0-9.]+" }\n'
            f'timeout = "{timeouts.get(step, "5m")}"\n'
            for step, name in NAMES.items()
        )
        return (
            f'[driver]\nkind = "command"\n[driver.command]\ngrace = "200ms"\n'
            f'live_migrate = {move}"{{vm}}", "{{to_host}}"]\n'
            f'observe = ["/bin/sh", "{observe}", "{{vm}}"]\n'
            f'[policy]\nverify_times = {TIMES}\nverify_within = "{verify_within}"\n'
            f"[timing]\nspeed = 6000\n{steps}"
        )

    def file(self, *, stages: str = "") -> str:
        """Return the file of a campaign that flashes all hosts."""
        steps = "".join(
            f'{step} = {{ step = "{name}", version = "{NEW}" }}\n'
            for step, name in NAMES.items()
        )
        return (
            '[campaign]\nname = "bios"\nreason = "CVE-2026-1234"\n'
            'impact = "live-migrate"\nselect = { all = true }\n'
            f"[campaign.steps]\n{steps}{stages}"
        )

    # The service

    def begin(self, *, clock: str = "") -> Serving:
        """Start a service with the store of the last one, and wait until it is ready.

        The file `clock` sets its wall clock, if there is one.
        """
        self.services.append(Serving(self.directory, self._fleet, clock=clock))
        return self.services[-1].wait_ready()

    def end(self) -> None:
        """End the services, and let the programs end."""
        for file in self.room.glob("hold.*"):
            file.unlink(missing_ok=True)
        for service in self.services:
            service.process.kill()
            service.process.wait()

    def start(self, *, stages: str = "") -> dict[str, Any]:
        """Plan the campaign, and start this plan."""
        file = {"name": "bios.toml", "text": self.file(stages=stages)}
        service = self.services[-1]
        plan = service.admin("/v1/campaigns/plan", file)
        assert plan["refused_count"] == 0, plan
        return service.admin("/v1/campaigns", {**file, "digest": plan["digest"]})

    def order(self, verb: str, **body: Any) -> None:
        """Steer the campaign."""
        body = {"campaign": "bios", **body}
        self.services[-1].admin(f"/v1/campaign-{verb}", body)

    def campaign(self) -> dict[str, Any]:
        return self.services[-1].admin("/v1/campaigns/bios")

    def wait_for(self, state: str) -> dict[str, Any]:
        """Wait until the campaign has a state; return the campaign."""
        return eventually(
            self.campaign, lambda found: found["state"] == state, what=state
        )

    # The programs

    def behave(self, step: str, how: str) -> None:
        """Let the programs of a step `fail`, `lie`, `hang`, or be `deaf`; empty: work."""
        (self.room / f"behavior.{step}").write_text(how)

    def hold(self, step: str, host: str) -> None:
        """Let the program of a step wait for its release."""
        (self.room / f"hold.{step}.{host}").touch()

    def release(self, step: str, host: str) -> None:
        (self.room / f"hold.{step}.{host}").unlink()

    def wait_held(self, step: str, host: str) -> None:
        """Wait until the program of a step waits for its release."""
        held = self.room / f"held.{step}.{host}"
        eventually(
            held.exists, bool, what=f"{step} of {host}: {self.services[-1].log()}"
        )

    def journal(self) -> list[Line]:
        """Return what the programs have done."""
        file = self.room / "journal"
        lines = file.read_text().splitlines() if file.exists() else []
        return [Line(*line.split()) for line in lines]

    def firmware(self) -> Mapping[str, str]:
        """Return the version of each host."""
        files = {host: self.room / f"firmware.{host}" for host in self.hosts}
        return {
            host: file.read_text().strip() if file.exists() else OLD
            for host, file in files.items()
        }

    # The store of a dead service

    def stored(self) -> Mirror:
        """Return the content of the store; fail if it is damaged."""
        file = self.directory / "forewarn.db"
        problems = check(file)
        assert problems == [], problems
        mirror = Mirror()
        with closing(SqliteStore(file)) as store:
            mirror.tables |= store.read(stored)
        return mirror


def twice(lines: list[Line]) -> list[Line]:
    """Return the lines that are in a journal more than once."""
    return [line for line, times in Counter(lines).items() if times > 1]
