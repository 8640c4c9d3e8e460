"""What a run of a program leaves in its folder, so that it can outlive the agent.

- `event.json`: what the program gets on its standard input;
- `claim`: the process that watches it, and when that began. It is made once, whoever
  comes first: the wrapper, before it starts the program, or an agent that was started
  again and finds that the program never began. So the program runs at most once;
- `output`: what it says, with `head` for the beginning of what was too long;
- `status`: its exit status, written when it has ended.

Of finished runs, the latest are kept, for whoever wants to see what was said.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Sequence

from forewarn.agent.foreign import told
from forewarn.protocol.frozen import frozen_dataclass

OUTPUT_BYTES_MAX = 256 * 1024
"""When the output is cut back to its beginning and end: more than a person reads."""

HEAD_BYTES = 8 * 1024
TAIL_BYTES = 24 * 1024
"""What is kept of an output that was too long, of its beginning and of its end."""

LINE_CHARACTERS = 300
"""Of the last line, where it is told in a sentence."""

RUNS_KEPT = 20
"""Finished runs whose folders are kept: a few events'."""

SPARE_PLACES = ("/dev/shm", "/run", "/tmp")  # noqa: S108 - its folders have no known name
"""Where runs go when the journal's disk is full or broken: in memory, where it can be."""

MINE = "-"
"""In a claim: an agent has made it, and the program never runs."""


_RUN = re.compile(
    r"([^.]*)\.(?:[^.]+\.)?\d+\.(?:(prepare|recover)\.)?\d+\.(.+)", re.ASCII
)


@frozen_dataclass
class Claim:
    """Who watches over the program."""

    pid: int
    began: str
    """When the process began, as the system counts; empty where it does not tell."""


class Folder:
    """The folder of one run."""

    def __init__(self, path: str) -> None:
        """Know where it is."""
        self.path = path

    def file(self, name: str) -> str:
        """Return where one of its files is."""
        return os.path.join(self.path, name)

    def make(self, event: bytes) -> None:
        """Make it, for our eyes only; raises OSError."""
        os.makedirs(self.path, mode=0o700)
        with open(self.file("event.json"), "wb") as file:
            file.write(event)

    def remove(self) -> None:
        """Remove it, as far as that can be done."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path):
                os.unlink(self.file(name))
            os.rmdir(self.path)

    @property
    def name(self) -> str:
        """The run that it is of."""
        return os.path.basename(self.path)

    def exists(self) -> bool:
        """Tell whether the run was begun, or nearly."""
        return os.path.isdir(self.path)

    def claim(self) -> bool:
        """Keep the program from ever starting; tell whether it had not."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            opened = os.open(self.file("claim"), flags, 0o600)
        except OSError:
            # It is there, or nobody can write here: not the wrapper either.
            return False
        with os.fdopen(opened, "w", encoding="ascii") as file:
            file.write(f"{MINE}\n\n")
        return True

    def claimed(self) -> Claim | None:
        """Return who watches over the program; None: nobody yet, or nobody ever."""
        lines = _text(self.file("claim")).split("\n")
        if len(lines) < 3 or not lines[0].isdecimal():  # noqa: PLR2004 - two whole lines
            return None
        return Claim(pid=int(lines[0]), began=start_of(lines[1]))

    def status(self) -> int | None:
        """Return the exit status; None: it has not ended, or nobody wrote it down."""
        text = _text(self.file("status"))
        return int(text) if text.endswith("\n") and text.strip().isdecimal() else None

    def trim(self) -> bool:
        """Cut the output back if it is too long, and tell whether it was.

        The program writes on at its end.
        """
        path = self.file("output")
        with contextlib.suppress(OSError):
            size = os.path.getsize(path)
            if size <= OUTPUT_BYTES_MAX:
                return False
            head = self.file("head")
            if not os.path.exists(head):
                with open(path, "rb") as file, open(head, "wb") as kept:
                    kept.write(file.read(HEAD_BYTES))
            tail = _bytes(path, TAIL_BYTES)
            with open(path, "ab") as file:
                # The program writes at the end too, wherever that is.
                file.truncate(0)
                file.write(tail)
            return True
        return False

    def output(self) -> str:
        """Return what the program said; where that was much, the beginning and end."""
        head = _bytes(self.file("head"), HEAD_BYTES)
        tail = _bytes(self.file("output"), OUTPUT_BYTES_MAX)
        if head or len(tail) > HEAD_BYTES + TAIL_BYTES:
            head = head or tail[:HEAD_BYTES]
            return f"{_decoded(head)}\n[…]\n{_decoded(tail[-TAIL_BYTES:])}"
        return _decoded(tail)

    def last_line(self) -> str:
        """Return the last line that says something, for a sentence."""
        return last_line(self.output())


class Shelf:
    """All folders of one agent."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Know where they are; nothing is made before there is a run."""
        self._path = os.fspath(path)

    def folder(self, run_id: str) -> Folder:
        """Return the folder of a run, which may not be there."""
        assert run_id not in {"", ".", ".."}
        assert not set(run_id) & set("/\\\0")
        return Folder(os.path.join(self._path, run_id))

    def spare(self) -> Folder:
        """Return a folder, not made yet, for a run when these have no capacity.

        Nobody can guess its name: others may write where it is.
        """
        place = next((path for path in SPARE_PLACES if os.access(path, os.W_OK)), "")
        return Folder(os.path.join(place, f"forewarn-run-{os.urandom(8).hex()}"))

    def folders_of(self, handler: str) -> list[Folder]:
        """Return the folders of all runs of a handler, whichever journal began them."""
        with contextlib.suppress(OSError):
            return [
                Folder(os.path.join(self._path, name))
                for name in sorted(os.listdir(self._path))
                if subject_of(name)[2] == handler
            ]
        return []

    def clear(self, running: Collection[str]) -> None:
        """Remove all but the latest folders, and those of runs that go on."""
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
            Folder(path).remove()


def subject_of(run_id: str) -> tuple[str, str, str]:
    """Return event, phase and handler of a run, by its name; empty: it is of another form.

    What is between them tells attempts and journals apart. A recovery after a lost
    journal is for the event `restore`.
    """
    found = _RUN.fullmatch(run_id)
    return (found[1], found[2] or "recover", found[3]) if found else ("", "", "")


def start_of(stat: str) -> str:
    """Return when a process began, from its line in /proc: clock ticks after boot."""
    # The name, in parentheses, may contain anything.
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""  # noqa: PLR2004 - see proc(5)


def last_line(text: str, *, also: Sequence[str] = ()) -> str:
    """Return the last line of a text that says something, for a sentence.

    It is fit to be shown, as `foreign.told` has it; `also` has further secrets.
    """
    lines = [line.strip() for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    return told(last, LINE_CHARACTERS, also=also)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _bytes(path: str, most: int) -> bytes:
    """Return a file's content, of a long one the end."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            return file.read(most)
    except OSError:
        return b""


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "replace")
