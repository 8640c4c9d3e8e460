"""The real address on this machine: 169.254.169.254 on the loopback device, for a while.

What was added is written down first, in a file for each network namespace, so that
it is taken away at the end, or, where the end came without a warning, by the next
simulator that starts. An address that was there before is left alone.
"""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from forewarn.cli.failure import CommandError, Exit
from forewarn.metadata.server import Address

HOST = "169.254.169.254"
ADDRESS: Address = (HOST, 80)
DEVICE = "lo"

FOLDER = Path("/run/forewarn")
"""Where it is written down; it is empty after a restart, as the address is gone."""

NAMESPACE = Path("/proc/self/ns/net")
"""The network namespace of this process: its number tells it from others."""

PROGRAM_SECONDS_MAX = 30
"""For a call of `ip`: it takes milliseconds."""

_SBIN = ":/usr/sbin:/sbin"
"""Where `ip` is, which a user's PATH need not name."""


def enter(name: str, words: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Begin the same command again inside a network namespace; raises CommandError."""
    _need_root("--netns")
    rest = _without_netns(words)
    path = environ.get("PATH", os.defpath) + _SBIN
    if not Path("/run/netns", name).exists():
        raise CommandError(
            Exit.USAGE,
            f"there is no network namespace {name!r}",
            hint=f"ip netns add {shlex.quote(name)}",
        )
    words = ["ip", "netns", "exec", name, sys.executable, "-m", "forewarn", *rest]
    try:
        os.execvpe("ip", words, {**environ, "PATH": path})  # noqa: S606, S607
    except OSError as error:
        raise _no_ip() from error


def _without_netns(words: Sequence[str]) -> list[str]:
    rest: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word == "--netns":
            skips = True
        elif not word.startswith("--netns="):
            rest.append(word)
    return rest


@contextlib.contextmanager
def served(environ: Mapping[str, str]) -> Generator[None]:
    """Have the address on the loopback device while the context lasts.

    Raises CommandError where that cannot be.
    """
    _need_root("--link-local")
    note = _note()
    process = _heal(note, environ)
    if process:
        raise CommandError(
            Exit.FAILED,
            f"process {process} serves {HOST} already",
            hint="end it, or run this one in another network namespace: --netns",
        )
    links = _links(environ)
    if "UP" not in links.get("flags", ()):
        raise CommandError(
            Exit.FAILED,
            f"the device {DEVICE} is down here, so nothing would reach {HOST}",
            hint=f"ip link set {DEVICE} up",
        )
    if _has_address(links):
        # Somebody else's, who may want to keep it.
        yield
        return
    _write_down(note)
    try:
        _ip(environ, "address", "add", f"{HOST}/32", "dev", DEVICE)
        yield
    finally:
        _take_away(environ)
        note.unlink(missing_ok=True)


def tidy(environ: Mapping[str, str]) -> None:
    """Take away what a simulator left that was killed, where there is the right to."""
    note = _note()
    if not os.geteuid() and note.exists():
        _heal(note, environ)


def _note() -> Path:
    return FOLDER / f"link-local-{NAMESPACE.stat().st_ino}.json"


def _heal(note: Path, environ: Mapping[str, str]) -> int:
    """Take away what was left; return the process that still serves, else 0."""
    try:
        noted = json.loads(note.read_text(encoding="utf-8"))
        process, began = int(noted["process"]), str(noted["began"])
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError, TypeError):
        # Half a note is of one that was killed while it wrote: nothing was added.
        process, began = 0, ""
    if process and _began(process) == began:
        return process
    if process:
        _take_away(environ)
    note.unlink(missing_ok=True)
    return 0


def _write_down(note: Path) -> None:
    process = os.getpid()
    try:
        note.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        text = json.dumps({"process": process, "began": _began(process)})
        with note.open("w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:
        raise CommandError(
            Exit.FAILED, f"{note} cannot be written: {error.strerror}"
        ) from error


def _began(process: int) -> str:
    """Return when a process began, which tells it from a later one of its number."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    # Its name, in parentheses, may have anything in it.
    return stat.rpartition(")")[2].split()[19]


def _take_away(environ: Mapping[str, str]) -> None:
    if _has_address(_links(environ)):
        _ip(environ, "address", "del", f"{HOST}/32", "dev", DEVICE)


def _links(environ: Mapping[str, str]) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(
        _ip(environ, "-j", "address", "show", "dev", DEVICE) or "[]"
    )
    return found[0] if found else {}


def _has_address(links: Mapping[str, Any]) -> bool:
    return any(each.get("local") == HOST for each in links.get("addr_info", ()))


def _need_root(option: str) -> None:
    if os.geteuid():
        raise CommandError(
            Exit.FAILED,
            f"`forewarn simulate {option}` needs root, to change the network",
            hint="without it, give your program the printed FOREWARN_ENDPOINT instead",
        )


def _no_ip() -> CommandError:
    return CommandError(
        Exit.FAILED, "ip is not installed; its Debian package is iproute2"
    )


def _ip(environ: Mapping[str, str], *words: str) -> str:
    path = environ.get("PATH", os.defpath) + _SBIN
    try:
        done = subprocess.run(  # noqa: S603 - words, no shell
            ["ip", *words],  # noqa: S607
            env={**environ, "PATH": path, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_SECONDS_MAX,
        )
    except FileNotFoundError as error:
        raise _no_ip() from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(Exit.FAILED, "`ip` did not end") from error
    if done.returncode:
        raise CommandError(
            Exit.FAILED,
            f"`{shlex.join(['ip', *words])}` failed",
            lines=done.stderr.splitlines(),
        )
    return done.stdout
