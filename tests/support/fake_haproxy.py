"""A fake of HAProxy's runtime API with the commands and responses of version 2.6.

It listens at a path or a port and takes one command for each connection. A master's
socket takes those for its workers behind `@!PID`. What HAProxy does with traffic is not
there: sessions are numbers that a test sets.
"""

import contextlib
import socketserver
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

STATE_COLUMNS = (
    "be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight "
    "srv_iweight srv_time_since_last_change srv_check_status srv_check_result "
    "srv_check_health srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id "
    "srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr "
    "srv_agent_addr srv_agent_port"
)
STAT_COLUMNS = "pxname,svname,qcur,qmax,scur,smax,slim,stot,status,"

UNKNOWN = (
    "Unknown command, but maybe one of the following ones is a better match:\n"
    "  help [<command>]                        : list matching or all commands\n"
)
STATES = {"ready": 0x00, "drain": 0x08, "maint": 0x01}
FORCED = 0x01 | 0x08


@dataclass(slots=True)
class Server:
    """One server of a backend."""

    admin: int = 0
    op: int = 2
    sessions: list[int] = field(default_factory=lambda: [0])
    """The number of sessions at each of the next polls; the last number stays."""
    queued: int = 0

    def look(self) -> int:
        return self.sessions.pop(0) if len(self.sessions) > 1 else self.sessions[0]


class FakeHaproxy:
    """One HAProxy, and what it was asked."""

    def __init__(self, *labels: str) -> None:
        self.servers = {label: Server() for label in labels}
        self.place = ""
        self.level = "admin"
        self.asked: list[str] = []
        self.is_master = False
        self.environment: dict[str, str] = {}
        """The IDs of its workers."""
        self.is_obeying = True
        """Whether orders have an effect."""
        self.left_behind: dict[int, dict[str, Server]] = {}
        """Workers of before a reload, by process."""
        self.answers: list[str | Callable[[], None]] = []
        """Responses to the next commands instead of the true ones, or actions before them."""
        self.silence = threading.Event()

    def orders(self) -> list[str]:
        """Return the commands that change something."""
        return [
            command
            for command in self.asked
            if command.split()[0] in {"set", "shutdown"}
        ]

    def reload(self, **servers: Server) -> None:
        """Forget what was set: the file's state holds, and sessions stay behind."""
        self.left_behind[4000 + len(self.left_behind)] = self.servers
        self.servers = servers or {label: Server() for label in self.servers}

    def answer(self, command: str) -> str:
        self.asked.append(command)
        if self.answers:
            scripted = self.answers.pop(0)
            if isinstance(scripted, str):
                return scripted
            scripted()
        if not self.is_master:
            return self._worker(command, self.servers)
        if command == "show proc":
            return self._processes()
        process, _, rest = command.partition(" ")
        if not process.startswith("@!"):
            return UNKNOWN
        pid = int(process[2:])
        if pid == 5000:
            return self._worker(rest, self.servers)
        if pid in self.left_behind:
            return self._worker(rest, self.left_behind[pid])
        return f"Can't find the target PID matching the prefix '{process}'\n"

    def _processes(self) -> str:
        line = "{:<15} {:<15} {:<15} {:<15} {:<15}\n"
        rows = [
            line.format("#<PID>", "<type>", "<reloads>", "<uptime>", "<version>"),
            line.format(1, "master", len(self.left_behind), "0d00h00m28s", "2.6.12"),
            "# workers\n",
            line.format(5000, "worker", 0, "0d00h00m28s", "2.6.12"),
            "# old workers\n" if self.left_behind else "",
            *(
                line.format(pid, "worker", 1, "0d00h01m28s", "2.6.12")
                for pid in self.left_behind
            ),
            "# programs\n",
            "\n",
        ]
        return "".join(rows)

    def _worker(self, command: str, servers: dict[str, Server]) -> str:
        if command == "show cli level":
            return f"{self.level}\n\n"
        if command == "show servers state":
            return self._states(servers)
        if command == "show stat -1 4 -1":
            rows = [
                f"{label.replace('/', ',')},{server.queued},0,{server.look()},1,,9,UP,\n"
                for label, server in servers.items()
            ]
            return f"# {STAT_COLUMNS}\n{''.join(rows)}\n"
        match command.split():
            case ["show", "env", name]:
                if self.level == "user":
                    return "Permission denied\n\n"
                value = self.environment.get(name)
                return f"{name}={value}\n\n" if value else "Variable not found\n\n"
            case ["set", "server", label, "state", state]:
                return self._ordered(label, servers) or self._set(
                    servers[label], STATES[state]
                )
            case ["shutdown", "sessions", "server", label]:
                text = self._ordered(label, servers)
                if not text and self.is_obeying:
                    servers[label].sessions = [0]
                return text or "\n"
            case _:
                return UNKNOWN

    def _states(self, servers: dict[str, Server]) -> str:
        rows = [
            f"3 {label.replace('/', f' {number} ')} 127.0.0.1 "
            f"{server.op} {server.admin} 1 1 31 1 0 2 0 0 0 0 - 8001 - 0 0 - - 0\n"
            for number, (label, server) in enumerate(servers.items(), start=1)
        ]
        return f"1\n# {STATE_COLUMNS}\n{''.join(rows)}\n"

    def _ordered(self, label: str, servers: dict[str, Server]) -> str:
        """Return why an order is refused; empty: it is not."""
        if self.level != "admin":
            return "Permission denied\n\n"
        backend, slash, _ = label.partition("/")
        if not slash:
            return "Require 'backend/server'.\n\n"
        if not any(server.startswith(f"{backend}/") for server in servers):
            return "No such backend.\n\n"
        return "" if label in servers else "No such server.\n\n"

    def _set(self, server: Server, flag: int) -> str:
        if self.is_obeying:
            server.admin = server.admin & ~FORCED | flag
        return "\n"


@contextlib.contextmanager
def serving(haproxy: FakeHaproxy, place: Path | None = None) -> Generator[FakeHaproxy]:
    """Listen at a path, or at a port of this machine, until the end of the context."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            command = self.rfile.readline().decode().strip()
            answer = haproxy.answer(command)
            if answer == "hang":
                haproxy.silence.wait(30)
            elif answer:
                self.wfile.write(answer.encode())
            if haproxy.is_master:
                # It waits for another command, until there will be none.
                self.rfile.read()

    class Quiet:
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Send nothing: the test has closed the connection."""

    class Unix(Quiet, socketserver.ThreadingUnixStreamServer):
        pass

    class Tcp(Quiet, socketserver.ThreadingTCPServer):
        pass

    server = Unix(str(place), Handler) if place else Tcp(("127.0.0.1", 0), Handler)
    haproxy.place = (
        str(place) if place else f"127.0.0.1:{server.socket.getsockname()[1]}"
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield haproxy
    finally:
        haproxy.silence.set()
        server.shutdown()
        thread.join()
        server.server_close()
