"""The service's end of the operator API's process: starts it, answers it, restarts it.

The service opens the API's listener itself and passes the socket to the process. So an
address in use is reported at the start. Clients that connect during a restart of the
process are not refused: they wait in the kernel's queue.

The service trusts nothing from the process: it accepts only a fixed set of calls,
parses requests with `admin.decisions`, and ends the process after a message that is too
long or invalid. A failure of the process affects neither VMs nor maintenance.
"""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, cast

from forewarn.admin.access import (
    LOCAL_USER,
    Caller,
    unauthorized,
)
from forewarn.admin.decisions import (
    caller_of_message,
    once_of_message,
    read_message,
)
from forewarn.admin.gateways import AuthorizedGateway
from forewarn.admin.leader import Leader
from forewarn.admin.limits import RELAY_LINKS_TOGETHER
from forewarn.admin.meters import Reading
from forewarn.campaigns.text import CampaignText
from forewarn.clock import Clock
from forewarn.control.gateway import BusyError, OperatorGateway
from forewarn.control.transactions.work import Who
from forewarn.fleet.file import FleetText
from forewarn.fleet.sources import removals_of
from forewarn.protocol.errors import BadRequestError, ForewarnError
from forewarn.service import limits, metric_definitions
from forewarn.service.api import Answers, Api
from forewarn.service.api_channel import (
    HEAD_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    Channel,
    ChannelError,
    Setup,
    question,
    statement,
)
from forewarn.service.listening import StartError
from forewarn.service.options import socket_path
from forewarn.settings.amounts import Amount

logger = logging.getLogger("forewarn.service")

_BEGIN = "from forewarn.service.api_start import main; main()"
"""The program text. With `-m`, classes of the module would not match pickled ones."""


class ApiProcess(Api):
    """The process of the operator API; used on one event loop."""

    is_apart = True

    def __init__(self, setup: Setup, *, clock: Clock) -> None:
        """Prepare the process; `listen` starts it."""
        super().__init__(setup, clock=clock)
        self._process: subprocess.Popen[bytes] | None = None
        self._end: socket.socket | None = None
        self._channel: Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None]
        self._is_stopping = False
        self._answered_at = 0.0
        self._serves = False
        """Whether the current process has said that it serves operators."""
        self._start_seconds = limits.API_START_SECONDS
        """Time that the current process has until it serves operators."""
        self._ends: list[str] = []
        """The exit of each process that never served operators."""
        self._merging = asyncio.Lock()
        self._questions: set[asyncio.Task[None]] = set()
        self._leader: Leader | None = None
        self.starts = 0
        """Number of starts of the process."""

    # Starting

    async def listen(self) -> None:
        """Open the listener and start the process; raises OSError.

        The process loads its modules while the service opens the store.
        """
        await super().listen()
        self._spawn()

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            numbers = (self.listener.socket.fileno(), theirs.fileno())
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [sys.executable, "-P", "-c", _BEGIN, *map(str, numbers)],
                    # The child exits with this process, which alone holds the other
                    # end.
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    pass_fds=numbers,
                    # A signal from the terminal must reach only the service.
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        self._end = ours
        self.starts += 1

    async def begin(self, answers: Answers) -> None:
        """Start to answer the process."""
        self._answers = answers
        self._ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep())

    async def follow(self, leader: Leader | None, answers: Answers) -> None:
        """Answer with other parts from now on, and say who decides."""
        self._leader, self._answers = leader, answers
        if self._channel is not None:
            # A process that ends meanwhile learns it when it starts again.
            with contextlib.suppress(ConnectionError):
                await self._channel.send(statement(("leader", leader)))

    async def ready(self) -> None:
        """Wait until the process serves operators; raises StartError if it ends first."""
        try:
            async with asyncio.timeout(limits.API_READY_SECONDS):
                await asyncio.shield(self._ready)
        except TimeoutError as error:
            raise StartError(
                "the process of the operator API did not start within "
                f"{limits.API_READY_SECONDS:g} s" + self._earlier_ends(),
                hint="Check the log lines above and the load of this machine, then start "
                "the service again.",
            ) from error

    def _earlier_ends(self) -> str:
        """Return how the processes ended that never served; empty: the first one runs."""
        if not self._ends:
            return ""
        ends = self._ends
        if len(ends) == 1:
            return f": it ended once before that, with {ends[0]}"
        return (
            f": it ended {len(ends)} times before that, the last time with {ends[-1]}"
        )

    # Running

    async def _keep(self) -> None:
        """Run the process, and restart it until the service stops."""
        pause = limits.API_RESTART_SECONDS_MIN
        while True:
            began = self._clock.monotonic()
            code = await self._run()
            status = f"signal {-code}" if code < 0 else f"status {code}"
            if self._is_stopping:
                return
            # A process that was killed, for example without free memory, starts again.
            if not self._ready.done() and code >= 0:
                self._ready.set_exception(
                    StartError(
                        f"the process of the operator API ended at its start ({status})",
                        hint="Check the log lines above, then start the service again.",
                    )
                )
                return
            if self._clock.monotonic() - began >= limits.API_STEADY_SECONDS:
                pause = limits.API_RESTART_SECONDS_MIN
            if not self._ready.done():
                self._ends.append(status)
            logger.error(
                "the process of the operator API ended (%s); VMs are not affected, "
                "and it restarts in %g s",
                status,
                pause,
            )
            await asyncio.sleep(pause)
            pause = min(2 * pause, limits.API_RESTART_SECONDS_MAX)
            while self._process is None:
                try:
                    self._spawn()
                except OSError as error:
                    logger.warning(
                        "cannot start the process of the operator API: %s",
                        error.strerror,
                    )
                    await asyncio.sleep(pause)

    async def _run(self) -> int:
        """Answer one process until it ends; return its exit status, as Popen does."""
        assert self._end is not None
        channel = self._channel = await Channel.over(self._end)
        self._serves, self._answered_at = False, self._clock.monotonic()
        helpers = [
            asyncio.create_task(self._tell_changes(channel)),
            asyncio.create_task(self._tell_relays(channel)),
            asyncio.create_task(self._ping(channel)),
        ]
        try:
            await channel.send(statement(self._setup))
            await channel.send(statement(("leader", self._leader)))
            await self._receive(channel)
        except (EOFError, ConnectionError):
            pass
        except ChannelError as error:
            logger.warning("ending the process of the operator API: %s", error.message)
        finally:
            under_way = (*helpers, *self._questions)
            for task in under_way:
                task.cancel()
            channel.close()
        await asyncio.wait(under_way)
        return await self._reap()

    async def _reap(self) -> int:
        """Wait for the process or kill it; return its exit status."""
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None

        def wait() -> int:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(limits.GRACE_SECONDS + limits.API_END_SECONDS)
            process.kill()
            return process.wait()

        try:
            return await asyncio.to_thread(wait)
        finally:
            process.stdin.close()

    async def _receive(self, channel: Channel) -> None:
        while True:
            head, payload = await channel.receive(
                head_max=HEAD_BYTES_MAX, payload_max=PAYLOAD_BYTES_MAX
            )
            message = question(head)
            kind = message.get("ask")
            if kind == "pong":
                # Only a pong shows that operators can connect.
                self._answered_at = self._clock.monotonic()
                continue
            if kind == "ready":
                self._serves, self._answered_at = True, self._clock.monotonic()
                self._start_seconds = limits.API_START_SECONDS
                if not self._ready.done():
                    self._ready.set_result(None)
                continue
            while len(self._questions) >= limits.API_QUESTIONS_MAX:
                await asyncio.wait(self._questions, return_when=asyncio.FIRST_COMPLETED)
            if kind != "merge":
                # Only calls with fleet files may keep a payload in memory.
                payload = b""
            task = asyncio.create_task(self._answer(channel, message, payload))
            # Drop the reference, which this frame would keep until the next message.
            del payload
            self._questions.add(task)
            task.add_done_callback(self._questions.discard)

    async def _answer(
        self, channel: Channel, message: dict[str, Any], payload: bytes
    ) -> None:
        number = message.get("number")
        try:
            answer = statement(("answer", number, await self._ask(message, payload)))
        except ForewarnError as error:
            answer = statement(("error", number, error))
        except Exception as error:
            logger.exception("a call of the operator API failed")
            fault = ForewarnError(f"internal error of the service: {error!r}")
            answer = statement(("error", number, fault))
        with contextlib.suppress(ConnectionError):
            await channel.send(answer)

    async def _ask(self, message: dict[str, Any], payload: bytes) -> Any:
        """Return the response to a call; unknown calls are rejected."""
        answers = self._answers
        assert answers is not None
        match message["ask"]:
            case "order":
                order = read_message(message.get("order"))
                self._check_known(order.caller)
                return await answers.gateway.order(order.who, order)
            case "merge":
                if self._merging.locked():
                    # The process sends one file at a time, so this is unexpected.
                    raise BusyError(
                        "another fleet file is being applied",
                        hint="Send the file again later.",
                    )
                async with self._merging:
                    return await self._merge(answers.gateway, message, payload)
            case "start-campaign":
                return await self._start_campaign(answers.gateway, message)
            case "health":
                return await answers.gateway.health()
            case "metrics":
                return list(await answers.collect())
            case "abilities":
                return await answers.ask_abilities()
            case _:
                return await self._ask_part(answers, message)

    async def _ask_part(self, answers: Answers, message: dict[str, Any]) -> Any:
        """Return the response of a part of the service; unknown calls are rejected."""
        match message["ask"]:
            case "webhooks":
                return await answers.webhooks.webhooks()
            case "webhook-test":
                return await answers.webhooks.test_webhook(_text(message, "name"))
            case "checks":
                return await answers.checks.checks()
            case "check-run":
                return await answers.checks.run_check(_text(message, "name"))
            case "cluster":
                return await answers.cluster.cluster()
            case "relay-links":
                return await answers.relays.note_links(_links(message))
            case _:
                raise BadRequestError("unknown call")

    async def _merge(
        self, gateway: OperatorGateway, message: dict[str, Any], payload: bytes
    ) -> Any:
        caller = caller_of_message(message.get("caller"))
        self._check_known(caller)
        file = message.get("file")
        if not isinstance(file, dict):
            raise BadRequestError("the fleet file has no name")
        # Decode in a thread, since this takes a millisecond per 2 MiB.
        text = await asyncio.to_thread(payload.decode, "utf-8", "surrogatepass")
        return await AuthorizedGateway(gateway, caller).merge_fleet(
            FleetText(
                name=_text(file, "name"),  # pyright: ignore[reportUnknownArgumentType]
                text=text,
                may_be_empty=file.get("may_be_empty") is True,  # pyright: ignore[reportUnknownMemberType]
                removals_max=_removals_max(file),  # pyright: ignore[reportUnknownArgumentType]
            ),
            who=Who(actor=caller.actor, reason=_text(message, "reason")),
            once=once_of_message(message.get("once")),
        )

    async def _start_campaign(
        self, gateway: OperatorGateway, message: dict[str, Any]
    ) -> Any:
        caller = caller_of_message(message.get("caller"))
        self._check_known(caller)
        file = message.get("file")
        if not isinstance(file, dict):
            raise BadRequestError("the campaign file has no name")
        members = cast("dict[str, Any]", file)
        if not isinstance(members.get("text"), str):
            raise BadRequestError("the campaign file has no text")
        return await AuthorizedGateway(gateway, caller).start_campaign(
            CampaignText(name=_text(members, "name"), text=members["text"]),
            digest=_text(message, "digest"),
            who=Who(
                actor=caller.actor,
                reason=_text(message, "reason"),
                is_dry_run=message.get("dry_run") is True,
            ),
            once=once_of_message(message.get("once")),
        )

    def _check_known(self, caller: Caller) -> None:
        """Raise UnauthorizedError for an operator that is not in the token file."""
        tokens, settings = self._setup.tokens, self._setup.settings
        if caller.token_id or (tokens is None and not caller.tenant):
            return
        is_known = tokens is not None and caller.name in tokens.names
        if caller.name.startswith(LOCAL_USER):
            # The kernel identified the caller; no token can have such a name.
            is_known = bool(socket_path(settings.admin.listen))
        if caller.tenant or not is_known:
            raise unauthorized()

    async def _tell_changes(self, channel: Channel) -> None:
        """Forward changes; a process that is too slow must read everything again."""
        assert self._answers is not None
        with contextlib.suppress(ConnectionError):
            async for ids in self._answers.watchers.watch():
                await channel.send(statement(("changed", ids)))
                await asyncio.sleep(limits.API_CHANGES_SECONDS)

    async def _tell_relays(self, channel: Channel) -> None:
        """Forward what changed for relays."""
        assert self._answers is not None
        with contextlib.suppress(ConnectionError):
            async for news in self._answers.relays.relay_news():
                await channel.send(statement(("relays", news)))

    async def _ping(self, channel: Channel) -> None:
        """Kill the process if it does not answer pings or accepts no connections.

        While it loads its modules it answers nothing, and has the time of a start.
        """
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(limits.API_PING_SECONDS)
                silent = self._clock.monotonic() - self._answered_at
                if self._serves and silent > limits.API_SILENT_SECONDS:
                    logger.error(
                        "the process of the operator API has not answered a ping for "
                        "%d s, so it is killed",
                        silent,
                    )
                    self._kill()
                    return
                if not self._serves and silent > self._start_seconds:
                    self._allow_longer_start()
                    self._kill()
                    return
                # A ping waits behind unread messages, but only for a limited time.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limits.API_PING_SECONDS):
                        await channel.send(statement(("ping",)))

    def _allow_longer_start(self) -> None:
        """Double the time of the next start, after one that took too long."""
        most = self._start_seconds
        self._start_seconds = min(2 * most, limits.API_START_SECONDS_MAX)
        logger.error(
            "the process of the operator API has not served operators for %g s, so it is "
            "killed; its next start has %g s",
            most,
            self._start_seconds,
        )

    def readings(self) -> Iterable[Reading]:
        """Return the service's readings; the process adds its own."""
        return [Reading(metric_definitions.ADMIN_STARTS, self.starts)]

    # Stopping

    async def stop(self) -> None:
        """Let the process finish its running requests, then end it."""
        self._is_stopping = True
        if self._channel is not None:
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(limits.GRACE_SECONDS):
                    await self._channel.send(statement(("stop",)))
        elif self._end is not None:
            # The child was never answered, so it has no requests to finish.
            self._kill()
            self._end.close()
            await self._reap()
        if self._task is not None:
            seconds = limits.GRACE_SECONDS + limits.API_END_SECONDS
            await asyncio.wait([self._task], timeout=2 * seconds)
            self._kill()
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._closing.close()

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()


def _removals_max(file: dict[str, Any]) -> Amount | None:
    """Return the removal limit of an inventory file; None: a person wrote the file."""
    text = _text(file, "removals_max")
    try:
        return removals_of(text) if text else None
    except ValueError as error:
        raise BadRequestError(f"removals_max {error}") from error


def _links(message: dict[str, Any]) -> dict[str, int]:
    """Return since when relays have been silent, by host."""
    silent_since = message.get("silent_since")
    if not isinstance(silent_since, dict):
        raise BadRequestError("silent_since is not a table")
    members = cast("dict[str, Any]", silent_since)
    if len(members) > RELAY_LINKS_TOGETHER or not all(
        type(since) is int and since >= 0 for since in members.values()
    ):
        raise BadRequestError("silent_since has too many hosts, or an invalid time")
    return members


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or len(value) > limits.API_TEXT_CHARACTERS_MAX:
        raise BadRequestError(f"{name} is not a text, or it is too long")
    return value
