"""Draining this VM's servers at HAProxy before an event: the handler `haproxy`.

Here are its keys and what must hold between them; `worker` does the work.
"""

from __future__ import annotations

import re

from forewarn.agent import forms
from forewarn.agent.handlers.ground import Ground
from forewarn.agent.integrations.haproxy.runtime import is_address
from forewarn.agent.integrations.haproxy.worker import (
    FAIL,
    LEAVE,
    SESSIONS_MAX,
    SHUTDOWN,
    HaproxyOptions,
    HaproxyWorker,
)
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind
from forewarn.agent.integrations.memo import Memo
from forewarn.agent.naming import host_name
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import DAY, SECOND
from forewarn.settings.forms import Option

SESSIONS_BOUND = 1_000_000
"""Of what the settings may say: more than a proxy has."""

_PLACES = {"vm": "", "host": ""}
_SERVER = re.compile(r"[^/\s;]+/[^/\s;]+")


def _faults(entry: Entry) -> Faults:
    for place in entry.get("socket", ()):
        if not place.startswith("/") and not is_address(place):
            kinds = "a path such as /run/haproxy/admin.sock nor HOST:PORT"
            yield "socket", f"{place!r} is neither {kinds}"
    for server in entry.get("servers", ()):
        unknown = forms.unknown_places(server, _PLACES)
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in _PLACES)
            yield "servers", f"{{{unknown[0]}}} is nothing that is known: {known}"
        elif not _SERVER.fullmatch(server):
            yield "servers", f"{server!r} is no BACKEND/SERVER"


def _make(settings: HandlerSettings, ground: Ground) -> HaproxyWorker:
    more = settings.more
    wishes = HaproxyOptions(
        sockets=more["socket"],
        servers=more["servers"],
        sessions_max=more.get("sessions_max", SESSIONS_MAX),
        wait=more.get("wait", 0),
        sessions_left=more.get("sessions_left", FAIL),
        is_maint=more.get("maint", False),
    )
    return HaproxyWorker(
        wishes,
        memo=Memo(ground.memos, settings),
        clock=ground.clock,
        host=host_name,
    )


KIND = HandlerKind(
    make=_make,
    keys={
        "socket": Option(
            form=Forms.NAMES,
            text="Where HAProxy's runtime API is: the path of a `stats socket` or of "
            "the master's socket, or HOST:PORT; several for several proxies.",
        ),
        "servers": Option(
            form=Forms.NAMES,
            text="What is drained: `backend/server`. `{vm}` is this VM's name, `{host}` "
            "this computer's without its domain, `*` stands for anything and `?` for "
            "one character. Each must be at one of the proxies at least.",
        ),
        "sessions_max": Option(
            form=Forms.COUNT,
            most=SESSIONS_BOUND,
            text="How many sessions may be left, of all servers together. Default: 0.",
        ),
        "wait": Option(
            form=Forms.DURATION,
            least=SECOND,
            most=DAY,
            text="How long to wait for sessions at most. Default: nine tenths of the "
            "time that there is, and never longer.",
        ),
        "sessions_left": Option(
            form=Forms.WORD,
            words=(FAIL, LEAVE, SHUTDOWN),
            text="What to do about sessions that are left then: `fail`; `leave`, which "
            "is content; `shutdown`, which breaks them off. Default: `fail`.",
        ),
        "maint": Option(
            form=Forms.SWITCH,
            text="Whether servers are put into maintenance once they are drained, so "
            "that their health checks end. Default: `false`.",
        ),
    },
    needed=("socket", "servers"),
    faults=_faults,
)
