"""A QEMU without a VM: its monitors speak QMP as QEMU 7.2 does.

    fake_qemu.py --monitor SOCKET… [--incoming] [--daemonize PIDFILE]
                 [--ignores-power-button]

It changes its run state by commands, keeps objects, and migrates to another fake over a
Unix socket or TCP. Commands that begin with `x-` are for tests: `x-power-off` is a guest that
shuts itself down, and `x-hang` never answers.
The answers and events are those that a real one gave (tests/real/test_qemu.py).
"""

import argparse
import asyncio
import contextlib
import json
import os
import time  # noqa: TID251 - it runs without the package
from pathlib import Path
from typing import Any

GREETING = {
    "QMP": {
        "version": {
            "qemu": {"micro": 22, "minor": 2, "major": 7},
            "package": "Debian 1:7.2+dfsg-7+deb12u18+b3",
        },
        "capabilities": ["oob"],
    }
}


class RefusedError(Exception):
    """A command fails, with the class and the text of QEMU's error."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


class FakeQemu:
    """One process of QEMU."""

    def __init__(
        self, *, incoming: bool = False, ignores_power_button: bool = False
    ) -> None:
        self.status = "inmigrate" if incoming else "running"
        self.ignores_power_button = ignores_power_button
        self.objects: dict[str, dict[str, Any]] = {}
        self.clients: dict[asyncio.StreamWriter, bool] = {}
        """Each client, and whether it has left the negotiation mode."""
        self.migration: dict[str, Any] = {}
        self.blocked: list[str] = []
        """The reasons why the VM cannot be migrated."""
        self.when_shut_down = "poweroff"
        self.refused: dict[str, str] = {}
        """The commands that fail, with the text of their error."""
        self.commands: list[str] = []
        self.has_ended = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        self.writers: set[asyncio.StreamWriter] = set()
        self.servers: list[asyncio.Server] = []

    async def listen(self, path: Path) -> None:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - a moment
        # Like a monitor of QEMU, serve one client at a time; the others wait.
        turn = asyncio.Lock()

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            try:
                async with turn:
                    await self.serve(reader, writer)
            except OSError:
                # The client has gone.
                pass
            finally:
                self.clients.pop(writer, None)
                writer.close()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # A task that is cancelled before its first step would not close the writer.
            self.writers.add(writer)
            task = asyncio.create_task(serve(reader, writer))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

        self.servers.append(await asyncio.start_unix_server(accept, path))

    async def close(self) -> None:
        """Stop the fake without ending the process."""
        for server in self.servers:
            server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for writer in self.writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.clients[writer] = False
        self.send(writer, GREETING)
        while line := await reader.readline():
            message = json.loads(line)
            self.send(writer, await self.answer(writer, message))
            if message["execute"] == "quit":
                self.quit("host-qmp-quit", guest=False)

    def send(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        writer.write(json.dumps(message).encode() + b"\r\n")

    def emit(self, name: str, **data: Any) -> None:
        micros = time.time_ns() // 1000
        stamp = {"seconds": micros // 10**6, "microseconds": micros % 10**6}
        event = {"timestamp": stamp, "event": name, **({"data": data} if data else {})}
        for writer, is_ready in self.clients.items():
            if is_ready:
                self.send(writer, event)

    async def answer(self, writer: Any, message: dict[str, Any]) -> dict[str, Any]:
        command, number = (
            message["execute"],
            {"id": message["id"]} if "id" in message else {},
        )
        self.commands.append(command)
        try:
            result = await self.execute(writer, command, message.get("arguments", {}))
        except RefusedError as error:
            return {"error": {"class": error.kind, "desc": error.text}, **number}
        return {"return": result, **number}

    async def execute(
        self, writer: Any, command: str, arguments: dict[str, Any]
    ) -> Any:
        if command == "qmp_capabilities":
            self.clients[writer] = True
            return {}
        if not self.clients[writer]:
            text = "Expecting capabilities negotiation"
            raise RefusedError("CommandNotFound", text)
        if command in self.refused:
            raise RefusedError("GenericError", self.refused[command])
        function = getattr(self, f"do_{command.replace('-', '_')}", None)
        if function is None:
            raise RefusedError(
                "CommandNotFound", f"The command {command} has not been found"
            )
        answer = await function(arguments)
        return {} if answer is None else answer

    async def do_query_status(self, _: dict[str, Any]) -> Any:
        running = self.status == "running"
        return {"status": self.status, "singlestep": False, "running": running}

    async def do_stop(self, _: dict[str, Any]) -> None:
        self.set_status("paused")

    async def do_cont(self, _: dict[str, Any]) -> None:
        if self.status == "shutdown":
            raise RefusedError(
                "GenericError", "Resetting the Virtual Machine is required"
            )
        self.set_status("running")

    def set_status(self, status: str) -> None:
        if (self.status == "running") != (status == "running"):
            self.emit("RESUME" if status == "running" else "STOP")
        self.status = status

    async def do_system_reset(self, _: dict[str, Any]) -> None:
        if self.status == "shutdown":
            self.status = "paused"
        self.emit("RESET", guest=False, reason="host-qmp-system-reset")

    async def do_system_powerdown(self, _: dict[str, Any]) -> None:
        self.emit("POWERDOWN")
        if not self.ignores_power_button and self.status == "running":
            self.shut_down()

    async def do_x_power_off(self, _: dict[str, Any]) -> None:
        self.shut_down()

    def shut_down(self) -> None:
        if self.when_shut_down == "pause":
            self.emit("SHUTDOWN", guest=True, reason="guest-shutdown")
            self.set_status("shutdown")
        else:
            self.quit("guest-shutdown", guest=True)

    async def do_set_action(self, arguments: dict[str, Any]) -> None:
        self.when_shut_down = arguments["shutdown"]

    async def do_quit(self, _: dict[str, Any]) -> None:
        pass

    def quit(self, reason: str, *, guest: bool) -> None:
        self.emit("SHUTDOWN", guest=guest, reason=reason)
        asyncio.get_running_loop().call_later(0.01, self.has_ended.set)

    async def do_x_hang(self, _: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    # Objects

    async def do_object_add(self, arguments: dict[str, Any]) -> None:
        if arguments["id"] in self.objects:
            text = f"attempt to add duplicate property '{arguments['id']}' to object"
            raise RefusedError("GenericError", f"{text} (type 'container')")
        self.objects[arguments["id"]] = dict(arguments)

    def object_at(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.objects[arguments["path"].removeprefix("/objects/")]
        except KeyError:
            text = f"Device '{arguments['path']}' not found"
            raise RefusedError("DeviceNotFound", text) from None

    async def do_qom_get(self, arguments: dict[str, Any]) -> Any:
        return self.object_at(arguments)[arguments["property"]]

    async def do_qom_set(self, arguments: dict[str, Any]) -> None:
        self.object_at(arguments)[arguments["property"]] = arguments["value"]

    # Migration

    async def do_migrate_set_parameters(self, _: dict[str, Any]) -> None:
        pass

    async def do_migrate_incoming(self, arguments: dict[str, Any]) -> None:
        async def arrive(reader: asyncio.StreamReader, writer: Any) -> None:
            status = (await reader.readline()).decode().strip()
            if status:
                self.status = "paused"
                self.set_status(status)
            writer.write(b"here\n")
            writer.close()

        kind, _, address = arguments["uri"].partition(":")
        if kind == "unix":
            Path(address).unlink(missing_ok=True)  # noqa: ASYNC240 - a moment
            self.servers.append(await asyncio.start_unix_server(arrive, address))
        else:
            await self.listen_for_guest(arrive, *address.partition(",to=")[::2])
        self.emit("MIGRATION", status="setup")

    async def listen_for_guest(self, arrive: Any, address: str, last: str) -> None:
        """Listen on the first free port of a range, and store which one it is."""
        host, _, first = address.rpartition(":")
        for port in range(int(first), int(last or first) + 1):
            with contextlib.suppress(OSError):
                server = await asyncio.start_server(arrive, host, port)
                self.servers.append(server)
                taken = str(server.sockets[0].getsockname()[1])
                self.migration["socket-address"] = [
                    {"port": taken, "ipv4": True, "host": host, "type": "inet"}
                ]
                return
        text = f"Failed to bind socket to {address}: Address already in use"
        raise RefusedError("GenericError", text)

    async def do_migrate(self, arguments: dict[str, Any]) -> None:
        self.migration = {"status": "setup"}
        self.moving = asyncio.create_task(self.move(arguments["uri"]))

    async def move(self, uri: str) -> None:
        before, (kind, _, address) = self.status, uri.partition(":")
        try:
            if kind == "unix":
                reader, writer = await asyncio.open_unix_connection(address)
            else:
                host, _, port = address.rpartition(":")
                reader, writer = await asyncio.open_connection(host, int(port))
        except OSError as error:
            text = f"Failed to connect to '{address}': {error.strerror}"
            self.migration = {"status": "failed", "error-desc": text}
            return
        self.migration = {"status": "active"}
        await asyncio.sleep(0.02)
        if self.migration["status"] != "active":
            writer.close()
            return
        self.set_status("postmigrate")
        writer.write(f"{before}\n".encode())
        await reader.readline()
        writer.close()
        self.migration = {"status": "completed", "downtime": 59, "total-time": 400}

    async def do_query_migrate(self, _: dict[str, Any]) -> Any:
        blocked = {"blocked-reasons": self.blocked} if self.blocked else {}
        return self.migration | blocked

    async def do_migrate_cancel(self, _: dict[str, Any]) -> None:
        if self.migration.get("status") in {"setup", "active"}:
            self.migration = {"status": "cancelled"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--monitor", type=Path, action="append", required=True)
    parser.add_argument("--incoming", action="store_true")
    parser.add_argument("--ignores-power-button", action="store_true")
    parser.add_argument("--daemonize", type=Path, metavar="PIDFILE")
    options = parser.parse_args()
    if options.daemonize and (pid := os.fork()):
        # The parent ends when the child listens.
        options.daemonize.write_text(str(pid))
        while not options.monitor[-1].exists():
            time.sleep(0.01)
        return
    asyncio.run(run(options))


async def run(options: argparse.Namespace) -> None:
    fake = FakeQemu(
        incoming=options.incoming, ignores_power_button=options.ignores_power_button
    )
    for path in options.monitor:
        path.parent.mkdir(exist_ok=True, parents=True)
        await fake.listen(path)
    await fake.has_ended.wait()
    # QEMU removes its sockets when it ends by itself, and not when it is killed.
    for path in options.monitor:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
