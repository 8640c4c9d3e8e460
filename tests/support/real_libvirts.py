"""Two real libvirts on this machine (`examples/lab`), also over TLS and SSH, and faults."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from examples.lab.libvirts import Libvirts

from tests.support import unpacked
from tests.support.agents import free_port
from tests.support.processes import eventually

QEMU = "qemu-system-x86_64"

RUNNING, PAUSED, OFF = 1, 3, 5
"""virDomainState."""

DOMAIN = """
<domain type='qemu'><name>{vm}</name><memory unit='MiB'>16</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os><features><acpi/></features>
<cpu mode='custom'><model>qemu64</model></cpu><on_poweroff>destroy</on_poweroff>
<devices><emulator>{qemu}</emulator><memballoon model='none'/>
<controller type='usb' model='none'/>{devices}</devices></domain>
"""
"""A guest that is only firmware, without acceleration: /dev/kvm may be broken."""

DISK = """
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
<source file='{path}'/><target dev='sda' bus='sata'/></disk>
"""

BOOT_SECTOR = bytes.fromhex("30e4 cd16 ba0406 b80020 ef f4 ebfd").ljust(510, b"\0")
"""A guest that waits for a key, and then shuts itself down by ACPI, as on q35."""

POOL = """
<pool type='dir'><name>images</name><target><path>{directory}</path></target></pool>
"""

QEMU_IMG = """#!/bin/sh
# While the file `hold` is there, the creation of an image stops after its beginning.
if [ -e {directory}/hold ] && [ "$1" = create ]; then
    for last; do case $last in /*) path=$last ;; esac; done
    printf part > "$path"
    touch {directory}/held
    while [ -e {directory}/hold ]; do sleep 0.05; done
fi
exec {directory}/qemu-img.real "$@"
"""

TLS_SETTINGS = """
listen_tls = 1
listen_addr = "127.0.0.1"
tls_port = "{port}"
ca_file = "{pki}/cacert.pem"
cert_file = "{pki}/servercert.pem"
key_file = "{pki}/serverkey.pem"
"""

BEFORE = """
echo sshd:x:64057:65534::/run/sshd:/bin/false >> "$directory/passwd"
cp /usr/bin/qemu-img "$directory/qemu-img.real"
mount --bind "$directory/qemu-img" /usr/bin/qemu-img
test -d /run/sshd || mkdir /run/sshd
/usr/sbin/sshd -D -f "$directory/sshd_config" -E "$directory/sshd.log" &
"""

SSH_SETTINGS = """
Port {port}
ListenAddress 127.0.0.1
HostKey {pki}/hostkey
AuthorizedKeysFile {pki}/userkey.pub
PidFile none
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
"""

CERTIFICATES = """
set -e
cd "$1"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=tests \\
    -keyout cakey.pem -out cacert.pem
for of in server client; do
    openssl req -newkey rsa:2048 -nodes -subj /CN=$of \\
        -addext subjectAltName=IP:127.0.0.1 -keyout ${of}key.pem -out $of.csr
    openssl x509 -req -in $of.csr -CA cacert.pem -CAkey cakey.pem -CAcreateserial \\
        -copy_extensions copy -days 2 -out ${of}cert.pem
done
"""


def why_not() -> str:
    """Return why real libvirts cannot run here; empty: they can."""
    if missing := unpacked.needs("libvirtd", QEMU, "ssh", "sshd", "openssl"):
        return missing
    if os.getuid():
        return "needs root, for namespaces"
    if subprocess.run(["unshare", "-mu", "true"], check=False).returncode:
        return "needs namespaces for mounts"
    return ""


class RealLibvirts(Libvirts):
    """The hosts h1 and h2."""

    def __init__(self, directory: Path) -> None:
        layer = unpacked.TOOLS if unpacked.is_unpacked("libvirtd") else None
        super().__init__(directory, {"h1": "", "h2": ""}, layer)
        self.data_uri = f"unix://{directory}/move.{{host}}"
        self.pki = directory / "pki"
        self._make_keys()
        first = free_port(following=3)
        self._ports = {"h1": first, "h2": first + 1}
        self._ssh_ports = {"h1": first + 2, "h2": first + 3}
        for host in ("h1", "h2"):
            tls = TLS_SETTINGS.format(port=self._ports[host], pki=self.pki)
            self.prepare(host, settings=tls, before=BEFORE)
            # Where /run is read-only below it.
            (directory / host / "point" / "sshd").mkdir()
            wrapper = directory / host / "qemu-img"
            wrapper.write_text(QEMU_IMG.format(directory=directory / host))
            wrapper.chmod(0o755)
            text = SSH_SETTINGS.format(port=self._ssh_ports[host], pki=self.pki)
            (directory / host / "sshd_config").write_text(text)
            self.begin(host)

    def _make_keys(self) -> None:
        """Create the certificates for TLS and the keys for SSH."""
        self.pki.mkdir()
        command = ["sh", "-c", CERTIFICATES, "sh", str(self.pki)]
        subprocess.run(command, check=True, capture_output=True)
        for name in ("hostkey", "userkey"):
            keygen = Path(unpacked.find("ssh")).with_name("ssh-keygen")
            command = [str(keygen), "-q", "-t", "ed25519", "-N", "", "-f", name]
            subprocess.run(
                command, check=True, cwd=self.pki, env=unpacked.environment("ssh")
            )

    def tls_uri(self, host: str) -> str:
        """Return the URI of a host over TLS, with a certificate on both sides."""
        port = self._ports[host]
        # libvirt refuses to migrate a VM to a host that is named localhost.
        return f"qemu+tls://127.0.0.1:{port}/system?pkipath={self.pki}"

    def ssh_uri(self, host: str) -> str:
        """Return the URI of a host over SSH."""
        key, ssh = self.pki / "userkey", unpacked.find("ssh")
        return (
            f"qemu+ssh://root@127.0.0.1:{self._ssh_ports[host]}/system"
            f"?keyfile={key}&no_verify=1&command={ssh}"
        )

    def hang(self, host: str) -> None:
        """Stop the libvirtd of a host, which answers nothing until `go_on`."""
        os.killpg(self.processes[host].pid, signal.SIGSTOP)

    def go_on(self, host: str) -> None:
        """Continue a stopped libvirtd."""
        os.killpg(self.processes[host].pid, signal.SIGCONT)

    def start(self, vm: str, host: str, *, disk: str = "") -> None:
        """Start a VM; `disk` is the path of its image."""
        devices = disk and DISK.format(path=disk)
        self.ask(host, "start", xml=self.domain_xml(vm, devices=devices))

    def domain_xml(self, vm: str, *, devices: str = "") -> str:
        """Return the definition of a VM."""
        qemu = f"/usr/bin/{QEMU}" if unpacked.is_unpacked(QEMU) else unpacked.find(QEMU)
        return DOMAIN.format(vm=vm, qemu=qemu, devices=devices)

    def start_with_image(self, vm: str, host: str) -> Path:
        """Start a VM that shuts itself down after a key; return its image in a pool."""
        images = self.directory / host / "images"
        images.mkdir(exist_ok=True)
        base, image = images / "base.raw", images / f"{vm}.qcow2"
        base.write_bytes((BOOT_SECTOR + b"\x55\xaa").ljust(1 << 20, b"\0"))
        self.make_image(base, image)
        self.ask(host, "pool", xml=POOL.format(directory=images))
        self.start(vm, host, disk=str(image))
        return image

    def make_image(self, base: Path, image: Path) -> None:
        """Create an empty image above a base image."""
        arguments = [
            "create",
            "-q",
            "-f",
            "qcow2",
            "-F",
            "raw",
            "-b",
            str(base),
            str(image),
        ]
        self.qemu_img(*arguments)

    def qemu_img(self, *words: str) -> str:
        """Run qemu-img; return its output."""
        return subprocess.run(
            [unpacked.find("qemu-img"), *words],
            env=unpacked.environment("qemu-img"),
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def state(self, vm: str, host: str) -> list[int] | None:
        """Return the state of a VM; None: the host has no such domain."""
        state: list[int] | None = self.ask(host, "state", vm=vm)
        return state

    def shut_down_from_inside(self, vm: str, host: str) -> None:
        """Press a key of a guest with an image, which then shuts itself down."""

        def state() -> list[int] | None:
            with contextlib.suppress(RuntimeError):
                self.ask(host, "key", vm=vm)
            return self.state(vm, host)

        eventually(state, lambda found: found == [OFF, 1], what="the guest to be off")

    def hold_images(self, host: str) -> None:
        """Let the next creation of an image stop in its middle."""
        (self.directory / host / "held").unlink(missing_ok=True)
        (self.directory / host / "hold").touch()

    def wait_for_image(self, host: str) -> None:
        """Return when an image is created in part."""
        eventually((self.directory / host / "held").exists, bool, what="an image")

    def release_images(self, host: str) -> None:
        """Continue the creation of images."""
        (self.directory / host / "hold").unlink()

    def kill_program(self, name: str) -> None:
        """Kill the driver's program `work` or its workers, `serve`."""
        eventually(
            lambda: _kill(self._is_program(name)), bool, what=f"a program {name}"
        )

    def kill_shims(self, directory: Path) -> None:
        """Kill the processes that record the ends of a service's programs."""
        about = str(directory).encode()
        killed = _kill(
            lambda words: (
                any(b"shim" in word for word in words)
                and any(about in word for word in words)
            )
        )
        assert killed, "no process records the end of a program"

    def wait_for_program(self, name: str) -> None:
        """Return when a program of the driver runs."""
        eventually(
            lambda: _pids(self._is_program(name)), bool, what=f"a program {name}"
        )

    def _is_program(self, name: str) -> Callable[[list[bytes]], bool]:
        runner = str(self.directory / "runner.py").encode()
        return lambda words: runner in words and words[-1] == name.encode()

    def kill_qemu(self, vm: str) -> None:
        """Kill the QEMU of a VM on its host."""
        for host in ("h1", "h2"):
            self.kill_guest(vm, host)


def _pids(is_wanted: Callable[[list[bytes]], bool]) -> list[int]:
    """Return the processes with these arguments."""
    pids: list[int] = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (directory / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            if is_wanted(command) and str(os.getpid()) != directory.name:
                pids.append(int(directory.name))
    return pids


def _kill(is_wanted: Callable[[list[bytes]], bool]) -> list[int]:
    """Kill the processes with these arguments; return them."""
    pids = _pids(is_wanted)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids
