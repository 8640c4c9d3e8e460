"""A service in this process: its health, its listeners, and how it ends."""

import asyncio
import contextlib
import errno
import json
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from forewarn.admin.limits import FLEET_BYTES_MAX
from forewarn.admin.tokens import TokenFileError
from forewarn.clock import Clock, SystemClock
from forewarn.control.requests import outcome, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import FleetText
from forewarn.metadata.server import Address
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.operations import Action, CallState, Operation, OperationState
from forewarn.service import assembly, limits
from forewarn.service.assembly import Service, StartError, read_fleet_text
from forewarn.service.listening import open_at, refused
from forewarn.service.settings import SettingsError, load_settings
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import ConflictError, Reader, StoreError, Transaction
from tests.support.loops import in_loop, until
from tests.support.open_files import no_more_files
from tests.support.processes import PATIENCE_SECONDS

T = TypeVar("T")

FLEET = """
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
listen = "127.0.0.1:0"
"""
MORE = """
[[vm]]
name = "web_1"
host = "h1"
listen = "127.0.0.1:0"
"""


class _Store(MemoryStore):
    """A store that fails on demand."""

    is_broken = False
    is_held = False
    fault: Exception = StoreError("the disk has gone")

    def read(self, work: Callable[[Reader], T]) -> T:
        if self.is_broken:
            raise self.fault
        return super().read(work)

    def transact(self, work: Callable[[Transaction], T]) -> T:
        if self.is_held:
            raise ConflictError("another writer holds the store")
        return super().transact(work)


class _SlowToPublish(MemoryStore):
    """A store that blocks reads of views until they are allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = threading.Event()
        self.may_go_on = threading.Event()

    def read(self, work: Callable[[Reader], T]) -> T:
        if threading.current_thread().name == "forewarn-control":
            self.is_asked.set()
            self.may_go_on.wait(PATIENCE_SECONDS)
        return super().read(work)


class _Ahead(SystemClock):
    """A clock whose monotonic time can be advanced."""

    seconds = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.seconds


def service_of(
    store: MemoryStore | None = None, *, clock: Clock | None = None, **flags: str
) -> Service:
    usual = {
        "metadata.listen": "",
        "admin.listen": "127.0.0.1:0",
        "store.url": "memory://",
    }
    flags = {name.replace("__", "."): text for name, text in flags.items()}
    settings = load_settings(file=None, environ={}, flags={**usual, **flags})
    return Service(settings, store=store, clock=clock)


@contextlib.asynccontextmanager
async def running(service: Service, fleet: str = FLEET) -> AsyncGenerator[Service]:
    await service.start(fleet=FleetText(name="fleet.toml", text=fleet))
    try:
        yield service
    finally:
        await service.stop()


async def get(address: Address, path: str) -> tuple[int, Any]:
    """Return the status and the JSON of a response."""
    status, _, body = await ask(address, path)
    return status, json.loads(body)


async def ask(address: Address, path: str) -> tuple[int, str, bytes]:
    """Return the status of a response, its head in lower case, and its body."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nMetadata: true\r\n"
        "Connection: close\r\n\r\n".encode()
    )
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode("latin-1").lower(), body


async def document(service: Service, vm: str) -> dict[str, Any]:
    path = "/metadata/scheduledevents?api-version=2020-07-01"
    status, found = await get(service.addresses()[vm], path)
    assert status == 200
    return found


@in_loop
async def test_service_is_ready_between_start_and_stop() -> None:
    service = service_of()
    assert not service.health().ready
    async with running(service):
        assert service.health().ready
        assert await get(service.admin_address, "/readyz") == (
            200,
            {"alive": True, "ready": True, "role": "leads", "problems": []},
        )
        assert (await document(service, "web_0"))["DocumentIncarnation"] == 1
    assert not service.health().ready
    await service.stop()


@in_loop
async def test_dead_control_thread_fails_the_service() -> None:
    store = _Store()
    async with running(service_of(store)) as service:
        store.is_broken = True
        service.wake()
        assert isinstance(await service.wait_failed(), StoreError)
        status, body = await get(service.admin_address, "/healthz")
        assert status == 503
        assert body["alive"] is False
        assert "the disk has gone" in str(body["problems"])
        assert (await get(service.admin_address, "/readyz"))[0] == 503
        # It was never enabled and cannot be enabled now.
        path = "/metadata/scheduledevents?api-version=2020-07-01"
        assert (await get(service.addresses()["web_0"], path))[0] == 503


@in_loop
async def test_service_ends_with_the_error_of_the_machine() -> None:
    store = _Store()
    service = service_of(store)
    serving = asyncio.create_task(
        assembly._serve(service, FleetText(name="fleet.toml", text=FLEET))
    )
    await until(lambda: service.health().ready)
    store.is_broken = True
    with pytest.raises(StoreError, match="the disk has gone"):
        await serving


@in_loop
async def test_service_with_a_bug_ends_with_status_1(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = _Store()
    store.fault = ValueError("a bug")
    service = service_of(store)
    serving = asyncio.create_task(
        assembly._serve(service, FleetText(name="fleet.toml", text=FLEET))
    )
    await until(lambda: service.health().ready)
    store.is_broken = True
    assert await serving == 1
    [first, last] = [line for line in caplog.records if line.levelname == "CRITICAL"]
    assert first.exc_info is not None
    assert last.getMessage() == (
        "the service ends because of a bug in forewarn, please report it: ValueError('a bug')"
    )
    assert caplog.records[-1] is last


@in_loop
async def test_error_while_stopping_is_raised_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk: both the thread's work and closing the file fail."""
    store = _Store()
    service = service_of(store)
    monkeypatch.setattr(service, "stop", _stopping_badly(service))
    serving = asyncio.create_task(
        assembly._serve(service, FleetText(name="fleet.toml", text=FLEET))
    )
    await until(lambda: service.health().ready)
    store.is_broken = True
    with pytest.raises(StoreError, match="the disk has gone"):
        await serving


def _stopping_badly(service: Service) -> Callable[[], Coroutine[Any, Any, None]]:
    stop = service.stop

    async def stop_badly() -> None:
        await stop()
        raise StoreError("the file cannot be closed")

    return stop_badly


@in_loop
async def test_start_raises_the_error_of_the_store() -> None:
    store = _Store()
    store.is_broken = True
    with pytest.raises(StoreError, match="the disk has gone"):
        await service_of(store).start()


@in_loop
async def test_hanging_control_thread_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(service_of()) as service:
        monkeypatch.setattr(limits, "STUCK_SECONDS", -1)
        health = service.health()
        assert not health.alive
        assert not health.ready
        assert "has no heartbeat" in health.problems[0]


HELD = "the store cannot be written: another program locks it"


@in_loop
async def test_locked_store_is_reported_until_it_is_free() -> None:
    store, clock = _Store(), _Ahead()
    async with running(service_of(store, clock=clock)) as service:
        await document(service, "web_0")
        store.is_held = True
        with pytest.raises(ForewarnError, match="another program locks it"):
            await service.apply(FleetText(name="fleet.toml", text=FLEET + MORE))
        # A short lock, as by a backup, does not affect readiness.
        assert service.health().ready
        clock.seconds = limits.IDLE_SECONDS + 1
        service.wake()
        await until(lambda: not service.health().ready)
        assert await get(service.admin_address, "/readyz") == (
            503,
            {"alive": True, "ready": False, "role": "leads", "problems": [HELD]},
        )
        assert (await get(service.admin_address, "/healthz"))[0] == 200
        clock.seconds = limits.STUCK_SECONDS + 1
        service.wake()
        # Until the thread has turned once more, it looks stuck by this clock.
        await until(lambda: service.health().alive)
        # A long lock affects only readiness, since a restart would not help.
        status, body = await get(service.admin_address, "/healthz")
        assert (status, body["alive"], body["problems"]) == (200, True, [HELD])
        assert (await get(service.admin_address, "/readyz"))[0] == 503
        store.is_held = False
        service.wake()
        await until(lambda: service.health().ready)
        assert service.health().problems == ()
        assert (await get(service.admin_address, "/healthz"))[0] == 200


@in_loop
async def test_missing_timers_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(service_of()) as service:
        monkeypatch.setattr(limits, "IDLE_SECONDS", -1)
        health = service.health()
        assert health.alive
        assert not health.ready
        assert "timers do not run" in health.problems[0]


@in_loop
async def test_injected_fault_affects_a_call_and_is_resolved() -> None:
    store = MemoryStore()
    service = service_of(
        store,
        timing__speed="1000000",
        driver__timeout="1s",
        driver__simulated__faults="reboot forget",
    )

    def operations() -> list[Operation]:
        return store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))

    async with running(service):
        who = Who(actor=operator("test"))
        await service.gateway.order(
            who,
            lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, OrderOptions()),
        )
        await until(lambda: operations()[0].call_state is CallState.UNKNOWN)
        [operation] = operations()
        await service.gateway.order(
            who,
            lambda work: outcome.resolve(work, operation.operation_id, done=True),
        )
        await until(lambda: operations()[0].state is OperationState.DONE)


@in_loop
async def test_own_listener_answers_503_until_documents_are_published() -> None:
    store = _SlowToPublish()
    store.may_go_on.set()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address: Address = free.getsockname()
    fleet = FLEET.replace("127.0.0.1:0", f"127.0.0.1:{address[1]}")
    async with running(service_of(store), fleet) as service:
        await document(service, "web_0")
    store.may_go_on.clear()
    store.is_asked.clear()
    service = service_of(store)
    start = asyncio.create_task(service.start())
    try:
        await until(store.is_asked.is_set)
        path = "/metadata/scheduledevents?api-version=2020-07-01"
        status, headers, _ = await ask(address, path)
        assert (status, "retry-after" in headers) == (503, True)
        store.may_go_on.set()
        await start
        assert (await get(address, path))[0] == 200
    finally:
        store.may_go_on.set()
        await start
        await service.stop()


@in_loop
async def test_listeners_follow_the_fleet_while_it_runs() -> None:
    async with running(service_of()) as service:
        first = service.addresses()["web_0"]
        await service.apply(FleetText(name="fleet.toml", text=FLEET + MORE))
        await until(lambda: "web_1" in service.addresses())
        assert (await document(service, "web_1"))["Events"] == []
        assert service.addresses()["web_0"] == first
        await service.apply(FleetText(name="fleet.toml", text=FLEET))
        await until(lambda: "web_1" not in service.addresses())
        assert (await document(service, "web_0"))["DocumentIncarnation"] == 1


@in_loop
async def test_port_in_use_is_reported_and_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "LISTENERS_RETRY_SECONDS", 0.01)
    holder = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = holder.sockets[0].getsockname()[1]
    fleet = FLEET.replace("127.0.0.1:0", f"127.0.0.1:{port}")
    async with running(service_of(), fleet) as service:
        assert service.health().ready
        assert service.health().problems[0].startswith("no listener for VM web_0")
        holder.close()
        await until(lambda: "web_0" in service.addresses())
        assert service.health().problems == ()


@in_loop
async def test_services_in_one_process_are_independent() -> None:
    async with running(service_of()) as one, running(service_of()) as other:
        assert one.admin_address != other.admin_address
        await document(one, "web_0")
        assert one.endpoint.take_last_seen() != {}
        assert other.endpoint.take_last_seen() == {}


@in_loop
async def test_failed_start_leaves_nothing_running(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'forewarn.db'}"
    async with running(service_of()) as other:
        host, port = other.admin_address
        with pytest.raises(StartError, match="cannot listen at") as raised:
            await service_of(store__url=url, admin__listen=f"{host}:{port}").start()
        assert raised.value.hint == (
            "Stop the program that listens there, or choose another address with "
            "--admin-listen (setting admin.listen)."
        )
    async with running(service_of(store__url=url)) as service:
        assert service.health().ready


@pytest.mark.parametrize("is_path", [False, True])
@in_loop
async def test_start_waits_for_the_address_of_a_killed_service(
    tmp_path: Path, *, is_path: bool
) -> None:
    """The process of its operator API ends some milliseconds after it."""
    listen = f"unix:{tmp_path / 'api'}" if is_path else "127.0.0.1:0"
    first = await open_at(listen)
    if not is_path:
        listen = "{}:{}".format(*first.getsockname())
    with pytest.raises(OSError, match=r"in use|listens") as raised:
        await open_at(listen, seconds=0.0)
    assert raised.value.errno == errno.EADDRINUSE
    waiting = asyncio.create_task(open_at(listen))
    await asyncio.sleep(0)
    first.close()
    (await waiting).close()


def test_start_without_free_file_descriptors_has_a_hint() -> None:
    with (
        no_more_files(),
        pytest.raises(StartError) as raised,
        refused("metadata.listen", "127.0.0.1:0"),
    ):
        socket.socket()
    assert raised.value.message == "cannot listen at 127.0.0.1:0: Too many open files"
    assert "`ulimit -n`" in raised.value.hint


@in_loop
async def test_invalid_fleet_file_prevents_the_first_start(tmp_path: Path) -> None:
    full = FLEET.replace('name = "h1"', 'name = "h1"\nzone = "a/b"')
    service = service_of(store__url=f"sqlite:///{tmp_path / 'forewarn.db'}")
    with pytest.raises(FleetFileError):
        await service.start(fleet=FleetText(name="fleet.toml", text=full))
    with pytest.raises(FleetFileError, match="cannot be read"):
        read_fleet_text(tmp_path / "missing")


def test_fleet_file_for_the_start_may_be_larger_than_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("#" * (FLEET_BYTES_MAX + 1))
    assert len(read_fleet_text(file).text) == FLEET_BYTES_MAX + 1
    monkeypatch.setattr(limits, "FLEET_FILE_BYTES_MAX", 1 << 20)
    with pytest.raises(FleetFileError, match="more than 1 MiB"):
        read_fleet_text(file)


@in_loop
async def test_missing_or_empty_secret_file_is_refused(tmp_path: Path) -> None:
    missing, empty = str(tmp_path / "missing"), tmp_path / "empty"
    empty.write_text("")
    with pytest.raises(TokenFileError):
        await service_of(admin__token_file=missing).start()
    for file in (missing, str(empty)):
        with pytest.raises(
            SettingsError, match=r"flag --metadata-signed-secret-file: "
        ):
            await service_of(metadata__signed_secret_file=file).start()


@pytest.mark.system
@in_loop
async def test_last_seen_times_are_stored_at_the_end() -> None:
    store = MemoryStore()
    async with running(service_of(store)) as service:
        await document(service, "web_0")
        stopped_at = service.clock.now()
        await document(service, "web_0")
    [view] = store.read(lambda reader: reader.select(kinds.ALL_VIEWS))
    assert view.last_seen >= stopped_at


@in_loop
async def test_waiting_first_request_gets_503_at_a_stop() -> None:
    service = service_of(metadata__first_answer_delay="2m")
    await service.start(fleet=FleetText(name="fleet.toml", text=FLEET))
    path = "/metadata/scheduledevents?api-version=2020-07-01"
    held = asyncio.create_task(get(service.addresses()["web_0"], path))
    await until(lambda: service.server.open_connections == 1)
    await service.stop()
    status, _ = await held
    assert status == 503
