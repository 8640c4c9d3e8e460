"""The directory of each program run, through which the run can outlive the agent.

- `event.json`: the standard input of the program
- `claim`: the process that watches the program, and its start time. It is created
  once: by the wrapper before it starts the program, or by a restarted agent which
  finds that the program never started. So the program runs at most once.
- `output`: the output of the program; `head` has the beginning of a long one
- `status`: the exit status, written when the program has ended

The directories of the latest finished runs are kept, so that people can read the output.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Sequence

from forewarn.agent.foreign import told
from forewarn.protocol.frozen import frozen_dataclass

OUTPUT_BYTES_MAX = 256 * 1024
"""Maximum size of an output, in bytes. A longer one is cut to its beginning and end."""

HEAD_BYTES = 8 * 1024
TAIL_BYTES = 24 * 1024
"""Bytes that are kept from the beginning and from the end of a longer output."""

LINE_CHARACTERS = 300
"""Maximum length of the last line in a message, in characters."""

RUNS_KEPT = 20
"""Number of finished runs whose directories are kept: enough for a few events."""

SPARE_DIRECTORIES = ("/dev/shm", "/run", "/tmp")  # noqa: S108 - the names in it are random
"""Directories in which runs are recorded if the journal's disk is full or broken: in memory first."""

MINE = "-"
"""Content of a claim that an agent created so that the program never runs."""


_RUN = re.compile(
    r"([^.]*)\.(?:[^.]+\.)?\d+\.(?:(prepare|recover)\.)?\d+\.(.+)", re.ASCII
)


@frozen_dataclass
class Claim:
    """The process that watches the program."""

    pid: int
    began: str
    """The start time of the process, as the system counts; empty: unknown."""


class RunDirectory:
    """The directory of one run."""

    def __init__(self, path: str) -> None:
        """Store the path."""
        self.path = path

    def file(self, name: str) -> str:
        """Return the path of a file in this directory."""
        return os.path.join(self.path, name)

    def make(self, event: bytes) -> None:
        """Create it, readable only for the agent's user; raises OSError."""
        os.makedirs(self.path, mode=0o700)
        with open(self.file("event.json"), "wb") as file:
            file.write(event)

    def remove(self) -> None:
        """Remove the directory as far as possible."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path):
                os.unlink(self.file(name))
            os.rmdir(self.path)

    @property
    def name(self) -> str:
        """The ID of the run."""
        return os.path.basename(self.path)

    def exists(self) -> bool:
        """Return whether the run was started, or was about to be started."""
        return os.path.isdir(self.path)

    def claim(self) -> bool:
        """Prevent the start of the program; return whether it had not started."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            opened = os.open(self.file("claim"), flags, 0o600)
        except OSError:
            # The claim exists, or the directory is not writable for the wrapper either.
            return False
        with os.fdopen(opened, "w", encoding="ascii") as file:
            file.write(f"{MINE}\n\n")
        return True

    def claimed(self) -> Claim | None:
        """Return the process that watches the program; None: none yet, or none ever."""
        lines = text_in(self.file("claim")).split("\n")
        if len(lines) < 3 or not lines[0].isdecimal():  # noqa: PLR2004 - two whole lines
            return None
        return Claim(pid=int(lines[0]), began=start_of(lines[1]))

    def status(self) -> int | None:
        """Return the exit status; None: it has not ended, or it was not recorded."""
        text = text_in(self.file("status"))
        return int(text) if text.endswith("\n") and text.strip().isdecimal() else None

    def trim(self) -> bool:
        """Cut the output if it is too long, and return whether it was.

        The program continues to write at the end of the file.
        """
        path = self.file("output")
        with contextlib.suppress(OSError):
            size = os.path.getsize(path)
            if size <= OUTPUT_BYTES_MAX:
                return False
            head = self.file("head")
            if not os.path.exists(head):
                with open(path, "rb") as file, open(head, "wb") as head_file:
                    head_file.write(file.read(HEAD_BYTES))
            tail = _bytes(path, TAIL_BYTES)
            with open(path, "ab") as file:
                # The program appends too, wherever the end is then.
                file.truncate(0)
                file.write(tail)
            return True
        return False

    def output(self) -> str:
        """Return the output of the program, or the beginning and end of a long one."""
        head = _bytes(self.file("head"), HEAD_BYTES)
        tail = _bytes(self.file("output"), OUTPUT_BYTES_MAX)
        if head or len(tail) > HEAD_BYTES + TAIL_BYTES:
            gap = "\n[…]\n".encode()
            tail = (head or tail[:HEAD_BYTES]) + gap + tail[-TAIL_BYTES:]
        return tail.decode("utf-8", "replace")

    def last_line(self) -> str:
        """Return the last line that is not empty, for a message."""
        return last_line(self.output())


class RunRecords:
    """The directories of all runs of one agent."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Store the path; nothing is created before the first run."""
        self._path = os.fspath(path)

    def directory(self, run_id: str) -> RunDirectory:
        """Return the directory of a run, which may not exist."""
        assert run_id not in {"", ".", ".."}
        assert not set(run_id) & set("/\\\0")
        return RunDirectory(os.path.join(self._path, run_id))

    def spare(self) -> RunDirectory:
        """Return a directory for a run if the usual ones cannot be used.

        The directory is not created yet. Its name is random, since other users may
        write to the parent directory.
        """
        place = next(
            (path for path in SPARE_DIRECTORIES if os.access(path, os.W_OK)), ""
        )
        return RunDirectory(os.path.join(place, f"forewarn-run-{os.urandom(8).hex()}"))

    def directories_of(self, handler: str) -> list[RunDirectory]:
        """Return the directories of all runs of a handler, from any journal."""
        with contextlib.suppress(OSError):
            return [
                RunDirectory(os.path.join(self._path, name))
                for name in sorted(os.listdir(self._path))
                if subject_of(name)[2] == handler
            ]
        return []

    def clear(self, running: Collection[str]) -> None:
        """Remove all directories except the latest ones and those of active runs."""
        finished: list[tuple[float, str]] = []
        with contextlib.suppress(OSError):
            finished.extend(
                (os.path.getmtime(path), path)
                for name in os.listdir(self._path)
                if name not in running
                for path in (os.path.join(self._path, name),)
            )
        finished.sort()
        for _, path in finished[:-RUNS_KEPT]:
            RunDirectory(path).remove()


def subject_of(run_id: str) -> tuple[str, str, str]:
    """Return the event, phase and handler of a run ID; empty if it has another form.

    The other parts of the ID distinguish attempts and journals. A recovery after a lost
    journal has the event `restore`.
    """
    match = _RUN.fullmatch(run_id)
    return (match[1], match[2] or "recover", match[3]) if match else ("", "", "")


def start_of(stat: str) -> str:
    """Return the start time of a process from its `stat` in /proc: ticks after boot."""
    # The program's name in parentheses may contain any character.
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""  # noqa: PLR2004 - see proc(5)


def last_line(text: str, *, also: Sequence[str] = ()) -> str:
    """Return the last line of a string that is not empty, for a message.

    Secrets are masked, as in `foreign.told`; `also` has additional secrets.
    """
    lines = [line.strip() for line in text.splitlines()]
    last = next(filter(None, reversed(lines)), "")
    return told(last, LINE_CHARACTERS, also=also)


def text_in(path: str) -> str:
    """Return the text of a file; empty: it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _bytes(path: str, bytes_max: int) -> bytes:
    """Return the content of a file, or the end of a long one."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - bytes_max))
            return file.read(bytes_max)
    except OSError:
        return b""
