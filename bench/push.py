"""The cost of many VMs that wait for a change, and the time until they get one."""

import asyncio
import resource
import statistics
import time
from pathlib import Path
from typing import cast

import uvloop

from bench import client, fleets, machine
from bench.report import Report, Table, percentile, rounded
from bench.service import Service, serving

VMS = 10_000
SPARE_FILES = 500
"""Open files in addition to one per VM, for the load and for the service."""

CONNECTED_TOGETHER = 250
"""Connections opened at once."""

HOSTS = 1_000
SCOPE = "crowd"

PATIENCE_SECONDS = 60.0

RSS_BAR_KIB = 8
ANSWERED_BAR_SECONDS = 1.0
SAVED_BAR = 50
"""A factor of sixty, minus the cost of changes."""


def measure(report: Report, directory: Path, *, changes: int, seconds: int) -> None:
    """Measure VMs that wait `seconds` per request, and the same VMs polling."""
    vms = _affordable(report)
    print(f"\n{vms:,} VMs of one scope wait for a change, {seconds} s each time")
    fleet = "".join(
        [
            fleets.scope_text(SCOPE),
            *(fleets.host_text(f"h{number}") for number in range(HOSTS)),
            *(
                fleets.vm_text(number, f"h{number % HOSTS}", SCOPE, number % HOSTS % 3)
                for number in range(vms)
            ),
        ]
    )
    settings = {"metadata_push": "true", "metadata_push_longest_wait": f"{seconds}s"}
    with serving(directory / "push", fleet, **settings):
        # The next start reads no fleet file, whose freed memory waiting VMs would reuse.
        pass
    with serving(directory / "push", None, **settings) as service:
        story = _Story(service, vms=vms, changes=changes, seconds=seconds)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(story.run())
    _show(report, story)


def _affordable(report: Report) -> int:
    """Raise the limit of open files; return the number of VMs that it allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY or most >= VMS + SPARE_FILES:
        return VMS
    report.note(
        f"push: {VMS:,} waiting VMs need `ulimit -Hn` of {VMS + SPARE_FILES}; it is "
        f"{most}, so there were fewer"
    )
    return most - SPARE_FILES


class _Vm(asyncio.Protocol):
    """A VM that sends its next request after each response, or only on demand."""

    __slots__ = (
        "answered",
        "answers",
        "buffer",
        "repeats",
        "story",
        "tag",
        "transport",
    )

    def __init__(self, story: "_Story") -> None:
        self.story = story
        self.transport: asyncio.Transport | None = None
        self.tag = b""
        self.buffer = b""
        self.answers = 0
        self.answered = 0.0
        self.repeats = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if not self.story.is_over:
            self.story.lost += 1
        self.transport = None

    def ask(self, *, like_nobody: bool = False) -> None:
        assert self.transport is not None, "the service closed a connection"
        data = self.story.request(self.tag)
        if like_nobody:
            # This makes the service parse it and keep the result.
            data = data.replace(b"\r\n", b"\r\nX-Name: %x\r\n" % id(self), 1)
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, body = self.buffer.partition(b"\r\n\r\n")
        _, has_length, rest = head.partition(b"Content-Length: ")
        length = int(rest.partition(b"\r")[0]) if has_length else 0
        if not end or len(body) < length:
            return
        self.buffer = b""
        status = head[9:12]
        assert status in {b"200", b"304"}, head
        self.tag = head.partition(b'ETag: "')[2].partition(b'"')[0]
        self.answers += 1
        self.story.count(self, is_news=status == b"200")
        if self.repeats:
            self.ask()


class _Story:
    def __init__(
        self, service: Service, *, vms: int, changes: int, seconds: int
    ) -> None:
        self._service = service
        self.vms = vms
        self._changes = changes
        self.seconds = seconds
        self._vms: list[_Vm] = []
        self._path = client.PATH
        self._requests: dict[bytes, bytes] = {}
        self._missing = 0
        self._is_pausing = False
        self._all_told = asyncio.Event()
        self.is_over = False
        self.lost = 0
        self.rss_kib = 0.0
        self.told: list[float] = []
        """Seconds from the request until the last VM had its response, by change."""
        self.each: list[float] = []
        """Milliseconds from the request until a VM had its response."""
        self.waiting = (0.0, 0.0)
        self.polling = (0.0, 0.0)
        """Responses per second, and the share of a core."""

    def request(self, tag: bytes) -> bytes:
        data = self._requests.get(tag)
        if data is None:
            self._requests.clear()
            headers = {"If-None-Match": f'"{tag.decode()}"'} if tag else {}
            data = self._requests[tag] = client.get(headers, path=self._path)
        return data

    def count(self, vm: _Vm, *, is_news: bool) -> None:
        if is_news or self._is_pausing:
            vm.answered = time.perf_counter()
            self._missing -= 1
            if not self._missing:
                self._all_told.set()

    async def run(self) -> None:
        await self._enable()
        half = self.vms // 2
        await self._wait(range(half))
        # The first half can reuse memory that the start has freed.
        before = machine.rss_mib(self._service.pid)
        await self._wait(range(half, self.vms))
        after = machine.rss_mib(self._service.pid)
        self.rss_kib = (after - before) * 1024 / (self.vms - half)
        print(f"  half and all wait: {before:.0f}, {after:.0f} MiB", flush=True)
        for number in range(self._changes):
            await self._change(number)
        self.waiting = await self._observe(self.seconds)
        await self._pause_all()
        self.polling = await self._poll_each_second()
        self.is_over = True
        for vm in self._vms:
            if vm.transport is not None:
                vm.transport.close()
        assert not self.lost, f"{self.lost} connections were lost"

    def _poll(self, *, wait: int) -> None:
        self._path = f"{client.PATH}&wait={wait}" if wait else client.PATH
        self._requests.clear()

    async def _enable(self) -> None:
        """Enable the scope, and render its document."""
        wire = await client.connect(*self._service.address, source=fleets.address(0))
        assert (await wire.ask(client.get())).status == 200
        wire.close()

    async def _wait(self, all_numbers: range) -> None:
        """Open connections, get each VM's first document, and let all VMs wait."""
        loop = asyncio.get_running_loop()
        for first in range(0, len(all_numbers), CONNECTED_TOGETHER):
            numbers = all_numbers[first : first + CONNECTED_TOGETHER]
            self._poll(wait=0)
            made = await asyncio.gather(
                *(
                    loop.create_connection(
                        lambda: _Vm(self),
                        *self._service.address,
                        local_addr=(fleets.address(number), 0),
                    )
                    for number in numbers
                )
            )
            self._expect(len(made))
            for _, vm in made:
                vm.ask()
            await self._told()
            self._poll(wait=self.seconds)
            for _, vm in made:
                self._vms.append(vm)
                vm.repeats = True
                vm.ask(like_nobody=True)
        await self._until_waiting()

    def _expect(self, news: int) -> None:
        self._missing = news
        self._all_told.clear()

    async def _told(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._all_told.wait()

    async def _until_waiting(self) -> None:
        line = f"forewarn_metadata_waiters {float(len(self._vms))}"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if line in await asyncio.to_thread(self._service.metrics):
                    return
                await asyncio.sleep(0.1)

    async def _change(self, number: int) -> None:
        self._expect(self.vms)
        began = time.perf_counter()
        ordered = asyncio.create_task(
            asyncio.to_thread(
                self._service.admin,
                "/v1/maintain",
                {"hosts": [f"h{number}"], "impact": "reboot"},
            )
        )
        await self._told()
        self.each += [(vm.answered - began) * 1000 for vm in self._vms]
        self.told.append(max(vm.answered for vm in self._vms) - began)
        print(f"  change {number}: all told in {self.told[-1]:.2f} s", flush=True)
        await ordered
        await self._until_waiting()

    async def _observe(self, seconds: float) -> tuple[float, float]:
        """Return the responses per second and the service's share of a core."""
        pid = self._service.pid
        answers = sum(vm.answers for vm in self._vms)
        began, cpu = time.perf_counter(), machine.cpu_seconds(pid)
        await asyncio.sleep(seconds)
        took = time.perf_counter() - began
        answers = sum(vm.answers for vm in self._vms) - answers
        return answers / took, (machine.cpu_seconds(pid) - cpu) / took

    async def _pause_all(self) -> None:
        """Stop all requests: every VM gets one more change and then sends nothing."""
        for vm in self._vms:
            vm.repeats = False
        # Each VM has one running request, whose response can be 304.
        self._is_pausing = True
        self._expect(self.vms)
        order = {"hosts": [f"h{self._changes}"], "impact": "reboot"}
        await asyncio.to_thread(self._service.admin, "/v1/maintain", order)
        await self._told()

    async def _poll_each_second(self) -> tuple[float, float]:
        self._poll(wait=0)
        polling = asyncio.create_task(self._keep_polling())
        await asyncio.sleep(1)
        seen = await self._observe(min(10.0, self.seconds))
        polling.cancel()
        return seen

    async def _keep_polling(self) -> None:
        """Let a hundredth of the VMs send a request every 10 ms."""
        loop = asyncio.get_running_loop()
        began, step = loop.time(), 0
        while True:
            for vm in self._vms[step % 100 :: 100]:
                vm.ask()
            step += 1
            await asyncio.sleep(max(0, began + step / 100 - loop.time()))


def _show(report: Report, story: _Story) -> None:
    waiting, polling = story.waiting, story.polling
    table = Table("Waiting for a change", ("what", "waiting", "polling each second"))
    table.rows += [
        ("requests/s, nothing changes", rounded(waiting[0]), rounded(polling[0])),
        (
            "CPU of the service, % of a core",
            rounded(waiting[1] * 100),
            rounded(polling[1] * 100),
        ),
        ("RSS of a waiting VM, KiB", rounded(story.rss_kib), "-"),
        (
            "change → response to a VM, median ms",
            rounded(percentile(story.each, 0.5)),
            "-",
        ),
        (
            "change → response to a VM, p99 ms",
            rounded(percentile(story.each, 0.99)),
            "-",
        ),
    ]
    for name, told in (("median", statistics.median), ("longest", max)):
        what = f"change → all have responses, {name} ms"
        table.rows.append((what, rounded(told(story.told) * 1000), "-"))
    report.show(table)
    what = f"{story.vms:,} waiting VMs"
    report.judge(f"{what}: RSS of each", story.rss_kib, RSS_BAR_KIB, "KiB")
    report.judge(
        f"{what}: a change → all answered, median",
        statistics.median(story.told),
        ANSWERED_BAR_SECONDS,
        "s",
    )
    # A wait of less than a minute, as in a quick run, saves proportionally less.
    wanted = SAVED_BAR * story.seconds / 60
    saved = polling[0] / max(waiting[0], 1 / story.seconds)
    report.judge(
        f"{what}: requests of polling each second ÷ waiting's",
        saved,
        wanted,
        "x",
        at_most=False,
    )
