"""All settings of agent.toml outside of arrays: their forms, bounds and meanings.

`docs/reference/agent-settings.md` is written from this table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarn.agent.options import Forms
from forewarn.instants import DAY, HOUR, MINUTE, SECOND
from forewarn.protocol.events import EventSource
from forewarn.settings.forms import Option, flag_of

POLL_MIN = SECOND // 10
POLL_MAX = MINUTE
"""Maximum interval between polls: a longer one would miss a Preempt of 30 s."""

TIMEOUT_MAX = 10 * MINUTE
"""Maximum timeout of one request: the slowest first answer takes two minutes."""

ROWS_MAX = 1_000_000
"""Maximum number of history entries: about 300 MiB."""

HOLDERS_MAX = 1_000
"""Maximum number of VMs that hold a lock at once."""

LOCK_KINDS = ("fleetlock", "kubernetes", "consul", "directory")

TABLES: Mapping[str, str] = {
    "": "The endpoint, and how to poll it",
    "gone_after": "How long answers must lack an event until it counts as ended",
    "log": "The output to standard error",
    "history": "Limits of the history in the journal",
    "peers": "The agents of the other VMs that an event names",
    "standby": "Approving on behalf of a VM whose agent is silent",
    "lock": "The maximum number of VMs approved at once",
    "gate": "No early approvals while alerts fire",
}
"""The tables of agent.toml outside of arrays."""

OPTIONS: Mapping[str, Option] = {
    # Before any table
    "endpoint": Option(
        form=Forms.ENDPOINT,
        text="The endpoint to poll: a URL, or `auto`. `auto` tries "
        "`http://169.254.169.254`, and then the address in DHCP option 245 of "
        "this VM. The variable of this setting is `FOREWARN_ENDPOINT`.",
    ),
    "dhcp": Option(
        form=Forms.SWITCH,
        text="Whether `auto` asks the DHCP servers of the network for option 245 if "
        "no known address answers. The agent accepts none of their offers.",
    ),
    "poll": Option(
        form=Forms.DURATION,
        least=POLL_MIN,
        most=POLL_MAX,
        text="How often the endpoint is polled. A Preempt gives a notice of 30 s.",
    ),
    "name": Option(
        form=Forms.TEXT,
        text="This VM's name in Resources. `auto`: `compute.name` of the instance "
        "endpoint, which is read again regularly. With a name, the agent does "
        "not need that endpoint.",
    ),
    "scale_set_names": Option(
        form=Forms.SWITCH,
        text="Whether `name`, or else the name of this computer, is the computer "
        "name of a scale set's VM. The name `x00000i` then means `x_18` in "
        "Resources.",
    ),
    "state": Option(
        form=Forms.TEXT,
        text="The journal file, which stores what was prepared and approved and "
        "which recoveries are pending. It must be on a disk that survives a "
        "reboot. The agent creates its directory if the parent directory "
        "exists.",
    ),
    "listen": Option(
        form=Forms.LISTENER,
        may_be_empty=True,
        text="The address of `/metrics`, `/healthz`, `/readyz` and `/status`. Empty:"
        " none. Choose another port if an OpenTelemetry exporter for Prometheus"
        " runs on this VM, since its default is also 9464.",
    ),
    "dry_run": Option(
        form=Forms.SWITCH,
        text="Make and log all decisions, but run no handler and send no approval.",
    ),
    "observe": Option(
        form=Forms.SWITCH,
        text="Only poll and report: run no handler and approve nothing, regardless "
        "of the rules.",
    ),
    "timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 2,
        most=TIMEOUT_MAX,
        text="Timeout for an answer of the endpoint, after the first answer.",
    ),
    "first_timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=TIMEOUT_MAX,
        text="Timeout for the first answer, which can take two minutes (clause 8.1).",
    ),
    "push": Option(
        form=Forms.SWITCH,
        text="Whether to wait for changes instead of polling, if the endpoint offers"
        " it. See [Extensions of the "
        "protocol](extensions.md#push-waiting-for-a-change).",
    ),
    "ca_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="Trusted certificates for an https endpoint. Empty: the system's.",
    ),
    "margin": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="Preparation ends this long before NotBefore.",
    ),
    "urgent_time": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="Maximum time for preparation if the event may begin at any moment: it "
        "has started, its NotBefore has passed, or it is a Preempt without "
        "NotBefore.",
    ),
    "stop_grace": Option(
        form=Forms.DURATION,
        most=10 * MINUTE,
        text="Maximum time between asking a handler to stop and killing it.",
    ),
    "forget_after": Option(
        form=Forms.DURATION,
        least=MINUTE,
        text="How long the agent remembers an ended event, so that it recognizes the"
        " event if it returns. The history keeps it longer.",
    ),
    # The table [gone_after]
    "gone_after.scheduled": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="For an event that has not started. This setting and the next ones "
        "always need at least two answers without the event.",
    ),
    "gone_after.started": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="For an event that has started, or may have started because it was "
        "approved or NotBefore has passed. A recovery during the impact does "
        "harm.",
    ),
    "gone_after.empty": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="Minimum time if the answers are empty bodies. Shorten it if the "
        "endpoint always answers so when there are no events.",
    ),
    "gone_after.reset": Option(
        form=Forms.DURATION,
        most=HOUR,
        text="Minimum time if DocumentIncarnation is not higher than in the last "
        "document with the event. The metadata server was then restarted, and "
        "may take five minutes to list current events (clause 7.1).",
    ),
    # The table [log]
    "log.format": Option(
        form=Forms.WORD,
        words=("auto", "text", "json"),
        text="`text` or `json`. `auto`: text on a terminal, otherwise JSON.",
    ),
    "log.level": Option(
        form=Forms.WORD,
        words=("debug", "info", "warning", "error"),
        text="The lowest level that is logged: `debug`, `info`, `warning` or `error`.",
    ),
    # The table [history]
    "history.keep": Option(
        form=Forms.DURATION, least=HOUR, text="How long a history entry is kept."
    ),
    "history.rows": Option(
        form=Forms.COUNT,
        least=100,
        most=ROWS_MAX,
        text="Maximum number of history entries. The oldest are removed first.",
    ),
    # The table [peers]
    "peers.listen": Option(
        form=Forms.LISTENER,
        may_be_empty=True,
        text="The address at which agents of other VMs can ask whether this one is "
        "prepared. Empty: none.",
    ),
    "peers.token_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A file with the token that all these agents share, on its first line. "
        "Required with `listen` and with `url`.",
    ),
    "peers.url": Option(
        form=Forms.PEERS,
        may_be_empty=True,
        text="The URLs of the other agents: a URL with `{name}` for the name of a "
        'VM, or a table, `url = { web_1 = "http://192.0.2.5:9465" }`.',
    ),
    "peers.timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=MINUTE,
        text="Timeout for one request to another agent.",
    ),
    "peers.ca_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="Trusted certificates for https URLs of other agents. Empty: the "
        "system's.",
    ),
    # The table [standby]
    "standby.names": Option(
        form=Forms.NAMES,
        may_be_empty=True,
        text="VMs on behalf of which this agent approves events if their own agents "
        "are silent. If an event names several VMs, all of them must be in this"
        " list. Empty: none.",
    ),
    "standby.after": Option(
        form=Forms.DURATION,
        least=SECOND,
        text="How long the other agents must be silent.",
    ),
    "standby.source": Option(
        form=Forms.WORDS,
        words=tuple(source.value for source in EventSource),
        text="The sources of these events: `User`, `Platform` or both.",
    ),
    # The table [lock]
    "lock.kind": Option(
        form=Forms.WORD,
        words=LOCK_KINDS,
        text="The kind of lock ([Approve at most N VMs at "
        "once](../how-to/agent/lock.md)). `fleetlock`: a server of the "
        "FleetLock protocol. `kubernetes`: a Lease. `consul`: a key. "
        "`directory`: a directory that the VMs share. Empty: no lock.",
    ),
    "lock.url": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="The URL of the `fleetlock` server, which is required, or of the "
        "`consul` agent. Default for `consul`: `http://127.0.0.1:8500`.",
    ),
    "lock.path": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The directory for `directory`, which is required. Create it and a file"
        " `forewarn-locks` in it once, by hand. The file shows that the share "
        "is mounted.",
    ),
    "lock.namespace": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The namespace of the Lease. Empty: that of the agent's pod, or else "
        "`default`.",
    ),
    "lock.kubeconfig": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A file with the cluster and a token or certificate. Empty: the service"
        " account of the agent's pod.",
    ),
    "lock.group": Option(
        form=Forms.TEXT,
        text="The name of the lock. VMs of the same group share one lock.",
    ),
    "lock.id": Option(
        form=Forms.TEXT,
        text="The ID of this VM in the lock, which no other VM of the group may "
        "have. `auto`: its name in Resources.",
    ),
    "lock.holders": Option(
        form=Forms.COUNT,
        least=1,
        most=HOLDERS_MAX,
        text="Maximum number of VMs that hold the lock at once. It must be the same "
        "for all VMs of a group. A FleetLock server has its own setting for "
        "this.",
    ),
    "lock.ttl": Option(
        form=Forms.DURATION,
        least=MINUTE,
        most=7 * DAY,
        text="The lock of a VM expires if its agent does not confirm it for this "
        "long. It must be longer than any impact. FleetLock has no expiry.",
    ),
    "lock.pause": Option(
        form=Forms.DURATION,
        most=DAY,
        text="How long the VM still holds the lock after its recovery.",
    ),
    "lock.margin": Option(
        form=Forms.DURATION,
        most=DAY,
        text="The agent waits for the lock until this long before NotBefore.",
    ),
    "lock.at_deadline": Option(
        form=Forms.WORD,
        words=("approve", "withhold"),
        text="What happens then: `approve` approves the event without the lock. "
        "`withhold` does not approve it, so it starts at NotBefore.",
    ),
    "lock.timeout": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=30 * MINUTE,
        text="Timeout for one request to the lock's server.",
    ),
    "lock.token_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A file with the ACL token for `consul`, or with a bearer token for "
        "`fleetlock`, on its first line.",
    ),
    "lock.ca_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="Trusted certificates if `url` is https. Empty: the system's.",
    ),
    "lock.cert_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A client certificate if `url` is https. Empty: none.",
    ),
    "lock.key_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The key of the client certificate. Empty: it is in the same file.",
    ),
    # The table [gate]
    "gate.prometheus": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="The base URL of the Prometheus server whose alerts hold approvals back"
        " ([Hold approvals while alerts fire](../how-to/agent/alert-gate.md)), "
        "such as `http://prometheus:9090`. A compatible server works too. "
        "Empty: `alertmanager` is used, or there is no gate.",
    ),
    "gate.alertmanager": Option(
        form=Forms.WEB,
        may_be_empty=True,
        text="The base URL of an Alertmanager, instead of `prometheus`: "
        "`http://alerts:9093`. Alerts that are silenced or inhibited there do "
        "not count.",
    ),
    "gate.only": Option(
        form=Forms.NAMES,
        text="Alerts that count: names such as `DiskFull` or `Node*`, or labels such"
        " as `severity=page`. Several of them in one text, separated by spaces,"
        " must all match. Default: all alerts count.",
    ),
    "gate.ignore": Option(
        form=Forms.NAMES,
        may_be_empty=True,
        text="Alerts that do not count, in the same format. This replaces the default.",
    ),
    "gate.pending": Option(
        form=Forms.SWITCH,
        text="Whether pending alerts count too. Only for `prometheus`.",
    ),
    "gate.unknown": Option(
        form=Forms.WORD,
        words=("hold", "go"),
        text="What happens while the server gives no usable answer: `hold` holds "
        "approvals back. `go` approves after three requests in a row without a "
        "usable answer.",
    ),
    "gate.every": Option(
        form=Forms.DURATION,
        least=SECOND,
        most=HOUR,
        text="How often the server is asked again while an approval is held back.",
    ),
    "gate.clear_for": Option(
        form=Forms.DURATION,
        most=DAY,
        text="How long no alert may fire after an alert, or after an unusable "
        "answer. If no alert fires at the first answer, the agent does not "
        "wait.",
    ),
    "gate.timeout": Option(
        form=Forms.DURATION,
        least=SECOND // 2,
        most=5 * MINUTE,
        text="Timeout for one request to the server.",
    ),
    "gate.token_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A file with a bearer token for the server, on its first line.",
    ),
    "gate.ca_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="Trusted certificates if the server's URL is https. Empty: the system's.",
    ),
    "gate.cert_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="A client certificate if the server's URL is https. Empty: none.",
    ),
    "gate.key_file": Option(
        form=Forms.TEXT,
        may_be_empty=True,
        text="The key of the client certificate. Empty: it is in the same file.",
    ),
}
"""All settings outside of arrays, by their full names, in the order of the file."""

_ANSWERS = frozenset({"true", "false", "yes", "no", "on", "off", "1", "0"})
"""Words that a person may write after a switch; `options` accepts some of them."""


def with_switches(arguments: Sequence[str]) -> list[str]:
    """Return a command's arguments with `true` added to switches without a value.

    `--dry-run status` means `--dry-run true status`.
    """
    switches = {
        flag_of(name) for name, option in OPTIONS.items() if option.form is Forms.SWITCH
    }
    return [
        f"{word}=true" if word in switches and after.lower() not in _ANSWERS else word
        for word, after in zip(arguments, (*arguments[1:], ""))
    ]
