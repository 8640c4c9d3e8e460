"""The settings of agent.toml in arrays of tables, such as `[[handler]]`.

`docs/reference/agent-settings.md` is written from these tables. The module of each
integration has the settings of its kind.
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
"""Maximum timeout of one run: longer than any useful notice."""

RETRIES_MAX = 100
"""Maximum number of retries: after as many failures, more would not help."""

RESOURCES_MAX = 10_000
SECONDS_MAX = 10**9
WORTH_MAX = 1_000_000

PLAIN_HANDLERS = ("exec", "webhook", "python")
PLAIN_SINKS = ("webhook", "file")
"""The kinds whose settings are here. The other kinds have their own modules."""

HANDLER_KINDS = (*PLAIN_HANDLERS, *registry.HANDLERS)
NOTIFY_KINDS = (*PLAIN_SINKS, *registry.SINKS)

ARRAYS: Mapping[str, str] = {
    "handler": "Handlers, which prepare for events and recover after them",
    "rule": "Rules for events: the first matching rule decides",
    "window": "When early approvals are allowed; none: at any time",
    "blackout": "When early approvals are not allowed",
    "notify": "Receivers of notifications",
}
"""The arrays of tables, such as `[[handler]]`."""

_NOTES = tuple(kind.value for kind in NoteKind)

HANDLER: Mapping[str, Option] = {
    "name": Option(
        form=Forms.NAME,
        is_needed=True,
        text="The handler's name in rules, logs and metrics.",
    ),
    "kind": Option(
        form=Forms.WORD,
        words=HANDLER_KINDS,
        is_needed=True,
        text="`exec`: a program. `webhook`: a request. `python`: a function, in a "
        "separate process. The other kinds are [below](#kinds-of-handlers).",
    ),
    "prepare": Option(
        form=Forms.ACTION,
        kinds=PLAIN_HANDLERS,
        text="The action before an event: a program with its arguments, a URL, or "
        "`module:function`. Default: none.",
    ),
    "recover": Option(
        form=Forms.ACTION,
        kinds=PLAIN_HANDLERS,
        text="The action after an event ended or was cancelled, if the handler "
        "prepared for it. Default: none.",
    ),
    "check": Option(
        form=Forms.ACTION,
        kinds=PLAIN_HANDLERS,
        text="The action in `agent check`, which tests whether the handler would "
        "work. Default: only check that the program or server exists.",
    ),
    "timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=HANDLER_MAX,
        text="Maximum duration of a preparation, if NotBefore leaves enough time.",
    ),
    "recover_timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=HANDLER_MAX,
        text="Maximum duration of a recovery.",
    ),
    "retries": Option(
        form=Forms.COUNT,
        most=RETRIES_MAX,
        text="Further attempts of a failed preparation, while there is time.",
    ),
    "required": Option(
        form=Forms.SWITCH,
        text="Whether a failure of the handler withholds the approval.",
    ),
    "always": Option(
        form=Forms.SWITCH,
        text="Whether it recovers once after the journal was lost, for example by "
        "a redeploy, since the agent then does not know whether it prepared. "
        "`true` by default for `kubernetes`, `nomad`, `pacemaker` and "
        "`slurm`, which mark their work in the cluster.",
    ),
    "priority": Option(
        form=Forms.COUNT,
        least=-WORTH_MAX,
        most=WORTH_MAX,
        text="If time is short, handlers of a higher priority run first.",
    ),
    "environment": Option(
        form=Forms.PAIRS,
        kinds=("exec", "python"),
        text="Additional environment variables.",
    ),
    "directory": Option(
        form=Forms.TEXT,
        kinds=("exec", "python"),
        text="The working directory. Default: `/`.",
    ),
    "method": Option(
        form=Forms.WORD,
        words=("POST", "PUT", "PATCH", "DELETE", "GET"),
        kinds=("webhook",),
        text="The method of the requests.",
    ),
    "headers": Option(
        form=Forms.PAIRS,
        kinds=("webhook",),
        text="Additional headers of the requests. `{secret}` is replaced.",
    ),
    "body": Option(
        form=Forms.TEXT,
        kinds=("webhook",),
        text="A template for the body, whose `{placeholders}` are replaced by "
        "JSON-quoted text. Default: the event as JSON.",
    ),
    "secret_file": Option(
        form=Forms.TEXT,
        kinds=("webhook",),
        text="A file with a secret on its first line, for `{secret}` in `headers`."
        " If no header has `{secret}`, it is sent as a bearer token.",
    ),
    "ca_file": replace(CA_FILE, kinds=("webhook",)),
    "pods": Option(
        form=Forms.SWITCH,
        kinds=("webhook",),
        text="Whether to report the pods on this VM's node of a Kubernetes "
        "cluster: as `pods` in the default body, and as `{pods}` in "
        "templates. Default: `false`.",
    ),
    "pods_node": Option(
        form=Forms.TEXT,
        kinds=("webhook",),
        text="The node, as `node` of the kind `kubernetes`.",
    ),
    "pods_kubeconfig": Option(
        form=Forms.TEXT,
        kinds=("webhook",),
        text="The access to the cluster, as `kubeconfig` of the kind `kubernetes`.",
    ),
}

RULE: Mapping[str, Option] = {
    "name": Option(
        form=Forms.TEXT,
        text="The rule's name in logs and in `agent try`. Default: `rule 2`.",
    ),
    "type": Option(
        form=Forms.WORDS,
        words=tuple(event_type.value for event_type in EventType),
        is_open=True,
        text="Matches events of these types. Default: any, as for all conditions.",
    ),
    "status": Option(
        form=Forms.WORDS,
        words=(EventStatus.SCHEDULED.value, EventStatus.STARTED.value),
        is_open=True,
        text="Matches events with these statuses: `Scheduled`, `Started`.",
    ),
    "source": Option(
        form=Forms.WORDS,
        words=tuple(source.value for source in EventSource),
        is_open=True,
        text="Matches events from these sources: `Platform`, `User`.",
    ),
    "min_duration": Option(
        form=Forms.SECONDS,
        most=SECONDS_MAX,
        text="Matches events of at least this duration. An unknown duration, -1, "
        "counts as longer than any.",
    ),
    "max_duration": Option(
        form=Forms.SECONDS,
        most=SECONDS_MAX,
        text="Matches events of at most this duration, but never an unknown one.",
    ),
    "description": Option(
        form=Forms.TEXT,
        text="Matches events with such a description, ignoring case. `*` means any"
        " text and `?` any character. Other characters have no special "
        "meaning.",
    ),
    "min_lead": Option(
        form=Forms.DURATION,
        text="Matches events with at least this much time until NotBefore.",
    ),
    "max_lead": Option(
        form=Forms.DURATION,
        text="Matches events with at most this much time until NotBefore, or "
        "without NotBefore.",
    ),
    "min_resources": Option(
        form=Forms.COUNT,
        most=RESOURCES_MAX,
        text="Matches events that name at least this many VMs.",
    ),
    "max_resources": Option(
        form=Forms.COUNT,
        most=RESOURCES_MAX,
        text="Matches events that name at most this many VMs.",
    ),
    "mine": Option(
        form=Forms.SWITCH,
        text="`true`: matches events that name this VM. `false`: matches the "
        "others, which can have handlers but are never approved.",
    ),
    "handlers": Option(
        form=Forms.GROUPS,
        may_be_empty=True,
        text="The handlers that prepare, one after another. Those in an inner list"
        " run in parallel.",
    ),
    "start": Option(
        form=Forms.START,
        text='When preparation begins: `"at once"` or `"NotBefore - 5m"`. A table '
        'sets the start of single handlers: `{ drain = "NotBefore - 5m" }`.',
    ),
    "approve": Option(
        form=Forms.WORD,
        words=tuple(approve.value for approve in Approve),
        text="`at once` (only without handlers), `when prepared` or `never`. "
        "Default with handlers: `when prepared`. Required without handlers.",
    ),
    "approver": Option(
        form=Forms.WORD,
        words=tuple(approver.value for approver in Approver),
        text="Which of the named VMs approves. `any`: each for itself. `leader`: "
        "the first in Resources; with `[peers]`, it waits while another VM "
        "reports that it is not prepared. `all`: the first, when every VM "
        "reports that it is prepared (requires `[peers]`).",
    ),
    "lock": Option(
        form=Forms.SWITCH,
        text="Whether it approves only with the lock, if there is a table "
        "`[lock]`. A Preempt and a Terminate never wait for the lock.",
    ),
    "gate": Option(
        form=Forms.SWITCH,
        text="Whether it approves only while no alert fires, if there is a table "
        "`[gate]`.",
    ),
    "takeover": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="With `leader` and `all`, how long each of the other VMs waits for "
        "the one before it.",
    ),
}

_WINDOW: Mapping[str, Option] = {
    "days": Option(
        form=Forms.DAYS,
        text="The days on which it begins: `mon` to `sun`. Default: every day.",
    ),
    "begins": Option(
        form=Forms.CLOCK, is_needed=True, text='When it begins, such as `"22:00"`.'
    ),
    "ends": Option(
        form=Forms.CLOCK,
        is_needed=True,
        text="When it ends. If that is not after `begins`, it ends on the next day.",
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
        text="`webhook`: a request for each notification. `file`: a line of JSON "
        "for each. The other kinds are [below](#kinds-of-receivers).",
    ),
    "url": Option(form=Forms.WEB, kinds=("webhook",), text="The URL for the requests."),
    "path": Option(
        form=Forms.TEXT, kinds=("file",), text="The file to which lines are appended."
    ),
    "on": Option(
        form=Forms.WORDS,
        words=_NOTES,
        text="The kinds of notifications: "
        + ", ".join(f"`{note}`" for note in _NOTES)
        + ". "
        "Default: all.",
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
        text="Timeout for one request.",
    ),
}

ENTRIES: Mapping[str, Mapping[str, Option]] = {
    "handler": HANDLER,
    "rule": RULE,
    "window": _WINDOW,
    "blackout": _WINDOW,
    "notify": NOTIFY,
}
"""The settings in each array's tables."""


def kind_of(array: str, word: object) -> HandlerKind | SinkKind | None:
    """Return the integration for the kind of a table; None: there is none."""
    find = {"handler": registry.handler_kind, "notify": registry.sink_kind}.get(array)
    return find(word) if find is not None and isinstance(word, str) else None


def keys_of(array: str, word: object) -> Mapping[str, Option]:
    """Return the settings of one table of an array, by its kind.

    A setting of the kind replaces a general one of the same name.
    """
    kind = kind_of(array, word)
    return ENTRIES[array] if kind is None else {**ENTRIES[array], **kind.keys}


def has_kind(array: str, kind: object) -> bool:
    """Return whether a table's kind exists, if the array has kinds."""
    kinds = {"handler": HANDLER_KINDS, "notify": NOTIFY_KINDS}.get(array)
    return kinds is None or kind in kinds
