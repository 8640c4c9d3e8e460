"""The settings of an agent: what they are, and what each is if nobody says.

The tables are those of agent.toml. `settings` finds the values, `options` knows
their forms and bounds. No secret is ever a setting: settings name the files that
secrets are in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from forewarn.agent.core.policy import GoneAfter, Policy
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

AUTO = "auto"
"""Found out by itself, where a setting says this."""


HANDLER_TIMEOUT: Micros = 5 * MINUTE
"""Of a handler, unless it is set."""


@frozen_dataclass
class WatchSettings:
    """The keys before any table: what is watched, and how."""

    endpoint: str = AUTO
    dhcp: bool = True
    poll: Micros = SECOND
    name: str = AUTO
    scale_set_names: bool = False
    state: str = "/var/lib/forewarn/agent.db"
    listen: str = "127.0.0.1:9464"
    dry_run: bool = False
    observe: bool = False
    timeout: Micros = 5 * SECOND
    first_timeout: Micros = 130 * SECOND
    push: bool = True
    ca_file: str = ""
    margin: Micros = 2 * SECOND
    urgent_time: Micros = 10 * SECOND
    stop_grace: Micros = 5 * SECOND
    forget_after: Micros = 24 * HOUR


@frozen_dataclass
class LogSettings:
    """[log]: what the agent writes to standard error."""

    format: str = "auto"
    level: str = "info"


@frozen_dataclass
class HistorySettings:
    """[history]: how long the journal keeps what was told."""

    keep: Micros = 400 * DAY
    rows: int = 50_000


@frozen_dataclass
class PeerSettings:
    """[peers]: the agents of the other VMs that an event names."""

    listen: str = ""
    token_file: str = ""
    url: str = ""
    """With `{name}` where the VM's name goes; empty: `urls` has them."""
    urls: tuple[tuple[str, str], ...] = ()
    """The URL of each VM's agent, where they are named one by one."""
    timeout: Micros = 2 * SECOND
    ca_file: str = ""


@frozen_dataclass
class StandbySettings:
    """[standby]: approving for a named VM that stays silent."""

    names: tuple[str, ...] = ()
    after: Micros = 60 * SECOND
    source: tuple[str, ...] = ("User",)


@frozen_dataclass
class LockSettings:
    """[lock]: at most so many VMs are approved at once."""

    kind: str = ""
    """Empty: there is none."""
    url: str = ""
    path: str = ""
    namespace: str = ""
    kubeconfig: str = ""
    group: str = "default"
    id: str = AUTO
    holders: int = 1
    ttl: Micros = HOUR
    pause: Micros = 0
    margin: Micros = 10 * SECOND
    at_deadline: str = "approve"
    timeout: Micros = 30 * SECOND
    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    @property
    def label(self) -> str:
        """Return which lock it is, for a person: another text is another lock."""
        where = self.url or self.path
        if self.kind == "kubernetes":
            where = self.namespace
        kind = f"{self.kind} at {where}" if where else self.kind
        return f"lock {self.group} ({kind})"


USUAL_ALERTS = ("Watchdog", "InfoInhibitor", "Forewarn*")
"""Alerts that say nothing against an approval: a heartbeat that always fires, one that
only inhibits others, and forewarn's own, some of which fire because an event waits."""


@frozen_dataclass
class GateSettings:
    """[gate]: no early approval while alerts fire."""

    prometheus: str = ""
    alertmanager: str = ""
    """One of both is a URL; both empty: there is no gate."""
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = USUAL_ALERTS
    pending: bool = False
    unknown: str = "hold"
    every: Micros = 30 * SECOND
    clear_for: Micros = MINUTE
    timeout: Micros = 5 * SECOND
    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    @property
    def url(self) -> str:
        """Return where the alert server is; empty: there is no gate."""
        return self.prometheus or self.alertmanager

    @property
    def label(self) -> str:
        """Return which alert server it is, for a person."""
        kind = "Prometheus" if self.prometheus else "Alertmanager"
        return f"{kind} at {self.url}"


@frozen_dataclass
class HandlerSettings:
    """[[handler]]: something that prepares for events, and recovers from them."""

    name: str
    kind: str
    prepare: tuple[str, ...] = ()
    """The words of a program; of a webhook its URL, of Python `module:function`."""
    recover: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    timeout: Micros = HANDLER_TIMEOUT
    recover_timeout: Micros = HANDLER_TIMEOUT
    retries: int = 0
    required: bool = True
    always: bool = False
    priority: int = 0
    environment: tuple[tuple[str, str], ...] = ()
    directory: str = ""
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    secret_file: str = ""
    ca_file: str = ""
    pods: bool = False
    pods_node: str = ""
    pods_kubeconfig: str = ""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The keys of its own kind that were written."""


@frozen_dataclass
class NotifySettings:
    """[[notify]]: who is told of what the agent does."""

    kind: str
    url: str = ""
    path: str = ""
    on: tuple[str, ...] = ()
    """Kinds of note; empty: all that are told."""
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    secret_file: str = ""
    ca_file: str = ""
    timeout: Micros = 10 * SECOND
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The keys of its own kind that were written."""


@frozen_dataclass
class Settings:
    """All settings of an agent, and where each came from."""

    watch: WatchSettings = field(default_factory=WatchSettings)
    log: LogSettings = field(default_factory=LogSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    peers: PeerSettings = field(default_factory=PeerSettings)
    standby: StandbySettings = field(default_factory=StandbySettings)
    gone_after: GoneAfter = field(default_factory=GoneAfter)
    lock: LockSettings = field(default_factory=LockSettings)
    gate: GateSettings = field(default_factory=GateSettings)
    handlers: tuple[HandlerSettings, ...] = ()
    notify: tuple[NotifySettings, ...] = ()
    policy: Policy = field(default_factory=Policy)
    """What decisions depend on: made of handlers, rules, windows and margins."""
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the setting's whole name, such as `log.level`; absent: its default."""
    warnings: tuple[str, ...] = ()
    """What is probably a mistake, and does no harm."""
    file: str = ""
    """The file that was read; empty: none."""
    is_blank: bool = False
    """There is not one setting in it."""
    is_copy: bool = False
    """The file was refused, and these are of the copy of the last good one."""
