"""Every key of agent.toml: its form, its bounds and what it means.

`docs/agent-settings.md` is written from this table, so its sentences are the
reference.
"""

from collections.abc import Mapping

from forewarn.agent.core.model import NoteKind
from forewarn.agent.core.policy import Approve, Approver
from forewarn.agent.options import Form, Option
from forewarn.instants import DAY, HOUR, MINUTE, SECOND
from forewarn.protocol.events import EventSource, EventStatus, EventType

POLL_MIN = SECOND // 10
POLL_MAX = MINUTE
"""Of the interval: a Preempt leaves 30 s, and more than a minute misses it."""

TIMEOUT_MAX = 10 * MINUTE
"""Of one exchange: the slowest first answer takes two minutes."""

HANDLER_MAX = DAY
"""Of one run: longer than any notice that a handler could use."""

RETRIES_MAX = 100
"""Of one preparation: whatever fails so often will not work in time."""

ROWS_MAX = 1_000_000
"""Of the history: some 300 MiB."""

RESOURCES_MAX = 10_000
SECONDS_MAX = 10**9
WORTH_MAX = 1_000_000

HANDLER_KINDS = ("exec", "webhook", "python")
NOTIFY_KINDS = ("webhook", "file")

TABLES: Mapping[str, str] = {
    "": "What is watched, and how",
    "log": "What is written to standard error",
    "history": "How long the journal keeps what was told",
    "peers": "The agents of the other VMs that an event names",
    "standby": "Approving for a named VM whose own agent stays silent",
}
"""The tables of agent.toml that are there once."""

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

_WATCH: Mapping[str, Option] = {
    "endpoint": Option(
        form=Form.ENDPOINT,
        text="Who is asked for events. `auto`: `http://169.254.169.254`, and where that "
        "does not answer, what DHCP option 245 of this VM names; or a URL. Its "
        "variable is `FOREWARN_ENDPOINT`.",
    ),
    "poll": Option(
        form=Form.DURATION,
        least=POLL_MIN,
        most=POLL_MAX,
        text="How often it is asked. A Preempt leaves 30 s in all.",
    ),
    "name": Option(
        form=Form.TEXT,
        text="This VM's name in Resources. `auto`: `compute.name` of the instance "
        "endpoint, read again now and then. With a name, that endpoint is not needed.",
    ),
    "scale_set_names": Option(
        form=Form.SWITCH,
        text="Whether `name`, or else the name of this computer, is a scale set's "
        "computer name, `x00000i`, which Resources have as `x_18`.",
    ),
    "state": Option(
        form=Form.TEXT,
        text="The journal's file: what was prepared, approved and is owed. Its "
        "directory must be there, on a disk that survives a reboot.",
    ),
    "listen": Option(
        form=Form.LISTENER,
        may_be_empty=True,
        text="Where `/metrics`, `/healthz`, `/readyz` and `/status` are. Empty: "
        "nowhere.",
    ),
    "dry_run": Option(
        form=Form.SWITCH,
        text="Decide and log everything, run no handler and send no approval.",
    ),
    "observe": Option(
        form=Form.SWITCH,
        text="Only watch and tell: no handler is run and nothing is approved, whatever "
        "the rules say.",
    ),
    "timeout": Option(
        form=Form.DURATION,
        least=SECOND // 2,
        most=TIMEOUT_MAX,
        text="For one exchange with the endpoint, once it has answered.",
    ),
    "first_timeout": Option(
        form=Form.DURATION,
        least=SECOND,
        most=TIMEOUT_MAX,
        text="For the first answer of all: it may take two minutes (clause 8.1).",
    ),
    "push": Option(
        form=Form.SWITCH,
        text="Whether to wait for changes at an endpoint that offers it, see "
        "[push.md](push.md), in place of asking again and again.",
    ),
    "ca_file": Option(
        form=Form.TEXT,
        may_be_empty=True,
        text="Certificates to trust where the endpoint is https. Empty: the system's.",
    ),
    "margin": Option(
        form=Form.DURATION,
        most=HOUR,
        text="Preparation ends so long before NotBefore.",
    ),
    "hurry": Option(
        form=Form.DURATION,
        most=HOUR,
        text="How long preparation may take for an event that may begin at any moment, "
        "since it has started or has no NotBefore.",
    ),
    "stop_grace": Option(
        form=Form.DURATION,
        most=10 * MINUTE,
        text="At most, between asking a handler to stop and killing it.",
    ),
    "forget_after": Option(
        form=Form.DURATION,
        least=MINUTE,
        text="How long an event that is over is remembered: it is known again if it "
        "comes back. The history keeps it longer.",
    ),
}

_LOG: Mapping[str, Option] = {
    "log.format": Option(
        form=Form.WORD,
        words=("auto", "text", "json"),
        text="`text` or `json`. `auto`: text on a terminal, JSON otherwise.",
    ),
    "log.level": Option(
        form=Form.WORD,
        words=("debug", "info", "warning", "error"),
        text="The least that is told: `debug`, `info`, `warning` or `error`.",
    ),
}

_HISTORY: Mapping[str, Option] = {
    "history.keep": Option(
        form=Form.DURATION, least=HOUR, text="How long a line is kept."
    ),
    "history.rows": Option(
        form=Form.COUNT,
        least=100,
        most=ROWS_MAX,
        text="How many lines are kept at most; the oldest go first.",
    ),
}

_PEERS: Mapping[str, Option] = {
    "peers.listen": Option(
        form=Form.LISTENER,
        may_be_empty=True,
        text="Where the agents of other VMs may ask this one how it stands with an "
        "event. Empty: nowhere.",
    ),
    "peers.token_file": Option(
        form=Form.TEXT,
        may_be_empty=True,
        text="A file with the token that all these agents share, on its first line. "
        "Needed with `listen` and with `url`.",
    ),
    "peers.url": Option(
        form=Form.PEERS,
        may_be_empty=True,
        text="Where the others are: a URL with `{name}` in the place of a VM's name, "
        'or a table, `url = { web_1 = "http://192.0.2.5:9465" }`.',
    ),
    "peers.timeout": Option(
        form=Form.DURATION,
        least=SECOND // 10,
        most=MINUTE,
        text="For one question to another agent.",
    ),
    "peers.ca_file": Option(
        form=Form.TEXT,
        may_be_empty=True,
        text="Certificates to trust where the others are https. Empty: the system's.",
    ),
}

_STANDBY: Mapping[str, Option] = {
    "standby.names": Option(
        form=Form.NAMES,
        text="VMs for whose events this agent approves when their own agent stays "
        "silent. Empty: for none.",
    ),
    "standby.after": Option(
        form=Form.DURATION,
        least=SECOND,
        text="How long their agent may stay silent.",
    ),
    "standby.source": Option(
        form=Form.WORDS,
        words=_SOURCES,
        text="Events of which source: `User`, `Platform` or both.",
    ),
}

OPTIONS: Mapping[str, Option] = {
    **_WATCH,
    **_LOG,
    **_HISTORY,
    **_PEERS,
    **_STANDBY,
}
"""Every setting that is there once, by its whole name, in the order of the file."""

HANDLER: Mapping[str, Option] = {
    "name": Option(form=Form.NAME, text="How rules, logs and metrics call it."),
    "kind": Option(
        form=Form.WORD,
        words=HANDLER_KINDS,
        text="`exec`: a program. `webhook`: a request. `python`: a function, in a "
        "process of its own.",
    ),
    "prepare": Option(
        form=Form.ACTION,
        text="What it does before an event: the words of a program, a URL, or "
        "`module:function`. Absent: nothing.",
    ),
    "recover": Option(
        form=Form.ACTION,
        text="What it does when the event is gone or was cancelled, if it prepared. "
        "Absent: nothing.",
    ),
    "check": Option(
        form=Form.ACTION,
        text="What `agent check` runs to see whether it would work. Absent: only "
        "whether it is there is looked at.",
    ),
    "timeout": Option(
        form=Form.DURATION,
        least=SECOND // 10,
        most=HANDLER_MAX,
        text="How long a preparation may take, where NotBefore leaves so much.",
    ),
    "recover_timeout": Option(
        form=Form.DURATION,
        least=SECOND // 10,
        most=HANDLER_MAX,
        text="How long a recovery may take.",
    ),
    "retries": Option(
        form=Form.COUNT,
        most=RETRIES_MAX,
        text="Further attempts of a preparation that failed, while there is time.",
    ),
    "required": Option(
        form=Form.SWITCH, text="Whether its failure withholds the approval."
    ),
    "always": Option(
        form=Form.SWITCH,
        text="Whether its recovery runs once when the journal was lost, as after a "
        "redeploy: nobody knows then whether it prepared.",
    ),
    "worth": Option(
        form=Form.COUNT,
        least=-WORTH_MAX,
        most=WORTH_MAX,
        text="In a hurry, handlers of a higher worth come first.",
    ),
    "environment": Option(
        form=Form.PAIRS,
        kinds=("exec", "python"),
        text="Further variables of its environment.",
    ),
    "directory": Option(
        form=Form.TEXT,
        kinds=("exec", "python"),
        text="Where it runs. Absent: `/`.",
    ),
    "method": Option(
        form=Form.WORD,
        words=("POST", "PUT", "PATCH", "DELETE", "GET"),
        kinds=("webhook",),
        text="Of its requests.",
    ),
    "headers": Option(
        form=Form.PAIRS,
        kinds=("webhook",),
        text="Further headers of its requests. `{secret}` is replaced.",
    ),
    "body": Option(
        form=Form.TEXT,
        kinds=("webhook",),
        text="A template of the body: `{placeholders}` are replaced, as JSON has "
        "them. Absent: the event as JSON.",
    ),
    "secret_file": Option(
        form=Form.TEXT,
        kinds=("webhook",),
        text="A file with a secret on its first line, for `{secret}` in `headers`; "
        "without such a header it is sent as a bearer token.",
    ),
    "ca_file": Option(
        form=Form.TEXT,
        kinds=("webhook",),
        text="Certificates to trust. Absent: the system's.",
    ),
}

RULE: Mapping[str, Option] = {
    "name": Option(
        form=Form.TEXT, text="How logs and `agent try` call it. Absent: `rule 2`."
    ),
    "type": Option(
        form=Form.WORDS,
        words=_TYPES,
        is_open=True,
        text="Matches events of these types. Absent: of any, as with all conditions.",
    ),
    "status": Option(
        form=Form.WORDS,
        words=_STATUSES,
        is_open=True,
        text="Of these statuses: `Scheduled`, `Started`.",
    ),
    "source": Option(
        form=Form.WORDS,
        words=_SOURCES,
        is_open=True,
        text="Of these sources: `Platform`, `User`.",
    ),
    "min_duration": Option(
        form=Form.SECONDS,
        most=SECONDS_MAX,
        text="Of so many seconds at least. An unknown duration, -1, is longer than any.",
    ),
    "max_duration": Option(
        form=Form.SECONDS,
        most=SECONDS_MAX,
        text="Of so many seconds at most; never an unknown duration.",
    ),
    "description": Option(
        form=Form.TEXT,
        text="Whose description is like this, in any case: `*` stands for anything, "
        "`?` for one character.",
    ),
    "min_lead": Option(
        form=Form.DURATION,
        text="With so much time until NotBefore at least.",
    ),
    "max_lead": Option(
        form=Form.DURATION,
        text="With so much time until NotBefore at most; also without a NotBefore.",
    ),
    "min_resources": Option(
        form=Form.COUNT,
        most=RESOURCES_MAX,
        text="That name so many VMs at least.",
    ),
    "max_resources": Option(
        form=Form.COUNT,
        most=RESOURCES_MAX,
        text="That name so many VMs at most.",
    ),
    "mine": Option(
        form=Form.SWITCH,
        text="`true`: events that name this VM. `false`: those that do not; they may "
        "have handlers, and are never approved.",
    ),
    "handlers": Option(
        form=Form.GROUPS,
        text="Which handlers prepare, one after the other; those of an inner list "
        "side by side.",
    ),
    "start": Option(
        form=Form.START,
        text='When preparation begins: `"at once"` or `"NotBefore - 5m"`.',
    ),
    "approve": Option(
        form=Form.WORD,
        words=tuple(each.value for each in Approve),
        text="`at once` (without handlers only), `when prepared` or `never`. Absent: "
        "`when prepared` with handlers; without, it is needed.",
    ),
    "approver": Option(
        form=Form.WORD,
        words=tuple(each.value for each in Approver),
        text="Who of the VMs that the event names: `any`; `leader`, the first in "
        "Resources; `all`, the first, when each is prepared (needs `[peers]`).",
    ),
    "takeover": Option(
        form=Form.DURATION,
        least=SECOND,
        text="How long each of the others waits for the one before it, with `leader` "
        "and `all`.",
    ),
}

_WINDOW: Mapping[str, Option] = {
    "days": Option(
        form=Form.DAYS,
        text="On which days it begins: `mon` to `sun`. Absent: on each.",
    ),
    "begins": Option(form=Form.CLOCK, text='When it begins, such as `"22:00"`.'),
    "ends": Option(
        form=Form.CLOCK,
        text="When it ends; where that is not after `begins`, on the next day.",
    ),
    "zone": Option(
        form=Form.TEXT,
        text="The time zone, such as `Europe/Berlin`.",
    ),
}

NOTIFY: Mapping[str, Option] = {
    "kind": Option(
        form=Form.WORD,
        words=NOTIFY_KINDS,
        text="`webhook`: a request for each. `file`: a line of JSON for each.",
    ),
    "url": Option(form=Form.WEB, kinds=("webhook",), text="Where to post."),
    "path": Option(form=Form.TEXT, kinds=("file",), text="The file, appended to."),
    "on": Option(
        form=Form.WORDS,
        words=_NOTES,
        text="Of what to tell: " + ", ".join(f"`{each}`" for each in _NOTES) + ". "
        "Absent: of all.",
    ),
    "headers": HANDLER["headers"],
    "body": HANDLER["body"],
    "secret_file": HANDLER["secret_file"],
    "ca_file": HANDLER["ca_file"],
    "timeout": Option(
        form=Form.DURATION,
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

NEEDED: Mapping[str, tuple[str, ...]] = {
    "handler": ("name", "kind"),
    "rule": (),
    "window": ("begins", "ends"),
    "blackout": ("begins", "ends"),
    "notify": ("kind",),
}
"""The keys that each table of an array must have."""
