#!/usr/bin/env python3
"""Watches VMs with virsh (libvirt, KVM), for `watch` in virsh.toml.

    virsh-watch.py HOST…

It prints a line of JSON for each VM that does not run when it starts, and for each VM that
stops or starts later. A host that cannot be reached prints nothing and is tried again:
that tells nothing about its VMs.
"""

import json
import re
import subprocess
import sys
import threading
import time

AGAIN_SECONDS = 5
"""Seconds until a host whose connection ended is tried again."""

EVENT = re.compile(r"event 'lifecycle' for domain '?([^':]+)'?: (\w+) ?(.*)")

SHUT_DOWN = "shut-down"
CAUSES = {
    "shutdown": SHUT_DOWN,
    "crashed": "failed",
    "failed": "failed",
    "destroyed": "failed",
}
"""The cause by libvirt's reason. Other reasons, such as `saved` or `migrated`, are work
of an administrator or of forewarn."""

printing = threading.Lock()


def say(**line: object) -> None:
    """Print a line at once."""
    with printing:
        print(json.dumps(line), flush=True)


def virsh(host: str, *words: str) -> list[str]:
    """Return the command line of virsh for a host."""
    return ["virsh", "--quiet", "--connect", f"qemu+ssh://{host}/system", *words]


def lines_of(host: str, *words: str) -> list[str]:
    """Return what virsh prints, without empty lines."""
    ended = subprocess.run(
        virsh(host, *words), stdout=subprocess.PIPE, text=True, check=False
    )
    return [line.strip() for line in ended.stdout.splitlines() if line.strip()]


def stopped(host: str, vm: str, reason: str) -> None:
    """Print that a VM does not run, if its reason is one of CAUSES."""
    cause = CAUSES.get(reason.lower())
    if cause:
        text = f"libvirt: {reason.lower()}"
        say(vm=vm, running=False, host=host, cause=cause, text=text)


def print_state(host: str) -> None:
    """Print the VMs of a host, as they are now."""
    for vm in lines_of(host, "list", "--name"):
        say(vm=vm, running=True, host=host)
    for vm in lines_of(host, "list", "--inactive", "--name"):
        for state in lines_of(host, "domstate", "--reason", vm):
            stopped(host, vm, state.partition("(")[2].rstrip(")"))


def print_event(host: str, line: str) -> None:
    """Print an event of libvirt, if it says that a VM runs or does not run."""
    found = EVENT.match(line)
    if not found:
        return
    vm, event, detail = found.groups()
    if event == "Started" or (event, detail) == ("Resumed", "Migrated"):
        say(vm=vm, running=True, host=host)
    elif event == "Stopped":
        stopped(host, vm, detail)


def watch(host: str) -> None:
    """Watch the VMs of a host until this program ends."""
    while True:
        words = virsh(host, "event", "--event", "lifecycle", "--loop")
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            # Events that come meanwhile wait in the pipe, so none is lost.
            print_state(host)
            for line in process.stdout or ():
                print_event(host, line)
        time.sleep(AGAIN_SECONDS)


if __name__ == "__main__":
    threads = [
        threading.Thread(target=watch, args=(host,), daemon=True)
        for host in sys.argv[1:]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
