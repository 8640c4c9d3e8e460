"""The main loop's requests in threads: approvals, peers, the lock, the alert server.

Each answer comes back as an input of the loop. After a crash before the answer, it is
unknown whether an approval was accepted. It is sent again, which is harmless (clause
3.2).

Peers are the agents of the other VMs that an event names. Each request to a peer has
its own thread, and an agent gets one request at a time, so a slow agent delays no
other. A missing answer is not reported to the main loop, since a silent agent is
neither prepared nor unprepared. `observability.pages` has the answering side.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping

from forewarn.agent import forms
from forewarn.agent.asker import Asker
from forewarn.agent.core.model import (
    ApprovalResult,
    AskPeers,
    Consent,
    Input,
    PeerResponse,
    Send,
)
from forewarn.agent.core.names import is_same, key_of
from forewarn.agent.core.permits import AskGate, GateAnswer, ReleaseLock, TakeLock
from forewarn.agent.foreign import json_members, told
from forewarn.agent.handlers.run_context import context_for
from forewarn.agent.settings_model import Settings
from forewarn.agent.wire.http import Client, HttpError, Trouble, parse_url
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros

logger = logging.getLogger("forewarn.agent.peers")

LOOK_SECONDS = 5.0
"""Timeout for one look at the lock or the alerts in `agent check`."""

APPROVALS_MAX = 8
"""Maximum number of parallel approvals: a document may have hundreds of events, and the
endpoint may hang."""

OK = 200
NOT_FOUND = 404

ANSWER_BYTES_MAX = 16 * 1024
"""Maximum size of an answer, which usually has a few hundred bytes."""

NAME_CHARACTERS = 100
"""Maximum length of the name in an answer."""


class Sender(Asker[Callable[[str], ApprovalResult], Send, ApprovalResult]):
    """Sends approvals, each of them once, and reports their results."""

    name = "approval"
    threads_max = APPROVALS_MAX

    def _key(self, request: Send) -> str:
        return request.event_id

    def _answer(
        self, target: Callable[[str], ApprovalResult], request: Send
    ) -> ApprovalResult:
        return target(request.event_id)

    def _failure(self, request: Send, detail: str) -> ApprovalResult:
        return ApprovalResult(
            event_id=request.event_id, consent=Consent.WANTED, detail=detail
        )


class Peers:
    """The peers, by the names of their VMs."""

    def __init__(
        self,
        url_of: Callable[[str], str],
        *,
        token: str,
        timeout: Micros,
        clock: Clock,
        tell: Callable[[PeerResponse], None],
        ca_file: str = "",
    ) -> None:
        """Store the parameters; `url_of` returns an empty text for an unknown VM."""
        self._url_of = url_of
        self._token = token
        self._timeout = timeout
        self._clock = clock
        self._tell = tell
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._asking: set[tuple[str, str]] = set()
        self._silent: set[str] = set()
        """Peers that were logged as silent, so that they are logged once."""

    def ask(self, request: AskPeers) -> None:
        """Ask each of the peers; never waits."""
        for name in request.names:
            key = request.event_id, name
            with self._lock:
                if key in self._asking:
                    continue
                self._asking.add(key)
            thread = threading.Thread(
                target=self._ask, args=key, name=f"peer-{name}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                with self._lock:
                    self._asking.discard(key)
                self._complain(name, f"no request was sent: {error}")

    def _ask(self, event_id: str, name: str) -> None:
        try:
            is_prepared = self._answer_of(event_id, name)
        except HttpError as error:
            self._complain(name, error.message)
        except Exception:
            logger.exception("asking the agent of %s failed because of a bug", name)
        else:
            with self._lock:
                self._silent.discard(name)
            self._tell(
                PeerResponse(event_id=event_id, name=name, is_prepared=is_prepared)
            )
        finally:
            with self._lock:
                self._asking.discard((event_id, name))

    def _answer_of(self, event_id: str, name: str) -> bool:
        address = self._url_of(name)
        if not address:
            raise _unheard(f"the settings have no URL for {name}")
        url = parse_url(address)
        path = f"{url.target.rstrip('/')}/v1/events/{forms.percent_quoted(event_id)}"
        client = Client(
            url, clock=self._clock, ca_file=self._ca_file, body_max=ANSWER_BYTES_MAX
        )
        with contextlib.closing(client):
            answer = client.get(
                path,
                headers=(("Authorization", f"Bearer {self._token}"),),
                timeout=self._timeout,
            )
        if answer.status == NOT_FOUND:
            # The peer is alive, but has not seen the event yet.
            return False
        if answer.status != OK:
            raise _unheard(f"it answered with status {answer.status}")
        members = json_members(answer.body)
        if members is None:
            raise _unheard("its answer is not a JSON object")
        vm = members.get("vm")
        if vm and not is_same(str(vm), name):
            # The answer comes from another VM, or from this VM, so it does not count.
            shown = told(str(vm), NAME_CHARACTERS)
            raise _unheard(f"at {url.base} is the agent of {shown!r}")
        return members.get("prepared") is True

    def _complain(self, name: str, why: str) -> None:
        with self._lock:
            if name in self._silent:
                return
            self._silent.add(name)
        logger.warning("the agent of %s gives no answer: %s", name, why)


def _unheard(sentence: str) -> HttpError:
    return HttpError(Trouble.MALFORMED, sentence)


def peers_of(
    settings: Settings, token: str, clock: Clock, tell: Callable[[Input], None]
) -> Peers:
    """Return the sender of requests to the peers, with their shared token."""
    peers = settings.peers
    urls = {key_of(name): url for name, url in peers.urls}

    def url_of(name: str) -> str:
        return urls.get(key_of(name), "") if urls else peers.url.replace("{name}", name)

    return Peers(
        url_of,
        token=token,
        timeout=peers.timeout,
        clock=clock,
        tell=tell,
        ca_file=peers.ca_file,
    )


def asker_of_lock(
    settings: Settings,
    environ: Mapping[str, str],
    clock: Clock,
    tell: Callable[[Input], None],
) -> Callable[[TakeLock | ReleaseLock], None] | None:
    """Return what sends a request for the lock; None: the settings have no lock."""
    if not settings.lock.kind:
        return None
    # An agent without a lock does not load these modules.
    from forewarn.agent.locks.port import Locker, make_lock  # noqa: PLC0415

    return Locker(
        lambda: make_lock(settings.lock, environ, clock),
        tell=tell,
        timeout=settings.lock.timeout,
        clock=clock,
    ).ask


def look_at_lock(settings: Settings, environ: Mapping[str, str], clock: Clock) -> str:
    """Return a sentence about the lock's holders, for `check`; raises ForewarnError."""
    from forewarn.agent.locks.port import make_lock  # noqa: PLC0415 - as above

    context = context_for(LOOK_SECONDS, clock)
    return make_lock(settings.lock, environ, clock).describe(context)


def asker_of_gate(
    settings: Settings, clock: Clock, tell: Callable[[Input], None]
) -> Callable[[AskGate], None] | None:
    """Return what sends a request to the alert server; None: there is no gate."""
    if not settings.gate.url:
        return None
    # An agent without a gate does not load these modules.
    from forewarn.agent.alerts.server import (  # noqa: PLC0415
        AlertServer,
        Gatekeeper,
    )

    return Gatekeeper(
        lambda: AlertServer(settings.gate, clock=clock),
        tell=tell,
        timeout=settings.gate.timeout,
    ).ask


def look_at_alerts(settings: Settings, clock: Clock) -> tuple[bool, str]:
    """Return whether the gate is open now, and a sentence, for `check`.

    Raises ForewarnError if there is no usable answer.
    """
    from forewarn.agent.alerts.server import AlertServer  # noqa: PLC0415 - as above

    alerts = AlertServer(settings.gate, clock=clock).ask(round(LOOK_SECONDS * SECOND))
    rest = alerts.all_alerts - alerts.alerts
    others = f"; active alerts that do not count: {rest}" if rest else ""
    return alerts.answer is GateAnswer.CLEAR, f"{alerts.text}{others}"
