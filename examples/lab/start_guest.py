"""Start the QEMU of a guest on a host, and end. The driver runs it, and so do people:

    start_guest.py WORLD.json VM HOST              # from the saved memory: half a second
    start_guest.py WORLD.json VM HOST --boot       # from the kernel
    start_guest.py WORLD.json VM HOST --receive    # for a live migration

It is also how `driver.qemu.start` and `driver.qemu.receive` can look.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MEMORY_MIB = 96
"""Memory of a guest that busybox fits in."""

MACHINE = (
    *("-machine", "q35", "-cpu", "qemu64", "-smp", "1"),
    # KVM is missing or broken on many machines that have /dev/kvm.
    *("-accel", "tcg,tb-size=32"),
    *("-nodefaults", "-no-user-config", "-display", "none", "-rtc", "clock=vm"),
)
"""The same for each guest, or no memory that was saved or moved would fit."""

ARGUMENTS = "console=ttyS0 quiet panic=-1 nokaslr no_timer_check"
"""Arguments of the kernel. On a busy machine, the timers of a QEMU without hardware
virtualization can be so late that its check of them fails."""


def machine(
    *, kernel: str, initramfs: str, memory: int, append: str, network: str, mac: str
) -> list[str]:
    """Return the arguments of QEMU that saved memory depends on."""
    return [
        *MACHINE,
        *("-m", str(memory), "-kernel", kernel, "-initrd", initramfs),
        *("-append", f"{ARGUMENTS} {append}".strip()),
        *("-netdev", f"{network},id=n"),
        *("-device", f"virtio-net-pci,netdev=n,mac={mac},romfile="),
    ]


def words_for(world: Mapping[str, Any], vm: str, host: str, how: str) -> list[str]:
    """Return the command that starts a guest on a host."""
    guest, run = world["guests"][vm], Path(world["run"])
    who = f"{guest['address']} {world['gateway']} {guest['mac']} {guest['poll']}"
    name = f"{run}/{host}/{vm}"
    # A guest that is received knows it.
    _tell(name, "" if how == "--receive" else f"{who} {int(time.time())}")
    state = guest["state"]
    restore = ("-incoming", f"exec:cat {state}")
    incoming: Mapping[str, Sequence[str]] = {
        "": restore if state else (),
        "--boot": (),
        "--receive": ("-incoming", "defer"),
    }
    return [
        *("ip", "netns", "exec", world["hosts"][host], "env", *world["qemu"]),
        *("-name", vm, "-daemonize", "-pidfile", f"{name}.pid"),
        *machine(
            kernel=guest["kernel"],
            initramfs=guest["initramfs"],
            memory=guest["memory"],
            append=f"guest={who.replace(' ', ',')}",
            network=f"tap,ifname={guest['tap']},script=no,downscript=no,vnet_hdr=off",
            mac=guest["mac"],
        ),
        *("-serial", "chardev:serial", "-chardev"),
        f"pipe,id=serial,path={name},logfile={name}.log,logappend=on",
        *("-qmp", f"unix:{name}.qmp,server=on,wait=off"),
        *("-qmp", f"unix:{name}.events,server=on,wait=off"),
        # For people and tests: the driver needs its two for itself.
        *("-qmp", f"unix:{name}.third,server=on,wait=off"),
        *incoming[how],
    ]


def _tell(name: str, who: str) -> None:
    """Make the two ends of a guest's serial port, with what is on its line."""
    # A byte that comes before the saved memory is loaded is lost.
    Path(f"{name}.in").write_text(f"\n\n\n{who}\n", encoding="utf-8")
    output = Path(f"{name}.out")
    output.unlink(missing_ok=True)
    output.symlink_to(os.devnull)


def main(file: str, vm: str, host: str, how: str = "") -> None:
    """Become QEMU, which goes into the background."""
    world = json.loads(Path(file).read_text(encoding="utf-8"))
    words = words_for(world, vm, host, how)
    os.execvp(words[0], words)


if __name__ == "__main__":
    main(*sys.argv[1:])
