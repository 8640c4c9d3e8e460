"""Runs one program of the command driver, and outlives the service.

This is a separate script that uses only the standard library: `python shim.py
DIRECTORY NUMBER` runs the program NUMBER of DIRECTORY/call.json. It writes there:

- `NUMBER.start`: the program is about to run or has run, and the shim's process. Only
  one shim can create this file: a second shim for the same program then ends.
- `NUMBER.program`: the program's process.
- `NUMBER.end`: how the program ended, with the end of its output.

The shim flushes each file to the disk before its next step, and writes each file as a
whole. If the disk is full when the program has ended, it waits until it can write. The
command returns when the first file exists. A status other than 0 means that
this shim did not start the program and never will. A file `stop` in the directory makes
the shim terminate the program. The program inherits the environment.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time  # noqa: TID251 - a script by itself cannot take a Clock
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

CALL, STOP = "call.json", "stop"

POLL_SECONDS = 0.1
"""Interval of the checks for the file `stop`: a delay of a tenth of a second does not
matter for a stop, and a check costs microseconds."""

WRITE_AGAIN_SECONDS = 1.0
"""Interval of the attempts to record the end of a program on a disk that is full: an
operator makes room by hand, and an attempt costs a flush at most."""

OUTPUT_BYTES_MAX = 16 * 1024
"""Maximum bytes of a program's output that are kept, from its end."""

OUTPUT_WAIT_SECONDS = 1.0
"""Maximum seconds to read the rest of the output after the program's end: a process
that it left running may keep the output open."""

READ_BYTES = 65_536
"""The capacity of a pipe."""


def identity(pid: int) -> str | None:
    """Return the identity of a running process, which a later process ID never reuses.

    The text has the boot ID and the start time of the process. None: the process has
    ended.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name, in parentheses, may contain anything.
    fields = stat[stat.rindex(")") + 1 :].split()
    state, started = fields[0], fields[19]
    return None if state in {"Z", "X"} else f"{boot} {started}"


def claim(path: Path, note: Mapping[str, Any]) -> bool:
    """Write a record unless it exists; return whether it was written."""
    fresh = _written(path, note)
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    sync_directory(path.parent)
    return True


def write(path: Path, note: Mapping[str, Any]) -> None:
    """Write a record as a whole and replace an existing one."""
    _written(path, note).replace(path)
    sync_directory(path.parent)


def write_when_possible(path: Path, note: Mapping[str, Any]) -> None:
    """Write a record; if the disk takes none, wait until it does.

    Otherwise the outcome of the program would be unknown. Raises OSError if the directory
    was removed.
    """
    while True:
        try:
            write(path, note)
        except OSError:
            if not path.parent.exists():
                raise
            time.sleep(WRITE_AGAIN_SECONDS)
        else:
            return


def sync_directory(directory: Path) -> None:
    """Flush the names in a directory to the disk."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _written(path: Path, note: Mapping[str, Any]) -> Path:
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    return fresh


def carry_out(directory: Path, number: int) -> dict[str, Any]:
    """Run the program of a call after its claim; return how it ended."""
    call = json.loads((directory / CALL).read_bytes())
    run = call["runs"][number]
    if (directory / STOP).exists():
        return {"end": "stopped", "output": ""}
    try:
        process = subprocess.Popen(  # noqa: S603 - what the operator configured
            run["words"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        return {"end": "unstartable", "output": f"{run['words'][0]}: {error.strerror}"}
    note = {"pid": process.pid, "identity": identity(process.pid)}
    # A full disk must not end the program: while this process runs, no record is missed.
    with contextlib.suppress(OSError):
        write(directory / f"{number}.program", note)
    tail = bytearray()
    assert process.stdin is not None
    assert process.stdout is not None
    reader = threading.Thread(target=_keep_end, args=(process.stdout, tail))
    reader.daemon = True
    reader.start()
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(json.dumps(run["input"]).encode() + b"\n")
    end = _attend(process, directory / STOP, call["timeout"], call["grace"])
    reader.join(OUTPUT_WAIT_SECONDS)
    output = bytes(tail).decode("utf-8", "replace")
    return {"end": end, "status": process.returncode, "output": output}


def _attend(
    process: "subprocess.Popen[bytes]", stop: Path, timeout: float | None, grace: float
) -> str:
    """Wait for the program to end, or end it; return which happened."""
    began = time.monotonic()
    while True:
        try:
            process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        else:
            return "exited"
        if stop.exists():
            why = "stopped"
        elif timeout is not None and time.monotonic() - began >= timeout:
            why = "timed out"
        else:
            continue
        _terminate(process, grace)
        # The program may have completed its work at the last moment.
        return why if process.returncode else "exited"


def _terminate(process: "subprocess.Popen[bytes]", grace: float) -> None:
    """End the program and all processes that it started: SIGTERM, then SIGKILL.

    A process of another user cannot be signaled, so the shim waits for it.
    """
    _signal_all(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    _signal_all(process.pid, signal.SIGKILL)
    process.wait()


def _signal_all(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _keep_end(pipe: IO[bytes], tail: bytearray) -> None:
    while data := os.read(pipe.fileno(), READ_BYTES):
        tail += data
        del tail[:-OUTPUT_BYTES_MAX]


def watch_over(directory: Path, number: int, ready: int) -> None:
    """Claim the program, report that at the descriptor `ready`, run it, record its end."""
    os.setsid()
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        # Stopping the service must stop neither the programs nor their shims. The
        # program does not inherit a handler, unlike SIG_IGN.
        signal.signal(name, _ignore_signal)
    note = {"pid": os.getpid(), "identity": identity(os.getpid())}
    is_first = claim(directory / f"{number}.start", note)
    os.write(ready, b"+")
    os.close(ready)
    if is_first:
        _close_streams()
        write_when_possible(directory / f"{number}.end", carry_out(directory, number))


def _ignore_signal(_number: int, _frame: object) -> None:
    """Do nothing."""


def _close_streams() -> None:
    """Close the streams, so that the parent process can read them to their end."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def main(arguments: list[str]) -> int:
    """Start the shim in a child process; return 0 when the program is claimed."""
    directory, number = Path(arguments[0]), int(arguments[1])
    heard, ready = os.pipe()
    if os.fork() == 0:
        # The child must not write the parent's buffered output.
        os.close(heard)
        status = 1
        try:
            watch_over(directory, number, ready)
            status = 0
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(2, f"{error}\n".encode())
        finally:
            os._exit(status)
    os.close(ready)
    return 0 if os.read(heard, 1) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
