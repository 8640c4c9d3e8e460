"""Every key of the tables that agent.toml may have several of, as `[[handler]]`.

`docs/reference/agent-settings.md` is written from these tables too; the keys of integrations are
each in its own module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from forewarn.agent.core.model import NoteKind
from forewarn.agent.core.policy import Approve, Approver
from forewarn.agent.integrations import registry
from forewarn.agent.integrations.kind import HandlerKind, SinkKind
from forewarn.agent.options import CA_FILE, Forms
from forewarn.instants import DAY, MINUTE, SECOND
from forewarn.protocol.events import EventSource, EventStatus, EventType
from forewarn.settings.forms import Option

HANDLER_MAX = DAY
"""Of one run: longer than any notice that a handler could use."""

RETRIES_MAX = 100
"""Of one preparation: whatever fails so often will not work in time."""

RESOURCES_MAX = 10_000
SECONDS_MAX = 10**9
WORTH_MAX = 1_000_000

PLAIN_HANDLERS = ("exec", "webhook", "python")
PLAIN_SINKS = ("webhook", "file")
"""The kinds whose keys are here; those of the others are each in its own module."""

HANDLER_KINDS = (*PLAIN_HANDLERS, *registry.HANDLERS)
NOTIFY_KINDS = (*PLAIN_SINKS, *registry.SINKS)

ARRAYS: Mapping[str, str] = {
    "handler": "What prepares for events, and recovers from them",
    "rule": "What to do with which events: the first that matches decides",
    "window": "When early approvals may be given; none: at any time",
    "blackout": "When early approvals may not be given",
    "notify": "Who is told of what the agent does",
}
"""The tables that may be there several times, as `[[handler]]`."""

_TYPES = tuple(each.value for each in EventType)
_STATUSES = (EventStatus.SCHEDULED.value, EventStatus.STARTED.value)
_SOURCES = tuple(each.value for each in EventSource)
_NOTES = tuple(each.value for each in NoteKind)

HANDLER: Mapping[str, Option] = {
    "name": Option(
        form=Forms.NAME, is_needed=True, text="How rules, logs and metrics call it."
    ),
    "kind": Option(
        form=Forms.WORD,
        words=HANDLER_KINDS,
        is_needed=True,
        text="`exec`: a program. `webhook`: a request. `python`: a function, in a "
        "process of its own. The others are [below](#kinds-of-handlers).",
    ),
    "prepare": Option(
        form=Forms.ACTION,
        kinds=PLAIN_HANDLERS,
        text="What it does before an event: the words of a program, a URL, or "
        "`module:function`. Default: nothing.",
    ),
    "recover": Option(
        form=Forms.ACTION,
        kinds=PLAIN_HANDLERS,
        text="What it does when the event is gone or was cancelled, if it prepared. "
        "Default: nothing.",
    ),
    "check": Option(
        form=Forms.ACTION,
        kinds=PLAIN_HANDLERS,
        text="What `agent check` runs to see whether it would work. Default: only "
        "whether it is there is looked at.",
    ),
    "timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=HANDLER_MAX,
        text="How long a preparation may take, where NotBefore leaves so much.",
    ),
    "recover_timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=HANDLER_MAX,
        text="How long a recovery may take.",
    ),
    "retries": Option(
        form=Forms.COUNT,
        most=RETRIES_MAX,
        text="Further attempts of a preparation that failed, while there is time.",
    ),
    "required": Option(
        form=Forms.SWITCH, text="Whether its failure withholds the approval."
    ),
    "always": Option(
        form=Forms.SWITCH,
        text="Whether its recovery runs once when the journal was lost, as after a "
        "redeploy: nobody knows then whether it prepared. `true` by default for "
        "`kubernetes`, `nomad`, `pacemaker` and `slurm`, which mark in the cluster what "
        "they did.",
    ),
    "priority": Option(
        form=Forms.COUNT,
        least=-WORTH_MAX,
        most=WORTH_MAX,
        text="If time is short, handlers of a higher priority come first.",
    ),
    "environment": Option(
        form=Forms.PAIRS,
        kinds=("exec", "python"),
        text="Further variables of its environment.",
    ),
    "directory": Option(
        form=Forms.TEXT,
        kinds=("exec", "python"),
        text="Where it runs. Default: `/`.",
    ),
    "method": Option(
        form=Forms.WORD,
        words=("POST", "PUT", "PATCH", "DELETE", "GET"),
        kinds=("webhook",),
        text="Of its requests.",
    ),
    "headers": Option(
        form=Forms.PAIRS,
        kinds=("webhook",),
        text="Further headers of its requests. `{secret}` is replaced.",
    ),
    "body": Option(
        form=Forms.TEXT,
        kinds=("webhook",),
        text="A template of the body: `{placeholders}` are replaced, as JSON has "
        "them. Default: the event as JSON.",
    ),
    "secret_file": Option(
        form=Forms.TEXT,
        kinds=("webhook",),
        text="A file with a secret on its first line, for `{secret}` in `headers`; "
        "without such a header it is sent as a bearer token.",
    ),
    "ca_file": replace(CA_FILE, kinds=("webhook",)),
    "pods": Option(
        form=Forms.SWITCH,
        kinds=("webhook",),
        text="Whether it tells of the pods on this VM's node of a Kubernetes cluster: "
        "as `pods` in the usual body, by `{pods}` in templates. Default: `false`.",
    ),
    "pods_node": Option(
        form=Forms.TEXT,
        kinds=("webhook",),
        text="The node, as `node` of the kind `kubernetes`.",
    ),
    "pods_kubeconfig": Option(
        form=Forms.TEXT,
        kinds=("webhook",),
        text="How the cluster is asked, as `kubeconfig` of the kind `kubernetes`.",
    ),
}

RULE: Mapping[str, Option] = {
    "name": Option(
        form=Forms.TEXT, text="How logs and `agent try` call it. Default: `rule 2`."
    ),
    "type": Option(
        form=Forms.WORDS,
        words=_TYPES,
        is_open=True,
        text="Matches events of these types. Default: of any, as with all conditions.",
    ),
    "status": Option(
        form=Forms.WORDS,
        words=_STATUSES,
        is_open=True,
        text="Of these statuses: `Scheduled`, `Started`.",
    ),
    "source": Option(
        form=Forms.WORDS,
        words=_SOURCES,
        is_open=True,
        text="Of these sources: `Platform`, `User`.",
    ),
    "min_duration": Option(
        form=Forms.SECONDS,
        most=SECONDS_MAX,
        text="Of so many seconds at least. An unknown duration, -1, is longer than any.",
    ),
    "max_duration": Option(
        form=Forms.SECONDS,
        most=SECONDS_MAX,
        text="Of so many seconds at most; never an unknown duration.",
    ),
    "description": Option(
        form=Forms.TEXT,
        text="Whose description is like this, in any case: `*` stands for anything, "
        "`?` for one character, all else for itself.",
    ),
    "min_lead": Option(
        form=Forms.DURATION,
        text="With so much time until NotBefore at least.",
    ),
    "max_lead": Option(
        form=Forms.DURATION,
        text="With so much time until NotBefore at most; also without a NotBefore.",
    ),
    "min_resources": Option(
        form=Forms.COUNT,
        most=RESOURCES_MAX,
        text="That name so many VMs at least.",
    ),
    "max_resources": Option(
        form=Forms.COUNT,
        most=RESOURCES_MAX,
        text="That name so many VMs at most.",
    ),
    "mine": Option(
        form=Forms.SWITCH,
        text="`true`: events that name this VM. `false`: those that do not; they may "
        "have handlers, and are never approved.",
    ),
    "handlers": Option(
        form=Forms.GROUPS,
        may_be_empty=True,
        text="Which handlers prepare, one after the other; those of an inner list "
        "side by side.",
    ),
    "start": Option(
        form=Forms.START,
        text='When preparation begins: `"at once"` or `"NotBefore - 5m"`; or when '
        'handlers do, each by itself: `{ drain = "NotBefore - 5m" }`.',
    ),
    "approve": Option(
        form=Forms.WORD,
        words=tuple(each.value for each in Approve),
        text="`at once` (without handlers only), `when prepared` or `never`. Default: "
        "`when prepared` with handlers; without, it is needed.",
    ),
    "approver": Option(
        form=Forms.WORD,
        words=tuple(each.value for each in Approver),
        text="Who of the VMs that the event names: `any`, each for itself; `leader`, the "
        "first in Resources, but with `[peers]` not while another says that it is not "
        "prepared; `all`, the first, when each says that it is prepared (needs "
        "`[peers]`).",
    ),
    "lock": Option(
        form=Forms.SWITCH,
        text="Whether it approves only with the lock, where there is `[lock]`. A "
        "Preempt and a Terminate never wait for it.",
    ),
    "gate": Option(
        form=Forms.SWITCH,
        text="Whether it approves only while no alert fires, where there is `[gate]`.",
    ),
    "takeover": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="How long each of the others waits for the one before it, with `leader` "
        "and `all`.",
    ),
}

_WINDOW: Mapping[str, Option] = {
    "days": Option(
        form=Forms.DAYS,
        text="On which days it begins: `mon` to `sun`. Default: on each.",
    ),
    "begins": Option(
        form=Forms.CLOCK, is_needed=True, text='When it begins, such as `"22:00"`.'
    ),
    "ends": Option(
        form=Forms.CLOCK,
        is_needed=True,
        text="When it ends; where that is not after `begins`, on the next day.",
    ),
    "zone": Option(
        form=Forms.TEXT,
        text="The time zone, such as `Europe/Berlin`.",
    ),
}

NOTIFY: Mapping[str, Option] = {
    "kind": Option(
        form=Forms.WORD,
        words=NOTIFY_KINDS,
        is_needed=True,
        text="`webhook`: a request for each. `file`: a line of JSON for each. The "
        "others are [below](#kinds-of-receivers).",
    ),
    "url": Option(form=Forms.WEB, kinds=("webhook",), text="Where to post."),
    "path": Option(form=Forms.TEXT, kinds=("file",), text="The file, appended to."),
    "on": Option(
        form=Forms.WORDS,
        words=_NOTES,
        text="Of what to tell: " + ", ".join(f"`{each}`" for each in _NOTES) + ". "
        "Default: of all.",
    ),
    "headers": HANDLER["headers"],
    "body": HANDLER["body"],
    "secret_file": HANDLER["secret_file"],
    "ca_file": HANDLER["ca_file"],
    "timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=5 * MINUTE,
        kinds=("webhook",),
        text="For one request.",
    ),
}

ENTRIES: Mapping[str, Mapping[str, Option]] = {
    "handler": HANDLER,
    "rule": RULE,
    "window": _WINDOW,
    "blackout": _WINDOW,
    "notify": NOTIFY,
}
"""The keys of each array's tables."""


def kind_of(array: str, word: object) -> HandlerKind | SinkKind | None:
    """Return the integration that the word of a table's kind names; None: none."""
    find = {"handler": registry.handler_kind, "notify": registry.sink_kind}.get(array)
    return find(word) if find is not None and isinstance(word, str) else None


def keys_of(array: str, word: object) -> Mapping[str, Option]:
    """Return the keys of one table of an array, by the word that is its kind.

    A key of a kind's own comes before one of the same name that other kinds have.
    """
    kind = kind_of(array, word)
    return ENTRIES[array] if kind is None else {**ENTRIES[array], **kind.keys}


def has_kind(array: str, kind: object) -> bool:
    """Tell whether a table's kind is one that there is, where it must have one."""
    words = {"handler": HANDLER_KINDS, "notify": NOTIFY_KINDS}.get(array)
    return words is None or kind in words
