"""Two real libvirts on this machine, each as if on a host of its own.

Each libvirtd has namespaces for mounts and the hostname, and an ID of its own, so that VMs
can migrate between them. What is only unpacked is laid over `/usr` there.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import unpacked
from tests.support.agents import free_port
from tests.support.processes import eventually

QEMU = "qemu-system-x86_64"
PYTHON = "/usr/bin/python3"

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
"""A guest that waits for a key, and then shuts itself down by ACPI, as q35 has it."""

POOL = """
<pool type='dir'><name>images</name><target><path>{folder}</path></target></pool>
"""

QEMU_IMG = """#!/bin/sh
# While the file `hold` is there, the creation of an image stops after its beginning.
if [ -e {folder}/hold ] && [ "$1" = create ]; then
    for last; do case $last in /*) path=$last ;; esac; done
    printf part > "$path"
    touch {folder}/held
    while [ -e {folder}/hold ]; do sleep 0.05; done
fi
exec {folder}/qemu-img.real "$@"
"""

QEMU_SETTINGS = """
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""

LIBVIRT_SETTINGS = """
unix_sock_dir = "{folder}/run"
auth_unix_rw = "none"
auth_unix_ro = "none"
host_uuid = "{uuid}"
listen_tls = 1
listen_addr = "127.0.0.1"
tls_port = "{port}"
ca_file = "{pki}/cacert.pem"
cert_file = "{pki}/servercert.pem"
key_file = "{pki}/serverkey.pem"
log_outputs = "3:file:{folder}/log"
"""

ENTER = """
set -e
folder=$1; name=$2; shift 2
for layer; do
    mount -t overlay overlay -o "lowerdir=$layer/usr:/usr" /usr
    test ! -d "$layer/lib" || mount -t overlay overlay -o "lowerdir=$layer/lib:/usr/lib" /usr/lib
done
cp /etc/passwd /etc/group "$folder"
echo libvirt-qemu:x:64055:64055::/:/bin/false >> "$folder/passwd"
echo sshd:x:64057:65534::/run/sshd:/bin/false >> "$folder/passwd"
printf 'libvirt-qemu:x:64055:\\nkvm:x:64056:\\n' >> "$folder/group"
mount --bind "$folder/passwd" /etc/passwd
mount --bind "$folder/group" /etc/group
hostname "$name"
mkdir -p /run/libvirt /var/lib/libvirt /var/cache/libvirt /etc/libvirt
mount --bind "$folder/state" /run/libvirt
mount --bind "$folder/lib" /var/lib/libvirt
mount --bind "$folder/cache" /var/cache/libvirt
mount --bind "$folder/etc" /etc/libvirt
ln -sf "$folder/run/libvirt-sock" /run/libvirt/libvirt-sock
cp /usr/bin/qemu-img "$folder/qemu-img.real"
mount --bind "$folder/qemu-img" /usr/bin/qemu-img
mkdir -p /run/sshd
/usr/sbin/sshd -D -f "$folder/sshd_config" -E "$folder/sshd.log" &
exec libvirtd --listen -f "$folder/libvirtd.conf" -p "$folder/run/libvirtd.pid"
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

RUNNER = """
import runpy, sys
sys.path.append({modules!r})
del sys.argv[0]
while sys.argv[0].startswith("-"):
    del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

ASK = """
import json, sys, libvirt
libvirt.registerErrorHandler(lambda *_: None, None)
order = json.load(sys.stdin)
conn = libvirt.open(order["uri"])
match order["do"]:
    case "start":
        conn.defineXML(order["xml"]).create()
    case "state":
        try:
            print(json.dumps(conn.lookupByName(order["vm"]).state()))
        except libvirt.libvirtError:
            print("null")
    case "remove":
        for domain in conn.listAllDomains():
            is_persistent = domain.isPersistent()
            if domain.isActive():
                domain.destroy()
            if order["all"] and is_persistent:
                domain.undefineFlags(7)
        for pool in conn.listAllStoragePools():
            pool.destroy()
            pool.undefine()
    case "pool":
        pool = conn.storagePoolDefineXML(order["xml"])
        pool.setAutostart(1)
        pool.create()
    case "key":
        conn.lookupByName(order["vm"]).sendKey(0, 100, [28], 1, 0)
    case "xml":
        print(json.dumps(conn.lookupByName(order["vm"]).XMLDesc(2)))
    case "define":
        conn.defineXML(order["xml"])
    case "undefine" | "resume" | "suspend" | "destroy" | "create" as name:
        getattr(conn.lookupByName(order["vm"]), name)()
    case "vol-delete":
        conn.storageVolLookupByPath(order["path"]).delete()
    case "rename":
        conn.lookupByName(order["vm"]).rename(order["to"])
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


class RealLibvirts:
    """The hosts h1 and h2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = f"qemu+unix:///system?socket={folder}/{{host}}/run/libvirt-sock"
        self.data_uri = f"unix://{folder}/move.{{host}}"
        self.pki = folder / "pki"
        self._make_keys()
        first = free_port(following=3)
        self._ports = {"h1": first, "h2": first + 1}
        self._ssh_ports = {"h1": first + 2, "h2": first + 3}
        self.python = self._python()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for host in ("h1", "h2"):
            for name in ("run", "lib", "cache", "etc", "state"):
                (folder / host / name).mkdir(parents=True)
            (folder / host / "etc" / "qemu.conf").write_text(QEMU_SETTINGS)
            wrapper = folder / host / "qemu-img"
            wrapper.write_text(QEMU_IMG.format(folder=folder / host))
            wrapper.chmod(0o755)
            uuid = f"00000000-0000-4000-8000-0000000000{host.replace('h', 'f')}"
            text = LIBVIRT_SETTINGS.format(
                folder=folder / host, uuid=uuid, port=self._ports[host], pki=self.pki
            )
            (folder / host / "libvirtd.conf").write_text(text)
            text = SSH_SETTINGS.format(port=self._ssh_ports[host], pki=self.pki)
            (folder / host / "sshd_config").write_text(text)
            self.begin(host)

    def _make_keys(self) -> None:
        """Create the certificates for TLS and the keys for SSH."""
        self.pki.mkdir()
        words = ["sh", "-c", CERTIFICATES, "sh", str(self.pki)]
        subprocess.run(words, check=True, capture_output=True)
        for name in ("hostkey", "userkey"):
            keygen = Path(unpacked.find("ssh")).with_name("ssh-keygen")
            words = [str(keygen), "-q", "-t", "ed25519", "-N", "", "-f", name]
            subprocess.run(
                words, check=True, cwd=self.pki, env=unpacked.environment("ssh")
            )

    def _python(self) -> str:
        """Return a Python that has the module."""
        if not unpacked.is_unpacked("libvirtd"):
            return PYTHON
        python, runner = self.folder / "python", self.folder / "runner.py"
        modules = str(unpacked.TOOLS / "usr/lib/python3/dist-packages")
        runner.write_text(RUNNER.format(modules=modules))
        path = os.pathsep.join(unpacked.libraries())
        python.write_text(
            f"#!/bin/sh\nexport LD_LIBRARY_PATH={shlex.quote(path)}\n"
            f'exec {PYTHON} -I {runner} "$@"\n'
        )
        python.chmod(0o755)
        return str(python)

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

    def begin(self, host: str) -> None:
        """Start the libvirtd of a host."""
        layers = [str(unpacked.TOOLS)] if unpacked.is_unpacked("libvirtd") else []
        words = [ENTER, "sh", str(self.folder / host), host, *layers]
        with (self.folder / host / "said").open("ab") as said:
            self._processes[host] = subprocess.Popen(
                ["unshare", "-mu", "--propagation", "private", "sh", "-c", *words],
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        socket = self.folder / host / "run" / "libvirt-sock"
        eventually(socket.exists, bool, what=f"libvirt of {host}")

    def kill(self, host: str) -> None:
        """Kill the libvirtd of a host and its sshd; its VMs go on."""
        process = self._processes.pop(host)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        (self.folder / host / "run" / "libvirt-sock").unlink(missing_ok=True)

    def hang(self, host: str) -> None:
        """Stop the libvirtd of a host, which answers nothing until `go_on`."""
        os.killpg(self._processes[host].pid, signal.SIGSTOP)

    def go_on(self, host: str) -> None:
        """Let a libvirtd that hangs go on."""
        os.killpg(self._processes[host].pid, signal.SIGCONT)

    def ask(self, host: str, do: str, **more: Any) -> Any:
        """Do something by hand."""
        order = {"uri": self.uri.replace("{host}", host), "do": do, **more}
        script = self.folder / "ask.py"
        script.write_text(ASK)
        done = subprocess.run(
            [self.python, str(script)],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else None

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
        images = self.folder / host / "images"
        images.mkdir(exist_ok=True)
        base, image = images / "base.raw", images / f"{vm}.qcow2"
        base.write_bytes((BOOT_SECTOR + b"\x55\xaa").ljust(1 << 20, b"\0"))
        self.make_image(base, image)
        self.ask(host, "pool", xml=POOL.format(folder=images))
        self.start(vm, host, disk=str(image))
        return image

    def make_image(self, base: Path, image: Path) -> None:
        """Create an empty image above a base image."""
        words = [
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
        self.qemu_img(*words)

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
        found: list[int] | None = self.ask(host, "state", vm=vm)
        return found

    def remove_all(self) -> None:
        """Remove the VMs of all hosts."""
        for host in ("h1", "h2"):
            self.ask(host, "remove", all=True)

    def shut_down_from_inside(self, vm: str, host: str) -> None:
        """Press a key of a guest with an image, which then shuts itself down."""

        def state() -> list[int] | None:
            with contextlib.suppress(AssertionError):
                self.ask(host, "key", vm=vm)
            return self.state(vm, host)

        eventually(state, lambda found: found == [OFF, 1], what="the guest to be off")

    def hold_images(self, host: str) -> None:
        """Let the next creation of an image stop in its middle."""
        (self.folder / host / "held").unlink(missing_ok=True)
        (self.folder / host / "hold").touch()

    def wait_for_image(self, host: str) -> None:
        """Return when an image is created in part."""
        eventually((self.folder / host / "held").exists, bool, what="an image")

    def release_images(self, host: str) -> None:
        """Let the creation of images go on."""
        (self.folder / host / "hold").unlink()

    def kill_program(self, name: str) -> None:
        """Kill the driver's program `work` or its workers, `serve`."""
        eventually(
            lambda: _kill(self._is_program(name)), bool, what=f"a program {name}"
        )

    def kill_shims(self, folder: Path) -> None:
        """Kill the processes that record the ends of a service's programs."""
        about = str(folder).encode()
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
        runner = str(self.folder / "runner.py").encode()
        return lambda words: runner in words and words[-1] == name.encode()

    def kill_qemu(self, vm: str) -> None:
        """Kill the QEMU of a VM as the kernel does if memory is short."""
        wanted = f"guest={vm},".encode()
        _kill(lambda words: any(wanted in word for word in words))

    def end(self) -> None:
        """End everything."""
        with contextlib.suppress(AssertionError):
            self.remove_all()
        for host in [*self._processes]:
            self.kill(host)


def _pids(is_wanted: Callable[[list[bytes]], bool]) -> list[int]:
    """Return the processes with these arguments."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            if is_wanted(words) and str(os.getpid()) != folder.name:
                found.append(int(folder.name))
    return found


def _kill(is_wanted: Callable[[list[bytes]], bool]) -> list[int]:
    """Kill the processes with these arguments; return them."""
    found = _pids(is_wanted)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found
