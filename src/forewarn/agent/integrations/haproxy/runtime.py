"""A client of HAProxy's runtime API at one socket, with one command per connection.

It reads servers with their states and sessions, and sets their states. At the socket of a
master process it talks to the workers, and also counts the sessions of old workers that a
reload has left. It does not decide anything.
"""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Mapping

from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.wire.connection import TIMEOUTS, Lookup
from forewarn.agent.wire.http import HttpError, parse_url
from forewarn.agent.wire.urls import split_listener
from forewarn.protocol.frozen import frozen_dataclass

EXCHANGE_SECONDS = 4.0
"""Maximum seconds for one command: HAProxy answers in milliseconds, or hangs."""

ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""Maximum length of a response, in bytes: `show stat` needs under 1 kB per server."""

PIECE_BYTES = 65_536

MAINT_FORCED = 0x01
DRAIN_FORCED = 0x08
"""Flags that an operator or this handler has set."""

OUT = 0x01 | 0x02 | 0x08 | 0x10 | 0x20
"""Flags of `srv_admin_state` that keep new sessions away, inherited or set. 0x04 alone
means: disabled in the configuration file, but ready since."""

_RUNNING = 2
"""The value of `srv_op_state` for a server that is up."""

_SERVERS_ONLY = "show stat -1 4 -1"

_UNKNOWN = "Unknown command"
_DENIED = "Permission denied"

Row = Mapping[str, str]


class AwayError(HandlerError):
    """No complete response came from the socket, for example while HAProxy restarts."""


@frozen_dataclass
class Server:
    """One server of a backend, in one process."""

    backend: str
    name: str
    admin: int
    """`srv_admin_state`, a bit set."""
    is_up: bool
    """Whether the server's health checks succeed; always true without checks."""
    sessions: int
    """Active and queued sessions, including those in old workers."""
    is_counted: bool = True
    """Whether the server's process has reported the sessions."""
    process: str = ""
    """The prefix that sends a command to the server's process."""

    @property
    def label(self) -> str:
        """Return the server's name in commands."""
        return f"{self.backend}/{self.name}"

    @property
    def is_out(self) -> bool:
        """Return whether the server gets no new sessions, for any reason."""
        return bool(self.admin & OUT)


class Runtime:
    """A client of the runtime API at one socket."""

    def __init__(self, place: str) -> None:
        """Use a path or HOST:PORT; nothing is contacted yet."""
        self.place = place
        self._lookup: Lookup | None = None
        if is_address(place):
            self._lookup = Lookup(parse_url(f"http://{place}"))

    def servers(self, context: RunContext) -> list[Server]:
        """Return all servers; raises HandlerError.

        AwayError is a temporary failure.
        """
        current, old = self._processes(context)
        left_behind: Counter[str] = Counter()
        for process in old:
            # If the old worker has ended since, it has no sessions.
            with contextlib.suppress(HandlerError):
                left_behind.update(self._sessions(process, context))
        servers: list[Server] = []
        for process in current:
            sessions = self._sessions(process, context)
            for row in self._table(f"{process}show servers state", " ", context):
                label = f"{row['be_name']}/{row['srv_name']}"
                servers.append(
                    Server(
                        backend=row["be_name"],
                        name=row["srv_name"],
                        admin=int(row["srv_admin_state"]),
                        is_up=int(row["srv_op_state"]) == _RUNNING,
                        # Counted once if several workers have the server.
                        sessions=sessions.get(label, 0) + left_behind.pop(label, 0),
                        is_counted=label in sessions,
                        process=process,
                    )
                )
        return servers

    def set_state(self, server: Server, state: str, context: RunContext) -> None:
        """Set a server to `ready`, `drain` or `maint`; raises HandlerError."""
        self._order(f"{server.process}set server {server.label} state {state}", context)

    def shut_sessions(self, server: Server, context: RunContext) -> None:
        """Close all sessions of a server, including old workers; raises HandlerError."""
        command = f"shutdown sessions server {server.label}"
        _, old = self._processes(context)
        for process in old:
            with contextlib.suppress(HandlerError):
                self._order(f"{process}{command}", context)
        self._order(f"{server.process}{command}", context)

    def level(self, context: RunContext) -> str:
        """Return the access level of the socket: `admin`, `operator` or `user`.

        Empty: this version does not report it. Raises HandlerError.
        """
        current, _ = self._processes(context)
        answer = self.ask(f"{current[0]}show cli level", context).strip()
        return "" if answer.startswith(_UNKNOWN) else last_line(answer)

    def why_not_master(self, context: RunContext) -> str:
        """Return why another socket should be used; empty: this one is right.

        The environment of a worker shows whether it has a master, and its socket.
        Raises HandlerError.
        """
        current, _ = self._processes(context)
        if current != [""] or not self._variable("HAPROXY_MWORKER", context):
            return ""
        master = self._variable("HAPROXY_MASTER_CLI", context).partition(";")[0]
        path = master.partition("@")[2] or master
        if not master:
            advice = "start HAProxy with `-S PATH`, and use that socket"
        elif is_address(self.place) and not is_address(path):
            advice = "start HAProxy with `-S HOST:PORT`, and use that address"
        else:
            advice = f"use the master's socket, {path}"
        return (
            f"{self.place} is the socket of a worker. After a reload it does not show the "
            "sessions of the old worker, and its servers are no longer drained: "
            f"{advice}"
        )

    def _variable(self, name: str, context: RunContext) -> str:
        """Return a variable of a worker's environment; empty: not set, or not shown."""
        answer = self.ask(f"show env {name}", context).strip()
        variable, equals, value = answer.partition("=")
        return value if equals and variable == name else ""

    def ask(self, command: str, context: RunContext) -> str:
        """Send a command and return the response; raises AwayError and RunEndedError."""
        seconds = min(context.remaining(), EXCHANGE_SECONDS)
        if seconds <= 0:
            raise context.over(f"asking {self.place}")
        why = ""
        answer = b""
        try:
            answer = self._exchange(command, context, context.timer(seconds))
        except TIMEOUTS:
            why = f"no answer within {seconds:.0f} s"
        except HttpError as error:
            # The error is from the name lookup and contains the name.
            raise AwayError(error.message) from error
        except OSError as error:
            why = error.strerror or str(error)
        if context.remaining() <= 0:
            raise context.over(f"asking {self.place}")
        if why:
            raise AwayError(f"{self.place}: {why}")
        return answer.decode("utf-8", "replace")

    def _exchange(
        self, command: str, context: RunContext, left: Callable[[], float]
    ) -> bytes:
        """Send a command and return the response; raises OSError and HttpError."""
        answer = bytearray()
        with (
            contextlib.closing(self._connected(left)) as wire,
            context.on_stop(lambda: _hang_up(wire)),
        ):
            wire.sendall(f"{command}\n".encode())
            # Close this side: a master would wait for another command.
            wire.shutdown(socket.SHUT_WR)
            while piece := _read(wire, left()):
                answer += piece
                if len(answer) > ANSWER_BYTES_MAX:
                    raise HandlerError(
                        f"{self.place}: the response is longer than {ANSWER_BYTES_MAX} bytes"
                    )
        return bytes(answer)

    def _connected(self, left: Callable[[], float]) -> socket.socket:
        """Return a connection; raises OSError and HttpError."""
        if self._lookup is None:
            if (family := getattr(socket, "AF_UNIX", None)) is None:
                raise OSError(0, "this system does not support Unix sockets")
            return _open(family, self.place, left())
        addresses = self._lookup.addresses(left)
        for family, address in addresses[:-1]:
            with contextlib.suppress(OSError):
                return _open(family, address, left() / len(addresses))
        return _open(*addresses[-1], left())

    def _processes(self, context: RunContext) -> tuple[list[str], list[str]]:
        """Return the command prefixes of the workers, and of old workers."""
        answer = self.ask("show proc", context)
        if answer.startswith(_UNKNOWN) or _DENIED in answer:
            # This is the socket of a worker.
            return [""], []
        if not answer.startswith("#"):
            raise AwayError(f"{self.place}: the response to show proc is incomplete")
        current: list[str] = []
        old: list[str] = []
        workers: list[str] | None = None
        for line in answer.splitlines():
            if line.startswith("# "):
                workers = {"# workers": current, "# old workers": old}.get(line.strip())
            elif workers is not None and line.strip():
                workers.append(f"@!{line.split()[0]} ")
        if not current:
            raise AwayError(f"{self.place}: the master process has no worker")
        return current, old

    def _sessions(self, process: str, context: RunContext) -> dict[str, int]:
        """Return the number of active and queued sessions of each server."""
        rows = self._table(f"{process}{_SERVERS_ONLY}", ",", context)
        return {
            f"{row['pxname']}/{row['svname']}": int(row["scur"] or 0)
            + int(row["qcur"] or 0)
            for row in rows
        }

    def _table(self, command: str, comma: str, context: RunContext) -> list[Row]:
        """Parse a table that HAProxy returns, by the names of its columns."""
        answer = self.ask(command, context)
        lines = answer.splitlines()
        names: list[str] = []
        rows: list[Row] = []
        for line in lines:
            if line.startswith("# "):
                names = line[2:].split(comma)
            elif names and line.strip():
                rows.append(dict(zip(names, line.split(comma))))
        if not names:
            if not (why := last_line(answer)):
                raise AwayError(f"{self.place}: the response is incomplete")
            raise HandlerError(f"{self.place}: {command}: {why}")
        # Every table ends with an empty line; without it, it may be incomplete.
        if lines[-1].strip():
            raise AwayError(f"{self.place}: the response is incomplete")
        return rows

    def _order(self, command: str, context: RunContext) -> None:
        if not (answer := self.ask(command, context)):
            raise AwayError(f"{self.place}: the response is incomplete")
        error = last_line(answer)
        if error.startswith(_DENIED):
            error = f"{error}: its socket must have `level admin`"
        if error:
            raise HandlerError(f"{self.place}: {command}: {error}")


def is_address(place: str) -> bool:
    """Return whether a place is HOST:PORT instead of a path."""
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
