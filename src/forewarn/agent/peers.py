"""Asks the agents of the other VMs that an event names how they stand with it.

Each question has a thread of its own, and one agent is asked once at a time: whoever
is slow delays nobody. No answer is told as nothing at all, since who is silent has
said nothing. What is sent and what counts as an answer is in `telling.pages`.
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
"""Of an answer, which has some hundred bytes."""

NAME_CHARACTERS = 100
"""Of the name that an agent gives, in a sentence."""


class Peers:
    """The other agents, by the names of their VMs."""

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
        """Ask nobody yet; `url_of` returns empty for a VM that it does not know."""
        self._url_of = url_of
        self._token = token
        self._timeout = timeout
        self._clock = clock
        self._tell = tell
        self._ca_file = ca_file
        self._guard = threading.Lock()
        self._asking: set[tuple[str, str]] = set()
        self._silent: set[str] = set()
        """Who was told of as silent, so that it is told once."""

    def ask(self, asked: AskPeers) -> None:
        """Ask each of them; never waits."""
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
                self._complain(name, f"it was not asked: {error}")

    def _ask(self, event_id: str, name: str) -> None:
        try:
            is_prepared = self._answer_of(event_id, name)
        except HttpError as error:
            self._complain(name, error.message)
        except Exception:
            logger.exception("asking the agent of %s failed by a fault of ours", name)
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
            # Its agent is there, and has not seen the event yet.
            return False
        if answer.status != OK:
            raise _unheard(f"it answered with status {answer.status}")
        members = json_members(answer.body)
        if members is None:
            raise _unheard("its answer is not a JSON object")
        vm = members.get("vm")
        if vm and not is_same(str(vm), name):
            # Who is asked in another's place, or asks itself, approves for nobody.
            shown = told(str(vm), NAME_CHARACTERS)
            raise _unheard(f"at {url.base} is the agent of {shown!r}")
        return members.get("prepared") is True

    def _complain(self, name: str, why: str) -> None:
        with self._guard:
            if name in self._silent:
                return
            self._silent.add(name)
        logger.warning("the agent of %s says nothing: %s", name, why)


def _unheard(sentence: str) -> HttpError:
    return HttpError(Trouble.MALFORMED, sentence)
