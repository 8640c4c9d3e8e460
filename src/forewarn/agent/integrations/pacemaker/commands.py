"""Pacemaker, asked and told by its own commands on a node of the cluster.

It promises to ask again while the cluster does not answer and there is time, and to
say in a sentence what was refused. It decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.commands import Commands, Output
from forewarn.agent.integrations.pacemaker.status import Cluster, cluster_of
from forewarn.protocol.frozen import frozen_dataclass

PROGRAMS = ("crm_node", "crm_mon", "crm_attribute")

FOREVER, REBOOT = "forever", "reboot"
"""How long an attribute lasts: as the configuration, or as this run of the node."""

NO_RIGHT, WRONG_USE, NOT_THERE = 4, 64, 105
"""Exit statuses of Pacemaker's commands; all others may pass."""

_AWAY = "ould not connect"
"""What they say when the cluster does not answer, some with the status of NOT_THERE."""

_ERROR = re.compile(r"<error>(.*?)</error>", re.DOTALL)


@frozen_dataclass
class Attribute:
    """An attribute of a node."""

    name: str
    value: str = ""
    lifetime: str = FOREVER


class _Commands(Commands):
    """Pacemaker's commands, of which one tells its errors as XML."""

    def run(self, words: Sequence[str], context: RunContext, **more: Any) -> Output:
        """Return how a command ended, with its errors where errors are."""
        output = super().run(words, context, **more)
        if output.status == 0 or output.err.strip():
            return output
        said = _ERROR.findall(output.out)
        return replace(output, err="\n".join(said)) if said else output


class Pacemaker:
    """The cluster, as its commands on this node show it."""

    def __init__(self, node: str, environment: Mapping[str, str]) -> None:
        """Ask nobody yet; `node` is this node's name, empty: the cluster tells."""
        self._node = node
        self.commands: Commands = _Commands(environment)

    def name(self, context: RunContext) -> str:
        """Return this node's name; raises HandlerError."""
        if self._node:
            return self._node
        output = self._ask(["crm_node", "--name"], context)
        return output.good("the cluster does not tell this node's name").strip()

    def cluster(self, context: RunContext) -> Cluster:
        """Return the cluster as it is now; raises HandlerError."""
        output = self._ask(["crm_mon", "--output-as=xml"], context)
        return cluster_of(output.good("the cluster cannot be looked at"))

    def query(self, node: str, name: str, context: RunContext) -> str:
        """Return a lasting attribute of a node; empty: it has none."""
        words = [*_words(node, Attribute(name=name)), "--query", "--quiet"]
        return _value(self._ask(words, context), f"attribute {name} of {node}")

    def update(self, node: str, attribute: Attribute, context: RunContext) -> None:
        """Set an attribute of a node; raises HandlerError."""
        words = [*_words(node, attribute), f"--update={attribute.value}"]
        self._ask(words, context).good(f"{attribute.name} of {node} could not be set")

    def delete(self, node: str, attribute: Attribute, context: RunContext) -> None:
        """Remove an attribute of a node, if it is there; raises HandlerError."""
        words = [*_words(node, attribute), "--delete"]
        _value(self._ask(words, context), f"attribute {attribute.name} of {node}")

    def health_value(self, context: RunContext) -> str:
        """Return what says that a node is ill, by the cluster's own strategy.

        Raises HandlerError where the cluster does not look at health.
        """
        words = ["crm_attribute", "--type=crm_config", "--name=node-health-strategy"]
        output = self._ask([*words, "--query", "--quiet"], context)
        strategy = _value(output, "the cluster's health strategy") or "none"
        if strategy == "none":
            raise HandlerError(
                "the cluster does not look at the health of its nodes: set its "
                'node-health-strategy, or write mode = "standby"'
            )
        return "-1000000" if strategy == "custom" else "red"

    def _ask(self, words: Sequence[str], context: RunContext) -> Output:
        return self.commands.patiently(
            words, context, doing=f"asking Pacemaker ({words[0]})", may_pass=_may_pass
        )


def _words(node: str, attribute: Attribute) -> tuple[str, ...]:
    return (
        "crm_attribute",
        f"--node={node}",
        f"--name={attribute.name}",
        f"--lifetime={attribute.lifetime}",
    )


def _may_pass(output: Output) -> bool:
    if _AWAY in output.err:
        return True
    if output.status in {NO_RIGHT, WRONG_USE, NOT_THERE}:
        return False
    return "ermission denied" not in output.err


def _value(output: Output, what: str) -> str:
    """Return what was printed; empty: there is no such thing."""
    if output.status == NOT_THERE:
        return ""
    return output.good(f"{what} cannot be had").strip()
