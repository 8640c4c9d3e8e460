"""Every key of agent.toml that is there once: its form, bounds and meaning.

`docs/reference/agent-settings.md` is written from this table, so its sentences are the
reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarn.agent.options import Forms
from forewarn.instants import DAY, HOUR, MINUTE, SECOND
from forewarn.protocol.events import EventSource
from forewarn.settings.forms import Option, flag_of

POLL_MIN = SECOND // 10
POLL_MAX = MINUTE
"""Of the interval: a Preempt leaves 30 s, and more than a minute misses it."""

TIMEOUT_MAX = 10 * MINUTE
"""Of one exchange: the slowest first answer takes two minutes."""

ROWS_MAX = 1_000_000
"""Of the history: some 300 MiB."""

HOLDERS_MAX = 1_000
"""Of a lock: more VMs at once are no limit."""

LOCK_KINDS = ("fleetlock", "kubernetes", "consul", "directory")

TABLES: Mapping[str, str] = {
    "": "What is watched, and how",
    "gone_after": "How long answers without an event are repeated until it is gone",
    "log": "What is written to standard error",
    "history": "How long the journal keeps what was told",
    "peers": "The agents of the other VMs that an event names",
    "standby": "Approving for a named VM whose own agent stays silent",
    "lock": "At most so many VMs approved at once",
    "gate": "No early approval while alerts fire",
}
"""The tables of agent.toml that are there once."""

_SOURCES = tuple(each.value for each in EventSource)

_WATCH: Mapping[str, Option] = {
    "endpoint": Option(
        form=Forms.ENDPOINT,
        text="Who is asked for events. `auto`: `http://169.254.169.254`, and where that "
        "does not answer, what DHCP option 245 of this VM names; or a URL. Its "
        "variable is `FOREWARN_ENDPOINT`.",
    ),
    "dhcp": Option(
        form=Forms.SWITCH,
        text="Whether `auto` asks the network's DHCP servers for option 245 where "
        "nobody answers at what is known. Nothing is taken of what they offer.",
    ),
    "poll": Option(
        form=Forms.DURATION,
        least=POLL_MIN,
        most=POLL_MAX,
        text="How often it is asked. A Preempt leaves 30 s in all.",
    ),
    "name": Option(
        form=Forms.TEXT,
        text="This VM's name in Resources. `auto`: `compute.name` of the instance "
        "endpoint, read again now and then. With a name, that endpoint is not needed.",
    ),
    "scale_set_names": Option(
        form=Forms.SWITCH,
        text="Whether `name`, or else the name of this computer, is a scale set's "
        "computer name, `x00000i`, which Resources have as `x_18`.",
    ),
    "state": Option(
        form=Forms.TEXT,
        text="The journal's file: what was prepared, approved and is owed, on a disk that "
        "survives a reboot. Its directory is made, if the one above is there.",
    ),
    "listen": Option(
        form=Forms.LISTENER,
        may_be_empty=True,
        text="Where `/metrics`, `/healthz`, `/readyz` and `/status` are. Empty: "
        "nowhere. Choose another port where an exporter of OpenTelemetry for Prometheus "
        "runs: 9464 is its default too.",
    ),
    "dry_run": Option(
        form=Forms.SWITCH,
        text="Decide and log everything, run no handler and send no approval.",
    ),
    "observe": Option(
        form=Forms.SWITCH,
        text="Only watch and tell: no handler is run and nothing is approved, whatever "
        "the rules say.",
    ),
    "timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 2,
        most=TIMEOUT_MAX,
        text="For one exchange with the endpoint, once it has answered.",
    ),
    "first_timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=TIMEOUT_MAX,
        text="For the first answer of all: it may take two minutes (clause 8.1).",
    ),
    "push": Option(
        form=Forms.SWITCH,
        text="Whether to wait for changes at an endpoint that offers it, see "
        "[Extensions of the protocol](extensions.md#push-waiting-for-a-change), "
        "in place of asking again and again.",
    ),
    "ca_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="Certificates to trust where the endpoint is https. Empty: the system's.",
    ),
    "margin": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="Preparation ends so long before NotBefore.",
    ),
    "urgent_time": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="How long preparation may take for an event that may begin at any moment, "
        "since it has started or its NotBefore has passed, and for a Preempt without one.",
    ),
    "stop_grace": Option(
        form=Forms.DURATION,
        most=10 * MINUTE,
        text="At most, between asking a handler to stop and killing it.",
    ),
    "forget_after": Option(
        form=Forms.DURATION,
        least=MINUTE,
        text="How long an event that is over is remembered: it is known again if it "
        "comes back. The history keeps it longer.",
    ),
}

_GONE_AFTER: Mapping[str, Option] = {
    "gone_after.scheduled": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="For an event that has not started. The second answer without it is the "
        "earliest to be believed, here and below.",
    ),
    "gone_after.started": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="For an event that has started, or may have: it was approved, or NotBefore "
        "has passed. A recovery in the middle of the impact does harm.",
    ),
    "gone_after.empty": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="Where the answers are empty bodies, at least so long. Shorten it where the "
        "endpoint always answers so when there are no events.",
    ),
    "gone_after.reset": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="Where DocumentIncarnation is not higher than in the last document with the "
        "event, at least so long: the metadata server was restarted, and may take five "
        "minutes to list what is under way (clause 7.1).",
    ),
}

_LOG: Mapping[str, Option] = {
    "log.format": Option(
        form=Forms.WORD,
        words=("auto", "text", "json"),
        text="`text` or `json`. `auto`: text on a terminal, JSON otherwise.",
    ),
    "log.level": Option(
        form=Forms.WORD,
        words=("debug", "info", "warning", "error"),
        text="The least that is told: `debug`, `info`, `warning` or `error`.",
    ),
}

_HISTORY: Mapping[str, Option] = {
    "history.keep": Option(
        form=Forms.DURATION, least=HOUR, text="How long a line is kept."
    ),
    "history.rows": Option(
        form=Forms.COUNT,
        least=100,
        most=ROWS_MAX,
        text="How many lines are kept at most; the oldest go first.",
    ),
}

_PEERS: Mapping[str, Option] = {
    "peers.listen": Option(
        form=Forms.LISTENER,
        may_be_empty=True,
        text="Where the agents of other VMs may ask this one how it stands with an "
        "event. Empty: nowhere.",
    ),
    "peers.token_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A file with the token that all these agents share, on its first line. "
        "Needed with `listen` and with `url`.",
    ),
    "peers.url": Option(
        form=Forms.PEERS,
        may_be_empty=True,
        text="Where the others are: a URL with `{name}` in the place of a VM's name, "
        'or a table, `url = { web_1 = "http://192.0.2.5:9465" }`.',
    ),
    "peers.timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=MINUTE,
        text="For one question to another agent.",
    ),
    "peers.ca_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="Certificates to trust where the others are https. Empty: the system's.",
    ),
}

_STANDBY: Mapping[str, Option] = {
    "standby.names": Option(
        form=Forms.NAMES,
        may_be_empty=True,
        text="VMs for whose events this agent approves when their own agent stays "
        "silent; of an event that names several, all must be here. Empty: for none.",
    ),
    "standby.after": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="How long their agent may stay silent.",
    ),
    "standby.source": Option(
        form=Forms.WORDS,
        words=_SOURCES,
        text="Events of which source: `User`, `Platform` or both.",
    ),
}

_LOCK: Mapping[str, Option] = {
    "lock.kind": Option(
        form=Forms.WORD,
        words=LOCK_KINDS,
        text="What keeps the lock "
        "([Approve at most N VMs at once](../how-to/agent/lock.md)): `fleetlock`, a "
        "server of the FleetLock protocol; `kubernetes`, a Lease; `consul`, a key; "
        "`directory`, a directory that the VMs share. Empty: there is no lock.",
    ),
    "lock.url": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="The server of `fleetlock`, for which it is needed; or the agent of "
        "`consul`, else `http://127.0.0.1:8500`.",
    ),
    "lock.path": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The directory of `directory`, for which it is needed. It must have a file "
        "`forewarn-locks`, which shows that the share is mounted; make both once, by hand.",
    ),
    "lock.namespace": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The namespace of the Lease. Empty: that of the pod that the agent runs "
        "in, else `default`.",
    ),
    "lock.kubeconfig": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A file with the cluster and a token or certificate. Empty: the service "
        "account of the pod that the agent runs in.",
    ),
    "lock.group": Option(
        form=Forms.TEXT,
        text="Which lock it is: VMs of the same group share one.",
    ),
    "lock.id": Option(
        form=Forms.TEXT,
        text="What this VM is called in the lock; no other VM of the group may have "
        "the same ID. `auto`: its name in Resources.",
    ),
    "lock.holders": Option(
        form=Forms.COUNT,
        least=1,
        most=HOLDERS_MAX,
        text="How many VMs may hold it at once; the same for all VMs of a group. A "
        "FleetLock server has a number of its own.",
    ),
    "lock.ttl": Option(
        form=Forms.DURATION,
        least=MINUTE,
        most=7 * DAY,
        text="After so long without its agent a VM no longer holds it: longer than "
        "any impact. FleetLock has no expiry.",
    ),
    "lock.pause": Option(
        form=Forms.DURATION,
        most=DAY,
        text="How long it is still held after the recovery, before another VM may "
        "have it.",
    ),
    "lock.margin": Option(
        form=Forms.DURATION,
        most=DAY,
        text="It is waited for until so long before NotBefore.",
    ),
    "lock.at_deadline": Option(
        form=Forms.WORD,
        words=("approve", "withhold"),
        text="What happens then: `approve` approves without the lock; `withhold` "
        "leaves the event to NotBefore.",
    ),
    "lock.timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=30 * MINUTE,
        text="For one request to what keeps the lock.",
    ),
    "lock.token_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A file with the ACL token of `consul`, or with a bearer token for "
        "`fleetlock`, on its first line.",
    ),
    "lock.ca_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="Certificates to trust where `url` is https. Empty: the system's.",
    ),
    "lock.cert_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A certificate to show where `url` is https. Empty: none.",
    ),
    "lock.key_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The certificate's key. Empty: it is in the same file.",
    ),
}

_GATE: Mapping[str, Option] = {
    "gate.prometheus": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="The Prometheus whose alerts hold approvals back "
        "([Hold approvals while alerts fire](../how-to/agent/alert-gate.md)): its base URL, such as "
        "`http://prometheus:9090`, or that of a server which answers like it. Empty: "
        "`alertmanager` has it, or there is no gate.",
    ),
    "gate.alertmanager": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="The Alertmanager, in the place of `prometheus`: `http://alerts:9093`. "
        "Alerts that are silenced or inhibited there do not count.",
    ),
    "gate.only": Option(
        form=Forms.NAMES,
        text="Alerts that count: names such as `DiskFull` or `Node*`, or labels such as "
        "`severity=page`; several in one text, with spaces between them, must all hold. "
        "Default: all count.",
    ),
    "gate.ignore": Option(
        form=Forms.NAMES,
        may_be_empty=True,
        text="Alerts that do not count, written in the same way. What is written takes "
        "the place of the default.",
    ),
    "gate.pending": Option(
        form=Forms.SWITCH,
        text="Whether alerts count that are pending, and do not fire yet. For "
        "`prometheus` only.",
    ),
    "gate.unknown": Option(
        form=Forms.WORD,
        words=("hold", "go"),
        text="What happens while the server gives no usable answer: `hold` holds "
        "approvals back; `go` approves after three questions in a row without one.",
    ),
    "gate.every": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=HOUR,
        text="How often it is asked again while an approval is held back.",
    ),
    "gate.clear_for": Option(
        form=Forms.DURATION,
        most=DAY,
        text="How long no alert must have fired after one did, or after the server gave "
        "no usable answer. If none fires at the first answer, nothing is waited for.",
    ),
    "gate.timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 2,
        most=5 * MINUTE,
        text="For one question to the server.",
    ),
    "gate.token_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A file with a bearer token for it, on its first line.",
    ),
    "gate.ca_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="Certificates to trust where its URL is https. Empty: the system's.",
    ),
    "gate.cert_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A certificate to show where its URL is https. Empty: none.",
    ),
    "gate.key_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The certificate's key. Empty: it is in the same file.",
    ),
}

OPTIONS: Mapping[str, Option] = {
    **_WATCH,
    **_GONE_AFTER,
    **_LOG,
    **_HISTORY,
    **_PEERS,
    **_STANDBY,
    **_LOCK,
    **_GATE,
}
"""Every setting that is there once, by its whole name, in the order of the file."""

_ANSWERS = frozenset({"true", "false", "yes", "no", "on", "off", "1", "0"})
"""What somebody would write after a switch; `options` says which of it is taken."""


def with_switches(words: Sequence[str]) -> list[str]:
    """Return a command's words with `true` for each switch that stands alone.

    `--dry-run status` means what `--dry-run true status` does.
    """
    switches = {
        flag_of(name) for name, option in OPTIONS.items() if option.form is Forms.SWITCH
    }
    return [
        f"{word}=true" if word in switches and after.lower() not in _ANSWERS else word
        for word, after in zip(words, (*words[1:], ""))
    ]
