"""The lab: three hosts with real guests, on this machine.

    make lab              # bare QEMUs
    make lab LIBVIRT=1    # each host has a libvirtd, and the guests are its domains

The hosts are network namespaces, each with a relay, and the guests are Linux under QEMU. They
ask at the real 169.254.169.254, from which `forewarn addresses` leads them to the relay of their
host, and one of them runs the real agent. The lab freezes, moves, restarts and kills them, shows what they see, and removes
everything. It needs root.
The exit status is 0 only if everything was seen.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

from examples.demo_parts.timeline import Timeline
from examples.lab import bare, domains, image, memory
from examples.lab.agent_guest import AGENT_MEMORY_MIB, agent_image
from examples.lab.consoles import Consoles
from examples.lab.hosts import Ground, Guest
from examples.lab.operating import URL, Service
from examples.lab.relays import Relays

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".build" / "tools"
CACHE = ROOT / ".build" / "guests"

PLACES = {
    "web_0": "h1",
    "db_0": "h1",
    "web_1": "h2",
    "app_0": "h2",
    "web_2": "h3",
    "db_1": "h3",
}
"""The guests and their first hosts. `app_0` has the agent."""

AGENT = "app_0"

POLL_MS = 1000
"""Milliseconds between two questions of a guest, as usual."""

FIRST_SECONDS, LATER_SECONDS = 180, 30
"""Wanted times from `make lab` to the first event that a guest sees: when packages are
fetched and guests are built, and later. They are for two idle cores, so they are printed,
and no test fails because of them."""

STEP_SECONDS = 300.0
"""Maximum seconds of a step on a busy machine."""


class Lab:
    """All parts of the lab."""

    def __init__(
        self,
        directory: Path,
        timeline: Timeline,
        *,
        has_libvirt: bool = False,
        places: Mapping[str, str] = PLACES,
        waited: float = 0.0,
    ) -> None:
        """Start nothing yet; `places` are the guests and their first hosts.

        `waited` is for how many seconds `make lab` has prepared it already.
        """
        self.directory, self.timeline, self.places = directory, timeline, places
        self._numbers = {vm: number for number, vm in enumerate(places, start=4)}
        self.began = time.monotonic()
        self.requested = self.began - waited
        self.has_guests = any(CACHE.glob("*"))
        self.ground = Ground(
            directory, f"lab{os.getpid()}", ("h1", "h2", "h3"), has_relays=True
        )
        self.relays = Relays(self.ground, timeline)
        self.guests = (
            domains.Domains(self.ground, self.relays, TOOLS, CACHE)
            if has_libvirt
            else bare.BareQemus(self.ground, self.relays)
        )
        self.service = Service(directory, self.ground, places, timeline)
        self.consoles = Consoles(self.ground, self.relays, timeline, list(places))
        self._guests: list[Guest] = []

    def begin(self) -> None:
        """Start the hosts, the service and the relays, and the guests of h1.

        Parts that do not need each other start side by side.
        """
        vms = self._named(is_first=True)
        self.timeline.say("lab", "makes the hosts h1, h2, h3 and starts the service")
        self.ground.make(self._numbers.values())
        self.ground.lead(self._numbers.values())
        self.consoles.open()
        with ThreadPoolExecutor(2) as side:
            started = side.submit(self._start_service)
            hosts = side.submit(self.guests.begin)
            self.timeline.say("lab", "builds its guests (the first time: some seconds)")
            self._build(vms)
            hosts.result()
            self._start(vms)
            started.result()
        self._expect_first(vms)

    def begin_rest(self) -> None:
        """Start the guests of the other hosts."""
        vms = self._named(is_first=False)
        self._build(vms)
        self._start(vms)
        self._expect_first(vms)

    def _named(self, *, is_first: bool) -> list[str]:
        """Return the guests of the first host, or the others."""
        return [vm for vm, host in self.places.items() if (host == "h1") is is_first]

    def _build(self, vms: Sequence[str]) -> None:
        self._guests += [self._guest(vm, self._numbers[vm]) for vm in vms]
        self.ground.describe(self._guests, bare.qemu_words())
        for guest in self._guests:
            self.guests.learn(guest)

    def _start(self, vms: Sequence[str]) -> None:
        with ThreadPoolExecutor(2) as side:
            starts = [side.submit(self.guests.start, vm, self.places[vm]) for vm in vms]
            for started in starts:
                started.result()

    def _start_service(self) -> None:
        self.service.start(self.guests.settings())
        tokens = self.service.relay_tokens()
        self.relays.begin(URL, self.service.certificate, tokens)

    def _expect_first(self, vms: Sequence[str]) -> None:
        for vm in vms:
            first = "agent: watches" if vm == AGENT else "has its first document"
            self.expect(f"{vm} asks", lambda vm=vm, first=first: self.has(vm, first))

    def _guest(self, vm: str, number: int) -> Guest:
        """Return a guest, whose memory is saved if that is quicker than a boot."""
        has_agent = vm == AGENT
        built = (agent_image if has_agent else image.build)(TOOLS, CACHE)
        mib = AGENT_MEMORY_MIB if has_agent else memory.MEMORY_MIB
        state = None
        if self.guests.restores:
            state = memory.saved(built, bare.qemu_words(), memory=mib)
        return Guest(
            name=vm,
            number=number,
            kernel=built.kernel,
            initramfs=built.initramfs,
            state=state,
            memory=mib,
            poll_ms=POLL_MS,
        )

    def has(self, vm: str, text: str, after: int = 0) -> bool:
        """Return whether the console of a guest shows `text`."""
        return self.consoles.has_seen(vm, text, after=after)

    def expect(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait for something, and show whether it came."""
        deadline = time.monotonic() + STEP_SECONDS
        while not (seen := happened()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.timeline.check(what, seen=seen)

    def maintain(self, host: str, impact: str, *more: str) -> None:
        """Maintain a host, and show the downtime of its guests."""
        vms = self.service.vms_on(host)
        shown = {vm: self.consoles.count(vm) for vm in vms}
        before = self.service.downtimes()
        self.service.order("maintain", host, "--impact", impact, *more)
        self.expect(f"all guests of {host} approve; it is done", self.service.is_idle)
        after = self.service.downtimes()
        for vm in vms:
            if vm != AGENT:
                self.expect(
                    f"{vm} saw it, and was down for {after[vm] - before[vm]:.2f} s",
                    lambda vm=vm: self.has(vm, "sees the end of", shown[vm]),
                )

    def report_first_event(self) -> None:
        """Print when a guest saw its first event, and the time that is wanted."""
        first = self.consoles.first_event
        if first is None:
            return
        if self.has_guests:
            wanted = f"its guests were built before (wanted: {LATER_SECONDS} s)"
        else:
            wanted = f"it built its guests (wanted: {FIRST_SECONDS} s the first time)"
        self.timeline.say(
            "lab",
            f"a guest saw the first event {first - self.began:.0f} s after the start of "
            f"the lab, {first - self.requested:.0f} s after `make lab`; {wanted}",
        )

    def end(self) -> None:
        """Stop everything, and remove it."""
        with contextlib.suppress(RuntimeError):
            self.consoles.close()
        self.service.stop()
        self.relays.end()
        self.guests.end()
        self.ground.end()
        shutil.rmtree(self.directory, ignore_errors=True)


def walk(lab: Lab) -> None:
    """Show everything that can happen to a guest."""
    head = lab.timeline.head
    head("A freeze of h1: its guests stand still for two seconds")
    lab.maintain("h1", "freeze")
    lab.report_first_event()
    head("The other guests start, and one of them has the agent")
    lab.begin_rest()
    head("A live migration of h2: its guests move, and ask the relays of other hosts")
    lab.maintain("h2", "live-migrate")
    lab.timeline.check("h2 is empty", seen=not lab.service.vms_on("h2"))
    head(
        "A reboot of h1: its guests stop, the host restarts with its relay, they start"
    )
    lab.maintain("h1", "reboot", "--work", "restart")
    head("kill -9 of one guest's QEMU, without any request")
    lose(lab, ["web_2"])
    head("kill -9 of a host: everything on h3 is gone")
    lose(lab, lab.service.vms_on("h3"), "h3")


def lose(lab: Lab, vms: list[str], host: str = "") -> None:
    """Kill guests, or all of a host; forewarn notices it, and that they run again."""
    places = {vm: lab.service.host_of(vm) for vm in vms}
    daemons = ("relay", *lab.guests.daemons) if host else ()
    lab.timeline.say("lab", f"$ kill -9 {' '.join((*daemons, *vms))}", bold=True)
    began = time.monotonic()
    if host:
        lab.relays.kill(host)
        lab.guests.lose(host, vms)
        lab.expect(
            f"forewarn sees that the relay of {host} is away",
            lambda: not lab.service.has_relay(host),
        )
    else:
        for vm, place in places.items():
            lab.guests.kill(vm, place)
    lab.expect(
        "forewarn reports them as failed", lambda: lab.service.failed() == {*vms}
    )
    lab.timeline.say("forewarn", f"noticed it after {time.monotonic() - began:.1f} s")
    lab.timeline.say("lab", "starts them again")
    if host:
        lab.relays.start(host)
    for vm, place in places.items():
        lab.guests.start(vm, place)
    lab.expect("forewarn sees that they run again", lambda: not lab.service.failed())
    if host:
        lab.expect("their relay is back", lambda: lab.service.has_relay(host))


def _stop(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> int:
    """Run the lab."""
    parser = argparse.ArgumentParser(prog="make lab", description=__doc__)
    parser.add_argument(
        "--stay", action="store_true", help="leave it running until Ctrl-C"
    )
    parser.add_argument(
        "--libvirt", action="store_true", help="run the guests by libvirt"
    )
    parser.add_argument(
        "--since", type=float, help="Unix time of `make lab`", default=time.time()
    )
    words = parser.parse_args()
    if why := bare.lacking(TOOLS) or (words.libvirt and domains.lacking(TOOLS)):
        print(f"make lab: {why}", file=sys.stderr)
        return 1
    # The end of the lab removes everything, even after this signal.
    signal.signal(signal.SIGTERM, _stop)
    timeline = Timeline()
    directory = Path(tempfile.mkdtemp(prefix="lab"))
    waited = max(0.0, time.time() - words.since)
    lab = Lab(directory, timeline, has_libvirt=words.libvirt, waited=waited)
    try:
        lab.begin()
        walk(lab)
        if words.stay:
            lab.service.invite()
            signal.pause()
    except KeyboardInterrupt:
        return 130
    except (image.ImageError, RuntimeError, subprocess.CalledProcessError) as error:
        print(f"make lab: {error}", file=sys.stderr)
        return 1
    finally:
        lab.end()
    timeline.say("lab", "removed all of it")
    return 0 if timeline.all_seen else 1


if __name__ == "__main__":
    sys.exit(main())
