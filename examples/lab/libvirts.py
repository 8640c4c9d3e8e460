"""Real libvirts on this machine, each as if on a host of its own.

Each libvirtd has namespaces for mounts and the hostname, and an ID of its own, so that VMs
can migrate between them. An unpacked libvirt is laid over `/usr` there, and directories that the
machine does not have over `/etc` and others, so that nothing is left of them.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.lab.hosts import kill_noted

PYTHON = "/usr/bin/python3"

START_SECONDS = 60.0
"""Maximum seconds until a libvirtd answers on a busy machine; an idle one needs one."""

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
unix_sock_dir = "{directory}/run"
auth_unix_rw = "none"
auth_unix_ro = "none"
host_uuid = "{uuid}"
log_outputs = "3:file:{directory}/log"
"""

NO_TLS = "listen_tls = 0\n"

ENTER = """
set -e
directory=$1; name=$2; shift 2
for layer; do
    mount -t overlay overlay -o "lowerdir=$layer/usr:/usr" /usr
    test ! -d "$layer/lib" || mount -t overlay overlay -o "lowerdir=$layer/lib:/usr/lib" /usr/lib
done
hostname "$name"
for parent in /run /var/lib /var/cache /etc; do
    test -d "$parent/libvirt" ||
        mount -t overlay overlay -o "lowerdir=$directory/point:$parent" "$parent"
done
cp /etc/passwd /etc/group "$directory"
echo libvirt-qemu:x:64055:64055::/:/bin/false >> "$directory/passwd"
printf 'libvirt-qemu:x:64055:\\nkvm:x:64056:\\n' >> "$directory/group"
mount --bind "$directory/passwd" /etc/passwd
mount --bind "$directory/group" /etc/group
mount --bind "$directory/state" /run/libvirt
mount --bind "$directory/lib" /var/lib/libvirt
mount --bind "$directory/cache" /var/cache/libvirt
mount --bind "$directory/etc" /etc/libvirt
ln -sf "$directory/run/libvirt-sock" /run/libvirt/libvirt-sock
test ! -e "$directory/before" || . "$directory/before"
exec libvirtd --listen -f "$directory/libvirtd.conf" -p "$directory/run/libvirtd.pid"
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
    case "up":
        try:
            domain = conn.lookupByName(order["vm"])
        except libvirt.libvirtError:
            domain = conn.defineXML(order["xml"])
        domain.create()
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


class Libvirts:
    """The libvirts of some hosts, which are started one by one.

    The path of the directory must be short, since it is in the paths of sockets.
    """

    def __init__(
        self, directory: Path, spaces: Mapping[str, str], unpacked: Path | None
    ) -> None:
        """Start nothing yet.

        `spaces` are the hosts and their network namespaces, empty: the machine's own.
        `unpacked` is where libvirt is only unpacked; None: it is installed.
        """
        self.directory = directory
        self.uri = f"qemu+unix:///system?socket={directory}/{{host}}/run/libvirt-sock"
        self._spaces, self._unpacked = spaces, unpacked
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.python = self._python()

    def prepare(self, host: str, *, settings: str = NO_TLS, before: str = "") -> None:
        """Make the directories of a host.

        `settings` are more ones of libvirtd, and `before` are commands of the shell that
        come before it.
        """
        directory = self.directory / host
        for name in ("run", "lib", "cache", "etc", "state", "point/libvirt"):
            (directory / name).mkdir(parents=True)
        (directory / "etc" / "qemu.conf").write_text(QEMU_SETTINGS, "utf-8")
        uuid = f"00000000-0000-4000-8000-0000000000{host.replace('h', 'f')}"
        text = LIBVIRT_SETTINGS.format(directory=directory, uuid=uuid)
        (directory / "libvirtd.conf").write_text(text + settings, "utf-8")
        (directory / "before").write_text(before, "utf-8")

    def _python(self) -> str:
        """Return a Python that has the module."""
        if self._unpacked is None:
            return PYTHON
        python, runner = self.directory / "python", self.directory / "runner.py"
        modules = str(self._unpacked / "usr/lib/python3/dist-packages")
        runner.write_text(RUNNER.format(modules=modules), "utf-8")
        places = ("usr/lib", "usr/lib/*-linux-gnu", "lib/*-linux-gnu")
        found = [str(path) for place in places for path in self._unpacked.glob(place)]
        python.write_text(
            f"#!/bin/sh\nexport LD_LIBRARY_PATH={shlex.quote(os.pathsep.join(found))}\n"
            f'exec {PYTHON} -I {runner} "$@"\n',
            "utf-8",
        )
        python.chmod(0o755)
        return str(python)

    def words(self, host: str) -> list[str]:
        """Return the command that becomes the libvirtd of a host."""
        layers = [str(self._unpacked)] if self._unpacked else []
        space = self._spaces[host]
        return [
            *(["ip", "netns", "exec", space] if space else []),
            *("unshare", "-mu", "--propagation", "private"),
            *("sh", "-c", ENTER, "sh", str(self.directory / host), host, *layers),
        ]

    def write_start(self, host: str, path: Path) -> None:
        """Write a script of the shell that becomes the libvirtd of a host."""
        path.write_text(f"exec {shlex.join(self.words(host))}\n", "utf-8")

    def socket(self, host: str) -> Path:
        """Return the socket of a host's libvirt."""
        return self.directory / host / "run" / "libvirt-sock"

    def begin(self, host: str) -> None:
        """Start the libvirtd of a host; return when it listens."""
        log = self.directory / host / "said"
        with log.open("ab") as said:
            self.processes[host] = subprocess.Popen(
                self.words(host), stdout=said, stderr=said, start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.socket(host).exists():
            has_ended = self.processes[host].poll() is not None
            if has_ended or time.monotonic() > deadline:
                told = log.read_text("utf-8", "replace")[-2000:]
                raise RuntimeError(f"the libvirt of {host} did not start: {told}")
            time.sleep(0.05)

    def kill(self, host: str) -> None:
        """Kill the libvirtd of a host and what was started with it; its VMs go on."""
        process = self.processes.pop(host)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.socket(host).unlink(missing_ok=True)

    def kill_libvirtd(self, host: str) -> None:
        """Kill the libvirtd of a host, also one that `write_start` has started."""
        directory = self.directory / host
        kill_noted(directory / "run" / "libvirtd.pid", f"{directory}/libvirtd.conf")
        if host in self.processes:
            self.kill(host)

    def kill_guest(self, vm: str, host: str) -> None:
        """Kill the QEMU of a VM as the kernel does if memory is short."""
        file = self.directory / host / "state" / "qemu" / f"{vm}.pid"
        kill_noted(file, f"guest={vm},")

    def ask(self, host: str, do: str, **more: Any) -> Any:
        """Do something by hand; raises RuntimeError."""
        order = {"uri": self.uri.replace("{host}", host), "do": do, **more}
        script = self.directory / "ask.py"
        script.write_text(ASK, "utf-8")
        done = subprocess.run(
            [self.python, str(script)],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"libvirt of {host}: {do}: {done.stderr.strip()}")
        return json.loads(done.stdout) if done.stdout else None

    def end(self) -> None:
        """End everything."""
        with contextlib.suppress(RuntimeError):
            self.remove_all()
        for host in [*self.processes]:
            self.kill(host)

    def remove_all(self) -> None:
        """Remove the VMs of all hosts."""
        for host in self._spaces:
            self.ask(host, "remove", all=True)
