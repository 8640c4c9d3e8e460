"""The real address 169.254.169.254 on this machine's loopback device, temporarily.

Before it adds the address, the simulator writes a file for the network namespace. It
removes the address at its end. After a crash, the next simulator finds the file and
removes the address. An address that existed before is not changed.
"""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from forewarn.cli.addresses import missing, run_program, with_sbin
from forewarn.cli.command_table import CommandError, Exit
from forewarn.metadata.server import Address

HOST = "169.254.169.254"
ADDRESS: Address = (HOST, 80)
DEVICE = "lo"

STATE_DIRECTORY = Path("/run/forewarn")
"""Directory of the files that record who added the address. A reboot empties it, and
removes the address."""

NAMESPACE = Path("/proc/self/ns/net")
"""The network namespace of this process, identified by its inode number."""


def enter(name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Execute the same command inside a network namespace; raises CommandError."""
    _need_root("--netns")
    rest = _without_netns(arguments)
    if not Path("/run/netns", name).exists():
        raise CommandError(
            Exit.USAGE,
            f"there is no network namespace {name!r}",
            hint=f"Run `ip netns add {shlex.quote(name)}`.",
        )
    command = ["ip", "netns", "exec", name, sys.executable, "-m", "forewarn", *rest]
    try:
        os.execvpe("ip", command, with_sbin(environ))  # noqa: S606, S607
    except OSError as error:
        raise missing("ip") from error


def _without_netns(arguments: Sequence[str]) -> list[str]:
    rest: list[str] = []
    skips = False
    for argument in arguments:
        if skips:
            skips = False
        elif argument == "--netns":
            skips = True
        elif not argument.startswith("--netns="):
            rest.append(argument)
    return rest


@contextlib.contextmanager
def served(environ: Mapping[str, str]) -> Generator[None]:
    """Add the address to the loopback device during the context.

    Raises CommandError if that is not possible.
    """
    _need_root("--link-local")
    file = _record_file()
    process = _clean_up(file, environ)
    if process:
        raise CommandError(
            Exit.FAILED,
            f"process {process} already serves {HOST}",
            hint="End it, or use --netns to run in another network namespace.",
        )
    links = _links(environ)
    if "UP" not in links.get("flags", ()):
        raise CommandError(
            Exit.FAILED,
            f"the device {DEVICE} is down, so no client would reach {HOST}",
            hint=f"Run `ip link set {DEVICE} up`.",
        )
    if _has_address(links):
        # Another program has added it and may need it.
        yield
        return
    _write_record(file)
    try:
        _ip(environ, "address", "add", f"{HOST}/32", "dev", DEVICE)
        yield
    finally:
        _remove_address(environ)
        file.unlink(missing_ok=True)


def tidy(environ: Mapping[str, str]) -> None:
    """Remove the address of a killed simulator, if this process is root."""
    file = _record_file()
    if not os.geteuid() and file.exists():
        _clean_up(file, environ)


def _record_file() -> Path:
    return STATE_DIRECTORY / f"link-local-{NAMESPACE.stat().st_ino}.json"


def _clean_up(file: Path, environ: Mapping[str, str]) -> int:
    """Remove the address of a dead process; return a process that still serves, or 0."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        process, began = int(record["process"]), str(record["began"])
    except FileNotFoundError:
        return 0
    except (OSError, ValueError, KeyError, TypeError):
        # An incomplete file is from a process that died before it added the address.
        process, began = 0, ""
    if process and _began(process) == began:
        return process
    if process:
        _remove_address(environ)
    file.unlink(missing_ok=True)
    return 0


def _write_record(file: Path) -> None:
    process = os.getpid()
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        text = json.dumps({"process": process, "began": _began(process)})
        with file.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise CommandError(
            Exit.FAILED, f"cannot write {file}: {error.strerror}"
        ) from error


def _began(process: int) -> str:
    """Return the start time of a process, which distinguishes it from a later one."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    # The name in parentheses can contain any character.
    return stat.rpartition(")")[2].split()[19]


def _remove_address(environ: Mapping[str, str]) -> None:
    if _has_address(_links(environ)):
        _ip(environ, "address", "del", f"{HOST}/32", "dev", DEVICE)


def _links(environ: Mapping[str, str]) -> dict[str, Any]:
    devices: list[dict[str, Any]] = json.loads(
        _ip(environ, "-j", "address", "show", "dev", DEVICE) or "[]"
    )
    return devices[0] if devices else {}


def _has_address(links: Mapping[str, Any]) -> bool:
    return any(address.get("local") == HOST for address in links.get("addr_info", ()))


def _need_root(option: str) -> None:
    if os.geteuid():
        raise CommandError(
            Exit.FAILED,
            f"`forewarn simulate {option}` needs root, to change the network",
            hint="Run it as root, or use the printed FOREWARN_ENDPOINT.",
        )


def _ip(environ: Mapping[str, str], *arguments: str) -> str:
    return run_program(["ip", *arguments], environ)
