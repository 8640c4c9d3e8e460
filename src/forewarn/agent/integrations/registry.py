"""Which integrations there are, each loaded when it is first needed.

A new one is a module with a `KIND`, and a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from forewarn.agent.integrations.kind import HandlerKind, SinkKind

HANDLERS: Mapping[str, str] = {
    "systemd": "stops, starts and reloads units of systemd",
    "docker": "stops or pauses containers of docker",
    "podman": "stops or pauses containers of podman",
    "kubernetes": "taints, cordons and drains the node of a Kubernetes cluster",
    "nomad": "drains the client node, and makes it eligible again",
    "consul": "puts the node, or services of it, into maintenance mode",
    "haproxy": "drains servers of HAProxy, and makes them ready again",
    "patroni": "hands the lead of a Patroni cluster over, and takes it back",
    "pacemaker": "has a Pacemaker cluster move everything away from its node",
    "slurm": "drains and resumes the node of a Slurm cluster",
}
"""By the word in the settings, what it is."""

SINKS: Mapping[str, str] = {
    "slack": "messages in Slack",
    "teams": "cards in Microsoft Teams",
    "email": "letters by a mail server",
    "syslog": "syslog with structured data (RFC 5424)",
    "journald": "entries of systemd's journal, with fields",
    "eventhubs": "a central log of many VMs in Azure Event Hubs",
    "eventlog": "entries of the event log of Windows",
}
"""By the word in the settings, what it is."""

_SHARED = {"docker": "containers", "podman": "containers"}
"""By the word of kinds that share a module, which one: it has `KINDS`."""


def handler_kind(word: str) -> HandlerKind | None:
    """Return a kind of handler; None: it is no integration."""
    found = _loaded("integrations", word) if word in HANDLERS else None
    assert found is None or isinstance(found, HandlerKind), word
    return found


def sink_kind(word: str) -> SinkKind | None:
    """Return a kind of receiver; None: it is no integration."""
    found = _loaded("sinks", word) if word in SINKS else None
    assert found is None or isinstance(found, SinkKind), word
    return found


def _loaded(package: str, word: str) -> object:
    name = _SHARED.get(word, word)
    module = importlib.import_module(f"forewarn.agent.{package}.{name}")
    return module.KINDS[word] if word in _SHARED else module.KIND
