"""A client of Pacemaker through its commands on a node of the cluster.

If the cluster does not respond, commands are repeated until the deadline. Errors contain
Pacemaker's message. The client does not decide anything.
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
"""Lifetimes of an attribute: permanent, or until the node restarts."""

NO_RIGHT, WRONG_USE, NOT_THERE = 4, 64, 105
"""Exit statuses of permanent failures; all others are temporary."""

_AWAY = "ould not connect"
"""Part of the error while the cluster is unavailable, sometimes with NOT_THERE."""

_ERROR = re.compile(r"<error>(.*?)</error>", re.DOTALL)


@frozen_dataclass
class Attribute:
    """An attribute of a node."""

    name: str
    value: str = ""
    lifetime: str = FOREVER


class _Commands(Commands):
    """Runs Pacemaker's commands, one of which prints its errors as XML."""

    def run(self, words: Sequence[str], context: RunContext, **more: Any) -> Output:
        """Run a command, and return its result with errors of XML output as errors."""
        output = super().run(words, context, **more)
        if output.status == 0 or output.err.strip():
            return output
        said = _ERROR.findall(output.out)
        return replace(output, err="\n".join(said)) if said else output


class Pacemaker:
    """A client of the cluster on this node."""

    def __init__(self, node: str, environment: Mapping[str, str]) -> None:
        """Run nothing yet; `node` is the name of this node, empty: ask the cluster."""
        self._node = node
        self.commands: Commands = _Commands(environment)

    def name(self, context: RunContext) -> str:
        """Return this node's name; raises HandlerError."""
        if self._node:
            return self._node
        output = self._ask(["crm_node", "--name"], context)
        return output.good("cannot read the name of this node").strip()

    def cluster(self, context: RunContext) -> Cluster:
        """Return the current state of the cluster; raises HandlerError."""
        output = self._ask(["crm_mon", "--output-as=xml"], context)
        return cluster_of(output.good("cannot read the state of the cluster"))

    def query(self, node: str, name: str, context: RunContext) -> str:
        """Return a permanent attribute of a node; empty: not set."""
        words = [*_words(node, Attribute(name=name)), "--query", "--quiet"]
        return _value(self._ask(words, context), f"attribute {name} of {node}")

    def update(self, node: str, attribute: Attribute, context: RunContext) -> None:
        """Set an attribute of a node; raises HandlerError."""
        words = [*_words(node, attribute), f"--update={attribute.value}"]
        self._ask(words, context).good(f"cannot set {attribute.name} of {node}")

    def delete(self, node: str, attribute: Attribute, context: RunContext) -> None:
        """Remove an attribute of a node, if it is set; raises HandlerError."""
        words = [*_words(node, attribute), "--delete"]
        _value(self._ask(words, context), f"attribute {attribute.name} of {node}")

    def health_value(self, context: RunContext) -> str:
        """Return the attribute value of an unhealthy node, by the cluster's strategy.

        Raises HandlerError if the cluster ignores the health of its nodes.
        """
        words = ["crm_attribute", "--type=crm_config", "--name=node-health-strategy"]
        output = self._ask([*words, "--query", "--quiet"], context)
        strategy = _value(output, "the cluster's health strategy") or "none"
        if strategy == "none":
            raise HandlerError(
                "the cluster ignores the health of its nodes: set its "
                'node-health-strategy, or use mode = "standby"'
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
    """Return the printed value; empty: it does not exist."""
    if output.status == NOT_THERE:
        return ""
    return output.good(f"cannot read {what}").strip()
