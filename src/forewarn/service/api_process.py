"""The service's end of the operator API's process: started, answered, started again.

The service listens at the API's address itself, and hands the socket down. So an
address that is taken is told at the start, and who connects while the process is
started again waits in the kernel's queue instead of being refused.

The service believes nothing that the process says: questions are in a closed table,
orders are read against `admin.decisions`, and a message that is too long or no
question ends the process. Whatever becomes of it, VMs and maintenance go on.
"""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from forewarn.admin.access import (
    DEMANDS,
    Caller,
    check,
    unauthorized,
)
from forewarn.admin.decisions import (
    caller_of_message,
    once_of_message,
    read_message,
)
from forewarn.admin.metrics import Reading
from forewarn.clock import Clock
from forewarn.control import tokens as store_tokens
from forewarn.control.gateway import BusyError, OperatorGateway
from forewarn.control.transactions.work import Who
from forewarn.fleet.file import FleetText
from forewarn.protocol.errors import BadRequestError, ForewarnError
from forewarn.service import limits, metric_definitions, unix_socket
from forewarn.service.admin import Answers, Api
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
from forewarn.store.port import Reader
from forewarn.store.token import Token

logger = logging.getLogger("forewarn.service")

_BEGIN = "from forewarn.service.api_child import main; main()"
"""Not as `-m`, which would make its classes others than those that are pickled."""


class ApiProcess(Api):
    """The process that serves the operator API; used on one event loop."""

    def __init__(self, setup: Setup, *, clock: Clock) -> None:
        """Start nothing yet."""
        super().__init__(setup, clock=clock)
        self._process: subprocess.Popen[bytes] | None = None
        self._end: socket.socket | None = None
        self._channel: Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None]
        self._is_stopping = False
        self._heard_at = 0.0
        self._merging = asyncio.Lock()
        self._questions: set[asyncio.Task[None]] = set()
        self.starts = 0
        """How often the process was started."""

    # Starting

    async def listen(self) -> None:
        """Listen, and start the process; raises OSError.

        The process takes its time to load while the service opens its store.
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
                    # It ends when we do: nobody else holds the other end.
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    pass_fds=numbers,
                    # A signal from the terminal is for the service.
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        self._end = ours
        self.starts += 1

    async def begin(self, answers: Answers) -> None:
        """Answer the process from now on."""
        self._answers = answers
        self._ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep())

    async def ready(self) -> None:
        """Return when it serves operators; raises StartError if it ends before."""
        try:
            async with asyncio.timeout(limits.API_START_SECONDS):
                await asyncio.shield(self._ready)
        except TimeoutError as error:
            raise StartError(
                "the process of the operator API did not start within "
                f"{limits.API_START_SECONDS:g} s",
                hint="Look at the log, and at the load of this machine.",
            ) from error

    # Running

    async def _keep(self) -> None:
        """Serve one process after the other until the service stops."""
        pause = limits.API_RESTART_SECONDS_MIN
        while True:
            began = self._clock.monotonic()
            status = await self._run()
            if self._is_stopping:
                return
            if not self._ready.done():
                self._ready.set_exception(
                    StartError(
                        f"the process of the operator API ended at its start ({status})",
                        hint="The lines above say why; else start it again.",
                    )
                )
                return
            if self._clock.monotonic() - began >= limits.API_STEADY_SECONDS:
                pause = limits.API_RESTART_SECONDS_MIN
            logger.error(
                "the process of the operator API ended (%s); VMs are not concerned, "
                "and it is started again in %g s",
                status,
                pause,
            )
            await asyncio.sleep(pause)
            pause = min(2 * pause, limits.API_RESTART_SECONDS_MAX)
            while self._process is None:
                try:
                    self._spawn()
                except OSError as error:
                    why = error.strerror
                    logger.warning("the process cannot be started: %s", why)
                    await asyncio.sleep(pause)

    async def _run(self) -> str:
        """Answer one process until it ends; return how it ended."""
        assert self._end is not None
        channel = self._channel = await Channel.over(self._end)
        self._heard_at = self._clock.monotonic()
        helpers = [
            asyncio.create_task(self._tell_changes(channel)),
            asyncio.create_task(self._ping(channel)),
        ]
        try:
            await channel.say(statement(self._setup))
            await self._hear(channel)
        except (EOFError, ConnectionError):
            pass
        except ChannelError as error:
            logger.warning(
                "the process of the operator API is ended: %s", error.message
            )
        finally:
            under_way = (*helpers, *self._questions)
            for task in under_way:
                task.cancel()
            channel.close()
        await asyncio.wait(under_way)
        return await self._reap()

    async def _reap(self) -> str:
        """End what is left of the process; return how it ended."""
        process, self._process = self._process, None
        assert process is not None
        assert process.stdin is not None

        def wait() -> int:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(limits.GRACE_SECONDS + limits.API_END_SECONDS)
            process.kill()
            return process.wait()

        try:
            code = await asyncio.to_thread(wait)
        finally:
            process.stdin.close()
        return f"signal {-code}" if code < 0 else f"status {code}"

    async def _hear(self, channel: Channel) -> None:
        while True:
            head, payload = await channel.hear(
                head_max=HEAD_BYTES_MAX, payload_max=PAYLOAD_BYTES_MAX
            )
            said = question(head)
            asked = said.get("ask")
            if asked == "pong":
                # Nothing else tells that operators can connect.
                self._heard_at = self._clock.monotonic()
                continue
            if asked == "ready":
                if not self._ready.done():
                    self._ready.set_result(None)
                continue
            while len(self._questions) >= limits.API_QUESTIONS_MAX:
                await asyncio.wait(self._questions, return_when=asyncio.FIRST_COMPLETED)
            if asked != "merge":
                # Only fleet files may take memory while they are worked on.
                payload = b""
            task = asyncio.create_task(self._answer(channel, said, payload))
            # Else this frame would keep it until the next message.
            del payload
            self._questions.add(task)
            task.add_done_callback(self._questions.discard)

    async def _answer(
        self, channel: Channel, said: dict[str, Any], payload: bytes
    ) -> None:
        number = said.get("number")
        try:
            answer = statement(("answer", number, await self._ask(said, payload)))
        except ForewarnError as error:
            answer = statement(("error", number, error))
        except Exception as error:
            logger.exception("a question of the operator API failed")
            fault = ForewarnError(f"the service met a fault of its own: {error!r}")
            answer = statement(("error", number, fault))
        with contextlib.suppress(ConnectionError):
            await channel.say(answer)

    async def _ask(self, said: dict[str, Any], payload: bytes) -> Any:
        """Return the answer to a question; the table is closed."""
        answers = self._answers
        assert answers is not None
        match said["ask"]:
            case "order":
                order = read_message(said.get("order"))
                self._check_known(order.caller)
                return await answers.gateway.order(order.who, order)
            case "merge":
                if self._merging.locked():
                    # The process sends one at a time, and waits for it.
                    raise BusyError(
                        "another fleet file is being applied", hint="Send it again."
                    )
                async with self._merging:
                    return await self._merge(answers.gateway, said, payload)
            case "health":
                return await answers.gateway.health()
            case "metrics":
                return list(await answers.collect())
            case "webhooks":
                return await answers.webhooks.webhooks()
            case "webhook-test":
                return await answers.webhooks.test_webhook(_text(said, "name"))
            case _:
                raise BadRequestError("there is no such question")

    async def _merge(
        self, gateway: OperatorGateway, said: dict[str, Any], payload: bytes
    ) -> Any:
        caller = caller_of_message(said.get("caller"))
        self._check_known(caller)
        check(caller, DEMANDS["POST /v1/fleet/apply"])
        if caller.token_id:
            now = self._clock.now()

            def is_operator(reader: Reader) -> bool:
                token = reader.get(Token, caller.token_id)
                is_good = token and store_tokens.is_good(reader, token, now=now)
                return bool(token and is_good and not Caller.of_token(token).tenant)

            if not await gateway.read(is_operator):
                raise unauthorized()
        file = said.get("file")
        if not isinstance(file, dict):
            raise BadRequestError("a fleet file has a name")
        # Decoding lets go of nothing, but takes a millisecond for each 2 MiB.
        text = await asyncio.to_thread(payload.decode, "utf-8", "surrogatepass")
        return await gateway.merge_fleet(
            FleetText(
                name=_text(file, "name"),  # pyright: ignore[reportUnknownArgumentType]
                text=text,
                may_be_empty=file.get("may_be_empty") is True,  # pyright: ignore[reportUnknownMemberType]
            ),
            who=Who(actor=caller.actor, reason=_text(said, "reason")),
            once=once_of_message(said.get("once")),
        )

    def _check_known(self, caller: Caller) -> None:
        """Raise UnauthorizedError for an operator whom no token file names."""
        known, settings = self._setup.tokens, self._setup.settings
        if caller.token_id or (known is None and not caller.tenant):
            return
        is_known = known is not None and caller.name in known.names
        if caller.name.startswith(unix_socket.PREFIX):
            # The kernel told the process who that is; no token has such a name.
            is_known = bool(unix_socket.path_of(settings.admin.listen))
        if caller.tenant or not is_known:
            raise unauthorized()

    async def _tell_changes(self, channel: Channel) -> None:
        """Pass on what changes; a process that is slow is told to read anew."""
        assert self._answers is not None
        with contextlib.suppress(ConnectionError):
            async for ids in self._answers.watchers.watch():
                await channel.say(statement(("changed", ids)))
                await asyncio.sleep(limits.API_CHANGES_SECONDS)

    async def _ping(self, channel: Channel) -> None:
        """Kill a process that gives no sign of life, or takes no connections."""
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(limits.API_PING_SECONDS)
                silent = self._clock.monotonic() - self._heard_at
                if silent > limits.API_SILENT_SECONDS:
                    logger.error(
                        "the process of the operator API has not said for %d s that it "
                        "takes connections",
                        silent,
                    )
                    self._kill()
                    return
                # It waits behind what the process does not read, but not for ever.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limits.API_PING_SECONDS):
                        await channel.say(statement(("ping",)))

    def readings(self) -> Iterable[Reading]:
        """Return what the service knows of the process; the rest it says itself."""
        return [Reading(metric_definitions.ADMIN_STARTS, self.starts)]

    # Stopping

    async def stop(self) -> None:
        """Have the process finish what is under way, then end it."""
        self._is_stopping = True
        if self._channel is not None:
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(limits.GRACE_SECONDS):
                    await self._channel.say(statement(("stop",)))
        elif self._end is not None:
            # It was never answered: it ends when nobody holds the other end.
            self._end.close()
            self._kill()
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


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or len(value) > limits.API_TEXT_CHARACTERS_MAX:
        raise BadRequestError(f"{name} is not a text")
    return value
