"""HAProxy's runtime API at one socket: a command for each connection, text in and out.

It reads which servers there are, in which state and with how many sessions, and sets
their state. At the socket of a master process it talks to the workers, and counts the
sessions of those that a reload has left behind. It decides nothing.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping

from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.wire.connection import TIMEOUTS, Lookup
from forewarn.agent.wire.http import HttpError, parse_url
from forewarn.agent.wire.urls import split_listener
from forewarn.protocol.frozen import frozen_dataclass

EXCHANGE_SECONDS = 4.0
"""For one command, where more is left: HAProxy answers in milliseconds, or hangs."""

ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""Of one answer: a server takes less than a kilobyte of `show stat`."""

PIECE_BYTES = 65_536

MAINT_FORCED = 0x01
DRAIN_FORCED = 0x08
"""What an operator, or this handler, has set a server to."""

OUT = 0x01 | 0x02 | 0x08 | 0x10 | 0x20
"""Whatever of `srv_admin_state` keeps new sessions away, inherited or set. 0x04 alone
says that the file has it disabled, and that it was made ready since."""

_RUNNING = 2
"""Of `srv_op_state`: fully up."""

_SERVERS_ONLY = "show stat -1 4 -1"

_UNKNOWN = "Unknown command"
_DENIED = "Permission denied"

Row = Mapping[str, str]


class AwayError(HandlerError):
    """Nobody answered at the socket, or not wholly: as while HAProxy restarts."""


@frozen_dataclass
class Server:
    """One server of a backend, in one process."""

    backend: str
    name: str
    admin: int
    """`srv_admin_state`, a sum of flags."""
    is_up: bool
    """Whether its health checks find it well; without any it always is."""
    sessions: int
    """Under way or queued, also in workers that a reload has left behind."""
    is_counted: bool = True
    """Whether its own process has told how many there are."""
    process: str = ""
    """What comes before a command to reach it; empty: nothing."""

    @property
    def label(self) -> str:
        """Return its name as commands have it."""
        return f"{self.backend}/{self.name}"

    @property
    def is_out(self) -> bool:
        """Tell whether it gets no new sessions, whoever has seen to that."""
        return bool(self.admin & OUT)


class Runtime:
    """The runtime API at one socket."""

    def __init__(self, place: str) -> None:
        """Talk at a path, or at HOST:PORT; connect nowhere yet."""
        self.place = place
        self._lookup: Lookup | None = None
        if is_address(place):
            self._lookup = Lookup(parse_url(f"http://{place}"))

    def servers(self, context: RunContext) -> list[Server]:
        """Return all servers; raises HandlerError, and AwayError where it may pass."""
        current, old = self._processes(context)
        left_behind: dict[str, int] = {}
        for process in old:
            # It may have ended since: then nothing of it is left.
            with contextlib.suppress(HandlerError):
                for label, count in self._sessions(process, context).items():
                    left_behind[label] = left_behind.get(label, 0) + count
        found: list[Server] = []
        for process in current:
            sessions = self._sessions(process, context)
            for row in self._table(f"{process}show servers state", " ", context):
                label = f"{row['be_name']}/{row['srv_name']}"
                found.append(
                    Server(
                        backend=row["be_name"],
                        name=row["srv_name"],
                        admin=int(row["srv_admin_state"]),
                        is_up=int(row["srv_op_state"]) == _RUNNING,
                        # Counted once, where several workers have the server.
                        sessions=sessions.get(label, 0) + left_behind.pop(label, 0),
                        is_counted=label in sessions,
                        process=process,
                    )
                )
        return found

    def set_state(self, server: Server, state: str, context: RunContext) -> None:
        """Make a server `ready`, `drain` or `maint`; raises HandlerError."""
        self._order(f"{server.process}set server {server.label} state {state}", context)

    def shut_sessions(self, server: Server, context: RunContext) -> None:
        """Break the sessions of a server off, also the old ones; raises HandlerError."""
        command = f"shutdown sessions server {server.label}"
        _, old = self._processes(context)
        for process in old:
            with contextlib.suppress(HandlerError):
                self._order(f"{process}{command}", context)
        self._order(f"{server.process}{command}", context)

    def level(self, context: RunContext) -> str:
        """Return what may be done at the socket: `admin`, `operator` or `user`.

        Empty: it is too old to tell. Raises HandlerError.
        """
        current, _ = self._processes(context)
        said = self.ask(f"{current[0]}show cli level", context).strip()
        return "" if said.startswith(_UNKNOWN) else last_line(said)

    def why_not_master(self, context: RunContext) -> str:
        """Return why another socket should be used; empty: none should.

        A worker tells by its environment that it has a master, and where that listens.
        Raises HandlerError.
        """
        current, _ = self._processes(context)
        if current != [""] or not self._variable("HAPROXY_MWORKER", context):
            return ""
        master = self._variable("HAPROXY_MASTER_CLI", context).partition(";")[0]
        path = master.partition("@")[2] or master
        if not master:
            advice = "start HAProxy with `-S PATH`, and name that socket"
        elif is_address(self.place) and not is_address(path):
            advice = "start HAProxy with `-S HOST:PORT`, and name that address"
        else:
            advice = f"name the master's socket, {path}"
        return (
            f"{self.place} is a worker's own socket: after a reload it does not show the "
            "sessions of the old worker, and begins with servers that are not drained: "
            f"{advice}"
        )

    def _variable(self, name: str, context: RunContext) -> str:
        """Return a variable of a worker's environment; empty: it has none, or hides it."""
        said = self.ask(f"show env {name}", context).strip()
        found, equals, value = said.partition("=")
        return value if equals and found == name else ""

    def ask(self, command: str, context: RunContext) -> str:
        """Return the answer to a command; raises AwayError, or at the end HandlerError."""
        seconds = min(context.remaining(), EXCHANGE_SECONDS)
        if seconds <= 0:
            raise context.over(f"asking {self.place}")
        why = ""
        said = b""
        try:
            said = self._exchange(command, context, context.timer(seconds))
        except TIMEOUTS:
            why = f"no answer within {seconds:.0f} s"
        except HttpError as error:
            # It was about the name alone, and says which.
            raise AwayError(error.message) from error
        except OSError as error:
            why = error.strerror or str(error)
        if context.remaining() <= 0:
            raise context.over(f"asking {self.place}")
        if why:
            raise AwayError(f"{self.place}: {why}")
        return said.decode("utf-8", "replace")

    def _exchange(
        self, command: str, context: RunContext, left: Callable[[], float]
    ) -> bytes:
        """Send a command and return the answer; raises OSError and HttpError."""
        said = bytearray()
        with (
            contextlib.closing(self._connected(left)) as wire,
            context.on_stop(lambda: _hang_up(wire)),
        ):
            wire.sendall(f"{command}\n".encode())
            # A master would wait for another command.
            wire.shutdown(socket.SHUT_WR)
            while piece := _read(wire, left()):
                said += piece
                if len(said) > ANSWER_BYTES_MAX:
                    raise HandlerError(f"{self.place}: the answer has no end")
        return bytes(said)

    def _connected(self, left: Callable[[], float]) -> socket.socket:
        """Return a connection; raises OSError and HttpError."""
        if self._lookup is None:
            family = getattr(socket, "AF_UNIX", None)
            if family is None:
                raise OSError(0, "this system has no sockets with a path")
            return _open(family, self.place, left())
        addresses = self._lookup.addresses(left)
        for family, address in addresses[:-1]:
            with contextlib.suppress(OSError):
                return _open(family, address, left() / len(addresses))
        return _open(*addresses[-1], left())

    def _processes(self, context: RunContext) -> tuple[list[str], list[str]]:
        """Return how to reach the workers, and those that a reload has left behind."""
        said = self.ask("show proc", context)
        if said.startswith(_UNKNOWN) or _DENIED in said:
            # It is a worker's own socket.
            return [""], []
        if not said.startswith("#"):
            raise AwayError(f"{self.place}: no whole answer to show proc")
        current: list[str] = []
        old: list[str] = []
        workers: list[str] | None = None
        for line in said.splitlines():
            if line.startswith("# "):
                workers = {"# workers": current, "# old workers": old}.get(line.strip())
            elif workers is not None and line.strip():
                workers.append(f"@!{line.split()[0]} ")
        if not current:
            raise AwayError(f"{self.place}: the master process has no worker")
        return current, old

    def _sessions(self, process: str, context: RunContext) -> dict[str, int]:
        """Return how many sessions each server has, under way or queued."""
        rows = self._table(f"{process}{_SERVERS_ONLY}", ",", context)
        return {
            f"{row['pxname']}/{row['svname']}": int(row["scur"] or 0)
            + int(row["qcur"] or 0)
            for row in rows
        }

    def _table(self, command: str, comma: str, context: RunContext) -> list[Row]:
        """Return a list that HAProxy answers, by the names of its columns."""
        said = self.ask(command, context)
        lines = said.splitlines()
        names: list[str] = []
        rows: list[Row] = []
        for line in lines:
            if line.startswith("# "):
                names = line[2:].split(comma)
            elif names and line.strip():
                rows.append(dict(zip(names, line.split(comma))))
        if not names:
            why = last_line(said)
            if not why:
                raise AwayError(f"{self.place}: the answer was cut off")
            raise HandlerError(f"{self.place}: {command}: {why}")
        # Every list ends with an empty line; without it, it may be half of one.
        if lines[-1].strip():
            raise AwayError(f"{self.place}: the answer was cut off")
        return rows

    def _order(self, command: str, context: RunContext) -> None:
        answer = self.ask(command, context)
        if not answer:
            raise AwayError(f"{self.place}: the answer was cut off")
        said = last_line(answer)
        if said.startswith(_DENIED):
            said = f"{said}: its socket must have `level admin`"
        if said:
            raise HandlerError(f"{self.place}: {command}: {said}")


def is_address(place: str) -> bool:
    """Tell whether a place is HOST:PORT, and no path."""
    return "/" not in place and split_listener(place) is not None


def _open(family: int, address: object, seconds: float) -> socket.socket:
    """Return a connection; raises OSError."""
    if seconds <= 0:
        raise TimeoutError
    wire = socket.socket(family, socket.SOCK_STREAM)
    try:
        wire.settimeout(seconds)
        wire.connect(address)  # pyright: ignore[reportArgumentType]
    except BaseException:
        wire.close()
        raise
    return wire


def _read(wire: socket.socket, seconds: float) -> bytes:
    if seconds <= 0:
        raise TimeoutError
    wire.settimeout(seconds)
    return wire.recv(PIECE_BYTES)


def _hang_up(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
