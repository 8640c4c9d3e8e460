"""The guests of the lab as domains of libvirt: each host has a libvirtd of its own."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from examples.lab.bare import QEMU
from examples.lab.hosts import GATEWAY, Ground, Guest
from examples.lab.libvirts import NO_TLS, PYTHON, START_SECONDS, Libvirts
from examples.lab.relays import Relays
from examples.lab.start_guest import ARGUMENTS

SETTINGS = """\
[driver]
kind = "libvirt"
sighting_confirm = "2s"
[driver.libvirt]
python = {python}
uri = {uri}
data_uri = "tcp://{{host}}"
freeze = "2s"
shutdown_timeout = "1s"
[host_step.restart]
program = {restart}
"""

DOMAIN = """
<domain type='qemu'><name>{vm}</name><memory unit='MiB'>{memory}</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type>
<kernel>{kernel}</kernel><initrd>{initramfs}</initrd><cmdline>{arguments}</cmdline></os>
<features><acpi/><tcg><tb-cache unit='MiB'>32</tb-cache></tcg></features>
<cpu mode='custom'><model>qemu64</model></cpu>
<devices><emulator>{qemu}</emulator><memballoon model='none'/>
<controller type='usb' model='none'/>
<serial type='file'><source path='/run/libvirt/consoles/{vm}.log' append='on'/></serial>
<interface type='ethernet'><mac address='{mac}'/><target dev='{tap}' managed='no'/>
<model type='virtio'/><driver name='qemu'/><rom enabled='no'/></interface></devices></domain>
"""
"""Without acceleration: KVM is missing or broken on many machines that have /dev/kvm."""

BEFORE = 'mount --bind "$directory/hosts" /etc/hosts\n'

RESTART = """\
# Restarts a host: its relay, its libvirtd and its network.
{kill_relay}
kill -9 "$(cat {directory}/run/libvirtd.pid)"
rm -f {socket}
ip -n {space} link set br0 down
sleep 1
ip -n {space} link set br0 up
{start_relay}
setsid sh {directory}/start </dev/null >>{directory}/said 2>&1 &
left={tenths}
while [ ! -S {socket} ] && [ $((left -= 1)) -gt 0 ]; do sleep 0.1; done
[ -S {socket} ]
"""


def lacking(tools: Path) -> str:
    """Return why libvirt cannot run here; empty if it can."""
    packages = "libvirt-daemon libvirt-daemon-driver-qemu python3-libvirt"
    if not (_installed("libvirtd") or (tools / "usr/sbin/libvirtd").exists()):
        return (
            f"needs libvirtd (Debian: {packages}): sh tests/real/unpack.sh lab-libvirt"
        )
    if not Path(PYTHON).exists():
        return f"needs {PYTHON}, which has libvirt's module (Debian: python3)"
    if subprocess.run(["unshare", "-mu", "true"], check=False).returncode:
        return "needs namespaces for mounts: --privileged of a container"
    return ""


def _installed(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


class Domains:
    """Starts and kills guests as an operator of libvirt does."""

    restores = False
    """Guests boot from the kernel: libvirt restores only what it has saved."""

    daemons: tuple[str, ...] = ("libvirtd",)

    def __init__(
        self, ground: Ground, relays: Relays, tools: Path, cache: Path
    ) -> None:
        """Start nothing yet; `cache` keeps what libvirt finds out about QEMU."""
        self._ground, self._relays = ground, relays
        self._known = cache / "libvirt"
        is_whole = _installed("libvirtd") and _installed(QEMU)
        self._qemu = _installed(QEMU) or f"/usr/bin/{QEMU}"
        layer = None if is_whole else tools
        self.libvirts = Libvirts(ground.directory, ground.hosts, layer)
        self._xml: dict[str, str] = {}

    def learn(self, guest: Guest) -> None:
        """Note the domain of a guest."""
        who = f"{guest.address},{GATEWAY},{guest.mac},{guest.poll_ms}"
        self._xml[guest.name] = DOMAIN.format(
            vm=guest.name,
            memory=guest.memory,
            kernel=guest.kernel,
            initramfs=guest.initramfs,
            arguments=f"{ARGUMENTS} guest={who}",
            qemu=self._qemu,
            mac=guest.mac,
            tap=guest.tap,
        )

    def begin(self) -> None:
        """Start the libvirtds; the hosts have their network."""
        hosts = [*self._ground.hosts]
        lines = [f"{self._ground.address_of(host)} {host}\n" for host in hosts]
        names = "".join(("127.0.0.1 localhost\n", *lines))
        with ThreadPoolExecutor(len(hosts)) as side:
            for begun in [side.submit(self._begin, host, names) for host in hosts]:
                begun.result()

    def _begin(self, host: str, names: str) -> None:
        directory = self._ground.directory / host
        self.libvirts.prepare(host, settings=NO_TLS, before=BEFORE)
        (directory / "hosts").write_text(names, "utf-8")
        # A guest that moves goes on writing to the console of its new host.
        (directory / "state" / "consoles").symlink_to(directory)
        self.libvirts.write_start(host, directory / "start")
        if self._known.exists():
            shutil.copytree(self._known, directory / "cache", dirs_exist_ok=True)
        kill, start = self._relays.restart_lines(host)
        restart = RESTART.format(
            kill_relay=kill,
            start_relay=start,
            directory=directory,
            socket=self.libvirts.socket(host),
            space=self._ground.hosts[host],
            tenths=round(START_SECONDS * 10),
        )
        (directory / "restart").write_text(restart, "utf-8")
        self.libvirts.begin(host)

    def settings(self) -> str:
        """Return the settings of the driver."""
        restart = ["/bin/sh", f"{self._ground.directory}/{{host}}/restart"]
        return SETTINGS.format(
            python=json.dumps(self.libvirts.python),
            uri=json.dumps(self.libvirts.uri),
            restart=json.dumps(restart),
        )

    def start(self, vm: str, host: str) -> None:
        """Start a guest, which is defined if the host does not have it."""
        self.libvirts.ask(host, "up", vm=vm, xml=self._xml[vm])

    def kill(self, vm: str, host: str) -> None:
        """Kill the QEMU of a guest."""
        self.libvirts.kill_guest(vm, host)

    def lose(self, host: str, vms: Sequence[str]) -> None:
        """Kill everything on a host, and start its libvirt again, without the guests."""
        self.libvirts.kill_libvirtd(host)
        for vm in vms:
            self.kill(vm, host)
        self.libvirts.begin(host)

    def end(self) -> None:
        """Kill everything."""
        for host in self._ground.hosts:
            self.libvirts.kill_libvirtd(host)
            for vm in self._xml:
                self.kill(vm, host)
            self._keep(self._ground.directory / host / "cache")

    def _keep(self, found: Path) -> None:
        """Keep the abilities of QEMU, for which libvirt needs some seconds."""
        if self._known.exists() or not list(found.glob("qemu/capabilities/*.xml")):
            return
        new = Path(tempfile.mkdtemp(dir=self._known.parent))
        shutil.copytree(found, new / "cache")
        with contextlib.suppress(OSError):
            (new / "cache").rename(self._known)
        shutil.rmtree(new)
