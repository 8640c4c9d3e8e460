"""The settings of an agent, with their defaults.

The tables are those of agent.toml. `settings` reads the values, and `option_table` has
their forms and bounds. A setting never contains a secret, but names the file with it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from forewarn.agent.core.names import scale_set_name
from forewarn.agent.core.policy import GoneAfter, Handler, Policy, Standby
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.frozen import frozen_dataclass

AUTO = "auto"
"""The value that means automatic detection."""


def host_name() -> str:
    """Return this computer's name without its domain."""
    return socket.gethostname().partition(".")[0]


@frozen_dataclass
class WatchSettings:
    """The settings before any table: the endpoint and how to poll it."""

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

    @property
    def vm_name(self) -> str:
        """Return this VM's name by the settings; empty: the endpoint is asked."""
        if not self.scale_set_names:
            return "" if self.name == AUTO else self.name
        own = socket.gethostname() if self.name == AUTO else self.name
        usual = "" if own != self.name else own
        return scale_set_name(own.partition(".")[0]) or usual


@frozen_dataclass
class LogSettings:
    """[log]: the output to standard error."""

    format: str = "auto"
    level: str = "info"


@frozen_dataclass
class HistorySettings:
    """[history]: the limits of the history in the journal."""

    keep: Micros = 400 * DAY
    rows: int = 50_000


@frozen_dataclass
class PeerSettings:
    """[peers]: the agents of the other VMs that an event names."""

    listen: str = ""
    token_file: str = ""
    url: str = ""
    """Contains `{name}` for the VM's name; empty: `urls` has the URLs."""
    urls: tuple[tuple[str, str], ...] = ()
    """The URL of each VM's agent, if they are listed."""
    timeout: Micros = 2 * SECOND
    ca_file: str = ""


@frozen_dataclass
class ServerSettings:
    """The settings for access to a server."""

    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


@frozen_dataclass
class LockSettings(ServerSettings):
    """[lock]: the maximum number of VMs approved at once."""

    kind: str = ""
    """Empty: there is no lock."""
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

    @property
    def label(self) -> str:
        """Return a string that identifies the lock: a different text is a different
        lock."""
        where = self.url or self.path
        if self.kind == "kubernetes":
            where = self.namespace
        kind = f"{self.kind} at {where}" if where else self.kind
        return f"lock {self.group} ({kind})"


USUAL_ALERTS = ("Watchdog", "InfoInhibitor", "Forewarn*")
"""Alerts that do not speak against an approval: one that always fires, one that only
inhibits others, and forewarn's own, some of which fire because an event waits."""


@frozen_dataclass
class GateSettings(ServerSettings):
    """[gate]: no early approval while alerts fire."""

    prometheus: str = ""
    alertmanager: str = ""
    """At most one of the two URLs is set; both empty: there is no gate."""
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = USUAL_ALERTS
    pending: bool = False
    unknown: str = "hold"
    every: Micros = 30 * SECOND
    clear_for: Micros = MINUTE
    timeout: Micros = 5 * SECOND

    @property
    def url(self) -> str:
        """Return the alert server's URL; empty: there is no gate."""
        return self.prometheus or self.alertmanager

    @property
    def label(self) -> str:
        """Return a string that identifies the alert server."""
        kind = "Prometheus" if self.prometheus else "Alertmanager"
        return f"{kind} at {self.url}"


@frozen_dataclass
class HandlerSettings(Handler):
    """[[handler]]: a handler that prepares for events and recovers after them.

    Decisions depend on the settings that `Handler` has.
    """

    prepare: tuple[str, ...] = ()
    """A program's arguments, a webhook's URL, or Python's `module:function`."""
    recover: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
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
    """The settings of the table's kind that the file has."""


@frozen_dataclass
class NotifySettings:
    """[[notify]]: a receiver of notifications."""

    kind: str
    url: str = ""
    path: str = ""
    on: tuple[str, ...] = ()
    """Kinds of notes; empty: all."""
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    secret_file: str = ""
    ca_file: str = ""
    timeout: Micros = 10 * SECOND
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The settings of the table's kind that the file has."""


@frozen_dataclass
class Settings:
    """All settings of an agent, with their origins."""

    watch: WatchSettings = field(default_factory=WatchSettings)
    log: LogSettings = field(default_factory=LogSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    peers: PeerSettings = field(default_factory=PeerSettings)
    standby: Standby = field(default_factory=Standby)
    gone_after: GoneAfter = field(default_factory=GoneAfter)
    lock: LockSettings = field(default_factory=LockSettings)
    gate: GateSettings = field(default_factory=GateSettings)
    handlers: tuple[HandlerSettings, ...] = ()
    notify: tuple[NotifySettings, ...] = ()
    policy: Policy = field(default_factory=Policy)
    """The settings that decisions depend on, made of the others."""
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    """The source of each setting, by its full name, such as `log.level`; missing: the
    default."""
    warnings: tuple[str, ...] = ()
    """Probable mistakes that are harmless."""
    file: str = ""
    """The file that was read; empty: none."""
    is_blank: bool = False
    """The file contains no setting."""
    is_copy: bool = False
    """The file was refused, and these settings are from the last good copy."""
