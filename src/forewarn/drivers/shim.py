"""Runs one program of the command driver, and outlives the service.

A script by itself, on the standard library alone: `python shim.py FOLDER NUMBER`
runs the program that FOLDER/call.json has at NUMBER. What it leaves there:

- `NUMBER.start`: that the program is, or was, about to run, and who watches it.
  It is made once, whoever tries: a second shim for the same program ends there.
- `NUMBER.program`: the program's process.
- `NUMBER.end`: how it ended, with the end of what it printed.

Each is on the disk before the next thing is done, and none is ever half written.
The command returns when the first is there; a status other than 0 means that the
program was not started, and never will be by this shim. A file `stop` in the
folder has the program terminated. The environment is passed on as it is.
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
"""Between two looks for the file `stop`: nobody notices a tenth of a second when
something is stopped, and a look costs microseconds."""

OUTPUT_BYTES_MAX = 16 * 1024
"""Of what a program prints, the end is kept: enough for its last words."""

OUTPUT_WAIT_SECONDS = 1.0
"""For the rest of the output after the program's end: something that it has left
running may hold its output open for ever."""

READ_BYTES = 65_536
"""What a pipe holds."""


def identity(pid: int) -> str | None:
    """Return what tells a living process from any other with its number.

    It is made of the boot and of the process's start in it; None: it is dead.
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
    """Write a record unless it is there; tell whether this was the first."""
    fresh = _written(path, note)
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    sync_folder(path.parent)
    return True


def write(path: Path, note: Mapping[str, Any]) -> None:
    """Write a record as a whole, in place of what was there."""
    _written(path, note).replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder outlive a failure of the power."""
    opened = os.open(folder, os.O_RDONLY)
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


def carry_out(folder: Path, number: int) -> dict[str, Any]:
    """Run the program of a call, which was claimed; return how it ended."""
    call = json.loads((folder / CALL).read_bytes())
    run = call["runs"][number]
    if (folder / STOP).exists():
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
    write(
        folder / f"{number}.program",
        {"pid": process.pid, "identity": identity(process.pid)},
    )
    tail = bytearray()
    assert process.stdin is not None
    assert process.stdout is not None
    reader = threading.Thread(target=_keep_end, args=(process.stdout, tail))
    reader.daemon = True
    reader.start()
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(json.dumps(run["input"]).encode() + b"\n")
    end = _attend(process, folder / STOP, call["timeout"], call["grace"])
    reader.join(OUTPUT_WAIT_SECONDS)
    output = bytes(tail).decode("utf-8", "replace")
    return {"end": end, "status": process.returncode, "output": output}


def _attend(
    process: "subprocess.Popen[bytes]", stop: Path, timeout: float | None, grace: float
) -> str:
    """Wait for the program's end, or bring it about; return which."""
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
        # It may have done its work at the last moment.
        return why if process.returncode else "exited"


def _terminate(process: "subprocess.Popen[bytes]", grace: float) -> None:
    """End the program and all that it has started, gently first.

    What runs as another user cannot be ended, and is waited for.
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


def watch_over(folder: Path, number: int, ready: int) -> None:
    """Claim the program, say so at the descriptor `ready`, run it, record its end."""
    os.setsid()
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        # Who stops the service does not mean the programs, nor their witness. A
        # handler, unlike SIG_IGN, is not inherited by the program.
        signal.signal(name, _overhear)
    note = {"pid": os.getpid(), "identity": identity(os.getpid())}
    is_first = claim(folder / f"{number}.start", note)
    os.write(ready, b"+")
    os.close(ready)
    if is_first:
        _let_go_of_streams()
        write(folder / f"{number}.end", carry_out(folder, number))


def _overhear(_number: int, _frame: object) -> None:
    """Do nothing."""


def _let_go_of_streams() -> None:
    """Leave whoever started the shim free to read its streams to their end."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def main(arguments: list[str]) -> int:
    """Start the shim proper; return 0 when the program is certainly claimed."""
    folder, number = Path(arguments[0]), int(arguments[1])
    heard, ready = os.pipe()
    if os.fork() == 0:
        # The parent's copies of what is buffered are not the child's to write.
        os.close(heard)
        status = 1
        try:
            watch_over(folder, number, ready)
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
