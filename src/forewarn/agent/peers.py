"""Ask the agents of the other VMs that an event names whether they are prepared.

Each request has its own thread, and an agent gets one request at a time, so a slow
agent delays no other. A missing answer is not reported to the main loop, since a silent
agent is neither prepared nor unprepared. `observability.pages` has the answering side.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from forewarn.agent import forms
from forewarn.agent.core.model import AskPeers, PeerSaid
from forewarn.agent.core.names import is_same
from forewarn.agent.foreign import json_members, told
from forewarn.agent.wire.answers import HttpError, Trouble
from forewarn.agent.wire.http import Client
from forewarn.agent.wire.urls import parse_url
from forewarn.clock import Clock
from forewarn.instants import Micros

logger = logging.getLogger("forewarn.agent.peers")

OK = 200
NOT_FOUND = 404

ANSWER_BYTES_MAX = 16 * 1024
"""Maximum size of an answer, which usually has a few hundred bytes."""

NAME_CHARACTERS = 100
"""Maximum length of the name in an answer."""


class Peers:
    """The peers, by the names of their VMs."""

    def __init__(
        self,
        url_of: Callable[[str], str],
        *,
        token: str,
        timeout: Micros,
        clock: Clock,
        tell: Callable[[PeerSaid], None],
        ca_file: str = "",
    ) -> None:
        """Store the parameters; `url_of` returns an empty text for an unknown VM."""
        self._url_of = url_of
        self._token = token
        self._timeout = timeout
        self._clock = clock
        self._tell = tell
        self._ca_file = ca_file
        self._guard = threading.Lock()
        self._asking: set[tuple[str, str]] = set()
        self._silent: set[str] = set()
        """Peers that were logged as silent, so that they are logged once."""

    def ask(self, asked: AskPeers) -> None:
        """Ask each of the peers; never waits."""
        for name in asked.names:
            key = asked.event_id, name
            with self._guard:
                if key in self._asking:
                    continue
                self._asking.add(key)
            thread = threading.Thread(
                target=self._ask, args=key, name=f"peer-{name}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                with self._guard:
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
            with self._guard:
                self._silent.discard(name)
            self._tell(PeerSaid(event_id=event_id, name=name, is_prepared=is_prepared))
        finally:
            with self._guard:
                self._asking.discard((event_id, name))

    def _answer_of(self, event_id: str, name: str) -> bool:
        address = self._url_of(name)
        if not address:
            raise _unheard(f"the settings have no URL for {name}")
        url = parse_url(address)
        client = Client(
            url, clock=self._clock, ca_file=self._ca_file, body_max=ANSWER_BYTES_MAX
        )
        try:
            answer = client.get(
                f"{url.target.rstrip('/')}/v1/events/{forms.percent_quoted(event_id)}",
                headers=(("Authorization", f"Bearer {self._token}"),),
                timeout=self._timeout,
            )
        finally:
            client.close()
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
        with self._guard:
            if name in self._silent:
                return
            self._silent.add(name)
        logger.warning("the agent of %s gives no answer: %s", name, why)


def _unheard(sentence: str) -> HttpError:
    return HttpError(Trouble.MALFORMED, sentence)
