"""The guests of the lab as bare QEMUs, without libvirt."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.lab import start_guest
from examples.lab.hosts import Ground, Guest
from examples.lab.relays import Relays

QEMU = "qemu-system-x86_64"

SETTINGS = """\
[driver]
kind = "qemu"
sighting_confirm = "2s"
[driver.qemu]
monitor = "{directory}/{{host}}/{{vm}}.qmp"
events = "{directory}/{{host}}/{{vm}}.events"
migration = "unix:{directory}/{{vm}}.move"
start = {start}
receive = {receive}
freeze = "2s"
shutdown_timeout = "1s"
[host_step.restart]
program = {restart}
"""

RESTART = """\
# Restarts a host: its relay and its network.
{kill_relay}
ip -n {space} link set br0 down
sleep 1
ip -n {space} link set br0 up
{start_relay}
"""


def qemu_words() -> list[str]:
    """Return QEMU as a command of `env`."""
    tools = Path(__file__).resolve().parents[2] / ".build" / "tools"
    if found := shutil.which(QEMU):
        return [found]
    directories = (*tools.glob("usr/lib"), *tools.glob("usr/lib/*-linux-gnu"))
    directories += tuple(tools.glob("lib/*-linux-gnu"))
    libraries = ":".join(map(str, directories))
    return [f"LD_LIBRARY_PATH={libraries}", str(tools / "usr/bin" / QEMU)]


def lacking(tools: Path) -> str:
    """Return why the lab cannot run here; empty if it can."""
    if os.geteuid():
        return "needs root, for network namespaces: sudo make lab"
    if not (shutil.which(QEMU) or (tools / "usr/bin" / QEMU).exists()):
        return f"needs {QEMU} (Debian: qemu-system-x86): make tools"
    if not shutil.which("ip"):
        return "needs ip (Debian: iproute2): make tools"
    # It may be where only root looks.
    if not shutil.which("nft", path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
        return "needs nft, for `forewarn addresses` (Debian: nftables): make tools"
    if not shutil.which("openssl"):
        return "needs openssl, for the certificate of the service (Debian: openssl)"
    if not Path("/dev/net/tun").exists():
        return (
            "needs /dev/net/tun: modprobe tun, or --device /dev/net/tun of a container"
        )
    return ""


class BareQemus:
    """Starts and kills guests as an operator of QEMU does."""

    restores = True
    """Guests are restored from saved memory."""

    daemons: tuple[str, ...] = ()
    """Programs of a host that are killed with it."""

    def __init__(self, ground: Ground, relays: Relays) -> None:
        """Start nothing yet."""
        self._ground, self._relays = ground, relays

    def begin(self) -> None:
        """Write how each host restarts: without libvirt, it needs only its network."""
        for host, space in self._ground.hosts.items():
            kill, start = self._relays.restart_lines(host)
            text = RESTART.format(space=space, kill_relay=kill, start_relay=start)
            (self._ground.directory / host / "restart").write_text(text, "utf-8")

    def learn(self, guest: Guest) -> None:
        """Do nothing: what a guest boots is written down."""

    def settings(self) -> str:
        """Return the settings of the driver."""
        restart = ["/bin/sh", f"{self._ground.directory}/{{host}}/restart"]
        return SETTINGS.format(
            directory=self._ground.directory,
            start=json.dumps(self._words("{vm}", "{host}")),
            receive=json.dumps(self._words("{vm}", "{host}", "--receive")),
            restart=json.dumps(restart),
        )

    def _words(self, vm: str, host: str, *more: str) -> list[str]:
        """Return the command that starts a guest."""
        program = start_guest.__file__
        world = str(self._ground.world)
        return [sys.executable, "-I", "-S", program, world, vm, host, *more]

    def start(self, vm: str, host: str) -> None:
        """Start a guest."""
        subprocess.run(self._words(vm, host), check=True)

    def kill(self, vm: str, host: str) -> None:
        """Kill a guest."""
        self._ground.kill(vm, host)

    def lose(self, host: str, vms: Sequence[str]) -> None:
        """Kill everything on a host."""
        for vm in vms:
            self.kill(vm, host)

    def end(self) -> None:
        """Do nothing: the end of the hosts kills their QEMUs."""
