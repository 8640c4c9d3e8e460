"""The list of all integrations, each loaded when it is first used.

To add one, write a module with a `KIND`, and add a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from forewarn.agent.integrations.kind import HandlerKind, SinkKind

HANDLERS: Mapping[str, str] = {
    "systemd": "stops, starts and reloads systemd units",
    "docker": "stops or pauses Docker containers",
    "podman": "stops or pauses Podman containers",
    "kubernetes": "taints, cordons and drains the Kubernetes node",
    "nomad": "drains the Nomad client node, and makes it eligible again",
    "consul": "puts the Consul node, or some of its services, into maintenance mode",
    "haproxy": "drains HAProxy servers, and makes them ready again",
    "patroni": "switches a Patroni cluster over to another leader, and back",
    "pacemaker": "makes a Pacemaker cluster move all resources to other nodes",
    "slurm": "drains and resumes the Slurm node",
}
"""The description of each kind, by its name in the settings."""

SINKS: Mapping[str, str] = {
    "slack": "messages in Slack",
    "teams": "cards in Microsoft Teams",
    "email": "email through a mail server",
    "syslog": "syslog with structured data (RFC 5424)",
    "journald": "entries in the systemd journal, with fields",
    "eventhubs": "a central log of many VMs in Azure Event Hubs",
    "eventlog": "entries in the Windows event log",
}
"""The description of each kind, by its name in the settings."""

SHARED = {
    "docker": "containers",
    "podman": "containers",
    "slack": "chat",
    "teams": "chat",
}
"""The module of each kind that shares one. It has `KINDS` instead of `KIND`."""


def handler_kind(word: str) -> HandlerKind | None:
    """Return a kind of handler; None: it is not an integration."""
    return _loaded("integrations", word) if word in HANDLERS else None


def sink_kind(word: str) -> SinkKind | None:
    """Return a kind of receiver; None: it is not an integration."""
    return _loaded("sinks", word) if word in SINKS else None


def _loaded(package: str, word: str) -> Any:
    name = SHARED.get(word, word)
    module = importlib.import_module(f"forewarn.agent.{package}.{name}")
    return module.KINDS[word] if word in SHARED else module.KIND
