"""Network namespaces of a test's own: the machine's network is never touched."""

import os
import subprocess
from typing import Any

from tests.support.unpacked import needs


def run(*words: str, **options: Any) -> str:
    """Return what a command prints; it must not fail."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


class Space:
    """A network namespace: a machine, as far as its network goes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def begin(self) -> None:
        """Make it, with nothing in it but a loopback device."""
        run("ip", "netns", "add", self.name)
        for family in ("all", "default"):
            self.set_sysctl(f"ipv6/conf/{family}/disable_ipv6", "1")
        self.ip("link set lo up")

    def end(self) -> None:
        """Remove it, if it was made."""
        subprocess.run(["ip", "netns", "delete", self.name], check=False)

    def words(self, *words: str) -> list[str]:
        """Return a command as it is run in there."""
        return ["ip", "netns", "exec", self.name, *words]

    def run(self, *words: str, **options: Any) -> str:
        return run(*self.words(*words), **options)

    def ip(self, arguments: str) -> str:
        return run("ip", "-n", self.name, *arguments.split())

    def set_sysctl(self, key: str, text: str) -> None:
        self.run("sh", "-c", f"echo {text} > /proc/sys/net/{key}")


def no_namespaces(*trial: str) -> str:
    """Return why there can be none, or a trial in one fails; nothing if all is well."""
    if os.geteuid():
        return "needs root, for network namespaces"
    if why := needs("ip"):
        return why
    space = Space(f"fw{os.getpid()}-try")
    command = ["ip", "netns", "add", space.name]
    try:
        for arguments in (command, space.words(*trial) if trial else []):
            done = subprocess.run(
                arguments or ["true"], check=False, capture_output=True, text=True
            )
            if done.returncode:
                return f"{' '.join(arguments)}: {done.stderr.strip()}"
    finally:
        subprocess.run(
            ["ip", "netns", "delete", space.name], check=False, capture_output=True
        )
    return ""
