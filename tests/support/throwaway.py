"""A throw-away copy of this machine's Debian, to install packages in.

An overlay over `/`, whose upper layer is memory, in namespaces of its own: mounts,
processes and network. When the script has ended nothing of it is left, and the machine
has noticed nothing. It may have a systemd of its own.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = ("unshare", "mount", "umount", "pivot_root", "chroot", "dpkg", "ip")
SYSTEMD = Path("/lib/systemd/systemd")
SPACES = ("--mount", "--net", "--pid", "--cgroup", "--uts", "--ipc")

_ROOT = """\
set -e
mount -t tmpfs tmpfs {place}
mkdir {place}/upper {place}/work {place}/root
mount -t overlay overlay -o lowerdir=/,upperdir={place}/upper,workdir={place}/work \\
    {place}/root
cd {place}/root
mount -t proc proc proc
mount -t tmpfs tmpfs run
mkdir -p packages said
cp -- {packages} packages/
# Otherwise each installation creates the index of all manual pages again.
rm -f var/lib/man-db/auto-update
mount --bind {said} said
ip link set lo up
"""

_ENVIRONMENT = """\
/usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/tmp \\
    DEBIAN_FRONTEND=noninteractive"""

_SHELL = f"""\
mount --rbind /dev dev
exec chroot . {_ENVIRONMENT} sh -e /packages/script >said/all 2>&1
"""

_UNIT = """\
[Unit]
DefaultDependencies=no

[Service]
Type=oneshot
ExecStart=/bin/sh -e /packages/script
ExecStopPost=/bin/systemctl --force --force exit
StandardOutput=file:/said/all
StandardError=inherit
PassEnvironment=PATH LC_ALL HOME DEBIAN_FRONTEND
"""

_BOOT = f"""\
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs dev
for node in null zero full random urandom tty; do
    touch dev/$node
    mount --bind /dev/$node dev/$node
done
mkdir dev/shm dev/pts dev/mqueue dev/hugepages
mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
# Nothing of this machine begins in it, and nothing of it changes this machine.
: >etc/fstab
rm -rf etc/systemd/system/*.wants usr/sbin/policy-rc.d
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-sysctl.service \\
    systemd-modules-load.service systemd-random-seed.service systemd-binfmt.service \\
    systemd-remount-fs.service systemd-hwdb-update.service systemd-timesyncd.service \\
    systemd-networkd.service systemd-resolved.service systemd-udevd-control.socket \\
    systemd-udevd-kernel.socket proc-sys-fs-binfmt_misc.automount swap.target \\
    dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount \\
    sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount
do
    ln -sf /dev/null etc/systemd/system/$unit
done
cp packages/unit etc/systemd/system/throwaway.service
# Units with mounts of their own want a root that is one.
mount --make-rprivate /
mkdir old
pivot_root . old
umount -l /old
exec {_ENVIRONMENT} container=lxc {SYSTEMD} --system --unit=throwaway.service \\
    --log-target=journal
"""


def _missing() -> str:
    """Return what a throw-away root lacks here, in words; empty: nothing."""
    if not Path("/etc/debian_version").exists():
        return "this is no Debian"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"{', '.join(absent)} is not installed"
    if os.geteuid() != 0:
        return "only root can make one"
    probe = subprocess.run(
        ["unshare", *SPACES, "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True,
        check=False,
    )
    return "no namespaces with mounts here" if probe.returncode else ""


def install(script: str, *packages: Path, place: Path, seconds: float) -> str:
    """Run a script of the shell in a throw-away root, and return what it says.

    No systemd runs there. The packages are in its `/packages`. Skips where no such
    root can be made; fails with everything that was said where the script does not
    come to its `THE END`.
    """
    return _play(_SHELL, script, *packages, place=place, seconds=seconds)


def boot(script: str, *packages: Path, place: Path, seconds: float) -> str:
    """Do the same under a systemd that runs only the given units."""
    if not SYSTEMD.exists():
        pytest.skip("systemd is not installed")
    return _play(_BOOT, script, *packages, place=place, seconds=seconds)


def _play(then: str, script: str, *packages: Path, place: Path, seconds: float) -> str:
    if missing := _missing():
        pytest.skip(f"no throw-away root to install in: {missing}")
    output = place / "said"
    output.mkdir(parents=True)
    (place / "root").mkdir()
    (place / "script").write_text(script, encoding="utf-8")
    (place / "unit").write_text(_UNIT, encoding="utf-8")
    copied = (*packages, place / "script", place / "unit")
    enter = _ROOT.format(
        place=shlex.quote(str(place / "root")),
        said=shlex.quote(str(output)),
        packages=shlex.join(str(path) for path in copied),
    )
    done = subprocess.run(
        ["unshare", *SPACES, "--fork", "--kill-child", "sh", "-c", enter + then],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    all_output = output / "all"
    text = all_output.read_text(encoding="utf-8") if all_output.exists() else ""
    assert text.rstrip().endswith("THE END"), done.stdout + text
    return text
