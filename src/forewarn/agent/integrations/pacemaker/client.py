"""A client of Pacemaker through its commands on a node of the cluster.

It understands the XML output of Pacemaker 2.0.3 and newer, and raises an error for other
output. If the cluster does not respond, commands are repeated until the deadline. Errors
contain Pacemaker's message. It does not know events.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.commands import Commands, Output
from forewarn.problems import listed
from forewarn.protocol.frozen import frozen_dataclass

PROGRAMS = ("crm_node", "crm_mon", "crm_attribute")

FOREVER, REBOOT = "forever", "reboot"
"""Lifetimes of an attribute: permanent, or until the node restarts."""

NO_RIGHT, WRONG_USE, NOT_THERE = 4, 64, 105
"""Exit statuses of permanent failures; all others are temporary."""

_AWAY = "ould not connect"
"""Part of the error while the cluster is unavailable, sometimes with NOT_THERE."""

_ERROR = re.compile(r"<error>(.*?)</error>", re.DOTALL)

NAMED_MAX = 8
"""Maximum number of resources that a message names."""

HOSTS = frozenset({"member", "remote"})
"""Types of nodes that count as other nodes. A guest node depends on its host."""

PROMOTED = frozenset({"Promoted", "Master"})
RUNNING = PROMOTED | {"Started", "Unpromoted", "Slave"}
"""Roles of running resources; Pacemaker 2.0 has the old names."""


@frozen_dataclass
class ClusterNode:
    """A node of the cluster."""

    name: str
    is_online: bool
    is_standby: bool
    can_host: bool
    """Whether the state of the node permits resources to start there."""


@frozen_dataclass
class Resource:
    """One resource on one node."""

    id: str
    """The ID without an instance number."""
    node: str
    role: str
    is_settled: bool
    """Whether the resource runs and no operation on it is pending."""
    is_cloned: bool
    will_stay: str = ""
    """Why the cluster will not move the resource; empty: it will."""

    @property
    def need(self) -> tuple[str, bool] | None:
        """Return what must run elsewhere after the move: the ID, and whether promoted.

        None: nothing, since other instances of the clone run already.
        """
        is_promoted = self.role in PROMOTED
        return (self.id, is_promoted) if is_promoted or not self.is_cloned else None


@frozen_dataclass
class Cluster:
    """The state of the cluster, as this node sees it."""

    has_dc: bool
    has_quorum: bool
    """Whether the cluster has quorum, or ignores it."""
    is_maintained: bool
    """Whether the whole cluster is in maintenance mode."""
    nodes: tuple[ClusterNode, ...]
    resources: tuple[Resource, ...]

    def node(self, name: str) -> ClusterNode:
        """Return a node; raises HandlerError."""
        for node_ in self.nodes:
            if node_.name == name:
                return node_
        known = ", ".join(node.name for node in self.nodes) or "none"
        raise HandlerError(
            f"the cluster has no node {name}: set `node` to one of these names: {known}"
        )

    def on(self, name: str, leave: Collection[str] = ()) -> tuple[Resource, ...]:
        """Return the resources on a node, except those that may stay."""
        return tuple(
            resource
            for resource in self.resources
            if resource.node == name and resource.id not in leave
        )

    def others(self, name: str) -> tuple[str, ...]:
        """Return the other nodes that can host resources."""
        return tuple(
            node_.name for node_ in self.nodes if node_.can_host and node_.name != name
        )

    def lacks(self, needs: Collection[tuple[str, bool]], but: str) -> tuple[str, ...]:
        """Return the IDs of needed resources that do not run on nodes other than `but`."""
        there = {
            (resource.id, promoted)
            for resource in self.resources
            if resource.node != but and resource.is_settled
            for promoted in {False, resource.role in PROMOTED}
        }
        return tuple(
            sorted({id_ for id_, promoted in needs if (id_, promoted) not in there})
        )


def trouble(cluster: Cluster) -> str:
    """Return why the cluster cannot move resources; empty: it can."""
    if not cluster.has_dc:
        return "the cluster has no designated controller, so it moves nothing"
    if not cluster.has_quorum:
        return "the cluster has no quorum, so it starts nothing on other nodes"
    if cluster.is_maintained:
        return "the cluster is in maintenance mode, so it moves nothing"
    return ""


def ids_of(resources: Collection[Resource]) -> str:
    """Return resources for a message."""
    return listed(dict.fromkeys(resource.id for resource in resources), NAMED_MAX)


def cluster_of(text: str) -> Cluster:
    """Parse the output of `crm_mon --output-as=xml`; raises HandlerError."""
    reader = _Reader()
    reader.read(text)
    if "nodes" not in reader.seen:
        raise HandlerError(f"cannot parse crm_mon's output: {text[:100]!r}")
    dc, options = reader.dc, reader.options
    return Cluster(
        has_dc=_is(dc, "present"),
        has_quorum=_is(dc, "with_quorum")
        or options.get("no-quorum-policy") == "ignore",
        is_maintained=_is(options, "maintenance-mode"),
        nodes=tuple(_node(node) for node in reader.nodes),
        resources=tuple(
            _resource(attributes, node, is_cloned=is_cloned)
            for attributes, node, is_cloned in reader.found
            if _is(attributes, "active")
        ),
    )


Attributes = Mapping[str, str]


class _Reader:
    """Collects the needed elements while the document is parsed."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.dc: Attributes = {}
        self.options: Attributes = {}
        self.nodes: list[Attributes] = []
        self.found: list[tuple[Attributes, str, bool]] = []
        """Each resource on each node: its attributes, the node, and whether it is cloned."""
        self._path: list[str] = []
        self._resource: Attributes = {}

    def read(self, text: str) -> None:
        # Loaded only if this kind is used.
        import pyexpat  # noqa: PLC0415

        parser = pyexpat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        try:
            parser.Parse(text, True)
        except pyexpat.ExpatError as error:
            raise HandlerError(f"cannot parse crm_mon's output: {error}") from error

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        above = self._path[-1] if self._path else ""
        self._path.append(name)
        self.seen.add(name)
        if name == "current_dc":
            self.dc = attributes
        elif name == "cluster_options":
            self.options = attributes
        elif name == "node" and above == "nodes":
            self.nodes.append(attributes)
        elif name == "resource" and "resources" in self._path:
            self._resource = attributes
        elif name == "node" and above == "resource" and "resources" in self._path:
            is_cloned = "clone" in self._path
            self.found.append((self._resource, attributes.get("name", ""), is_cloned))

    def _end(self, _name: str) -> None:
        self._path.pop()


def _is(attributes: Attributes, name: str) -> bool:
    return attributes.get(name) == "true"


def _node(attributes: Attributes) -> ClusterNode:
    is_online, is_standby = _is(attributes, "online"), _is(attributes, "standby")
    hampered = ("standby_onfail", "maintenance", "pending", "unclean", "shutdown")
    return ClusterNode(
        name=attributes.get("name", ""),
        is_online=is_online and not _is(attributes, "pending"),
        is_standby=is_standby,
        can_host=is_online
        and not is_standby
        and not any(_is(attributes, attribute) for attribute in hampered)
        and attributes.get("health", "green") != "red"
        and attributes.get("type", "member") in HOSTS,
    )


def _resource(attributes: Attributes, node: str, *, is_cloned: bool) -> Resource:
    will_stay = "blocked" if _is(attributes, "blocked") else ""
    role = attributes.get("role", "")
    return Resource(
        id=attributes.get("id", "").partition(":")[0],
        node=node,
        role=role,
        is_settled=role in RUNNING
        and not attributes.get("pending")
        and not _is(attributes, "failed"),
        is_cloned=is_cloned,
        will_stay=will_stay if _is(attributes, "managed") else "unmanaged",
    )


@frozen_dataclass
class Attribute:
    """An attribute of a node."""

    name: str
    value: str = ""
    lifetime: str = FOREVER


class _Commands(Commands):
    """Runs Pacemaker's commands, one of which prints its errors as XML."""

    def run(self, command: Sequence[str], context: RunContext, **more: Any) -> Output:
        """Run a command; if it prints its errors as XML, return them as error output."""
        output = super().run(command, context, **more)
        if output.status == 0 or output.err.strip():
            return output
        errors = _ERROR.findall(output.out)
        return replace(output, err="\n".join(errors)) if errors else output


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
        command = [*_words(node, Attribute(name=name)), "--query", "--quiet"]
        return _value(self._ask(command, context), f"attribute {name} of {node}")

    def update(self, node: str, attribute: Attribute, context: RunContext) -> None:
        """Set an attribute of a node; raises HandlerError."""
        command = [*_words(node, attribute), f"--update={attribute.value}"]
        self._ask(command, context).good(f"cannot set {attribute.name} of {node}")

    def delete(self, node: str, attribute: Attribute, context: RunContext) -> None:
        """Remove an attribute of a node, if it is set; raises HandlerError."""
        command = [*_words(node, attribute), "--delete"]
        _value(self._ask(command, context), f"attribute {attribute.name} of {node}")

    def health_value(self, context: RunContext) -> str:
        """Return the attribute value of an unhealthy node, by the cluster's strategy.

        Raises HandlerError if the cluster ignores the health of its nodes.
        """
        command = ["crm_attribute", "--type=crm_config", "--name=node-health-strategy"]
        output = self._ask([*command, "--query", "--quiet"], context)
        strategy = _value(output, "the cluster's health strategy") or "none"
        if strategy == "none":
            raise HandlerError(
                "the cluster ignores the health of its nodes: set its "
                'node-health-strategy, or use mode = "standby"'
            )
        return "-1000000" if strategy == "custom" else "red"

    def _ask(self, command: Sequence[str], context: RunContext) -> Output:
        return self.commands.patiently(
            command,
            context,
            doing=f"asking Pacemaker ({command[0]})",
            may_pass=_may_pass,
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


def _value(output: Output, subject: str) -> str:
    """Return the printed value; empty: it does not exist."""
    if output.status == NOT_THERE:
        return ""
    return output.good(f"cannot read {subject}").strip()
