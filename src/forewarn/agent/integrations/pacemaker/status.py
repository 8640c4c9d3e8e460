"""Reads what `crm_mon` prints of a cluster as XML, and says why it would move nothing.

It promises to understand the output of Pacemaker 2.0.3 and newer, and to say so where
it does not. It runs nothing, and knows nothing of events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from forewarn.agent.handlers.run_context import HandlerError
from forewarn.protocol.frozen import frozen_dataclass

NAMED_MAX = 8
"""Resources named in one sentence; of more, the number is told."""

HOSTS = frozenset({"member", "remote"})
"""Types of nodes that count as another one. A guest node goes with what hosts it."""

PROMOTED = frozenset({"Promoted", "Master"})
RUNNING = PROMOTED | {"Started", "Unpromoted", "Slave"}
"""Roles of what runs; Pacemaker 2.0 has the old words."""


@frozen_dataclass
class ClusterNode:
    """A node of the cluster."""

    name: str
    is_online: bool
    is_standby: bool
    can_host: bool
    """Whether a resource could be started there, as far as the node goes."""


@frozen_dataclass
class Resource:
    """One resource on one node."""

    id: str
    """Without the number of an instance."""
    node: str
    role: str
    is_settled: bool
    """Whether it runs, and nothing is being done with it."""
    is_cloned: bool
    will_stay: str = ""
    """Why the cluster will not move it; empty: it will."""

    @property
    def need(self) -> tuple[str, bool] | None:
        """Return what must run elsewhere when this has gone: its id, and if promoted.

        None: nothing must, since other instances of a clone are there anyway.
        """
        is_promoted = self.role in PROMOTED
        return (self.id, is_promoted) if is_promoted or not self.is_cloned else None


@frozen_dataclass
class Cluster:
    """The cluster at one moment, as this node sees it."""

    has_dc: bool
    has_quorum: bool
    """True also where the cluster does not care for quorum."""
    is_maintained: bool
    """Whether the whole cluster is in maintenance mode."""
    nodes: tuple[ClusterNode, ...]
    resources: tuple[Resource, ...]

    def node(self, name: str) -> ClusterNode:
        """Return a node; raises HandlerError."""
        for each in self.nodes:
            if each.name == name:
                return each
        known = ", ".join(node.name for node in self.nodes) or "none"
        raise HandlerError(
            f"the cluster knows no node {name}: write its name as `node`, "
            f"one of these: {known}"
        )

    def on(self, name: str, leave: Collection[str] = ()) -> tuple[Resource, ...]:
        """Return what runs on a node, without what may stay there."""
        return tuple(
            each
            for each in self.resources
            if each.node == name and each.id not in leave
        )

    def others(self, name: str) -> tuple[str, ...]:
        """Return the other nodes that could take resources."""
        return tuple(
            each.name for each in self.nodes if each.can_host and each.name != name
        )

    def lacks(self, needs: Collection[tuple[str, bool]], but: str) -> tuple[str, ...]:
        """Return the ids of what does not run as needed on nodes other than one."""
        there = {
            (each.id, promoted)
            for each in self.resources
            if each.node != but and each.is_settled
            for promoted in {False, each.role in PROMOTED}
        }
        return tuple(
            sorted({id_ for id_, promoted in needs if (id_, promoted) not in there})
        )


def trouble(cluster: Cluster) -> str:
    """Return why the cluster would move nothing at all; empty: it would."""
    if not cluster.has_dc:
        return "the cluster has no designated controller: nobody would move anything"
    if not cluster.has_quorum:
        return "the cluster has no quorum: it would start nothing elsewhere"
    if cluster.is_maintained:
        return "the cluster is in maintenance mode: it would move nothing"
    return ""


def listed(resources: Collection[Resource]) -> str:
    """Return resources for a sentence."""
    names = list(dict.fromkeys(each.id for each in resources))
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(names[:NAMED_MAX])}{more}"


def cluster_of(text: str) -> Cluster:
    """Read what `crm_mon --output-as=xml` printed; raises HandlerError."""
    reader = _Reader()
    reader.read(text)
    if "nodes" not in reader.seen:
        raise HandlerError(f"what crm_mon says is not understood: {text[:100]!r}")
    dc, options = reader.dc, reader.options
    return Cluster(
        has_dc=_is(dc, "present"),
        has_quorum=_is(dc, "with_quorum")
        or options.get("no-quorum-policy") == "ignore",
        is_maintained=_is(options, "maintenance-mode"),
        nodes=tuple(_node(each) for each in reader.nodes),
        resources=tuple(
            _resource(attributes, node, is_cloned=is_cloned)
            for attributes, node, is_cloned in reader.found
            if _is(attributes, "active")
        ),
    )


Attributes = Mapping[str, str]


class _Reader:
    """Keeps what it needs of the document, from the first element to the last."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.dc: Attributes = {}
        self.options: Attributes = {}
        self.nodes: list[Attributes] = []
        self.found: list[tuple[Attributes, str, bool]] = []
        """Each resource on each node: its attributes, the node, whether cloned."""
        self._path: list[str] = []
        self._resource: Attributes = {}

    def read(self, text: str) -> None:
        # Only whoever uses this kind needs it.
        import pyexpat  # noqa: PLC0415

        parser = pyexpat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        try:
            parser.Parse(text, True)
        except pyexpat.ExpatError as error:
            raise HandlerError(
                f"what crm_mon says is not understood: {error}"
            ) from error

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
    name = attributes.get("name", "")
    is_online, is_standby = _is(attributes, "online"), _is(attributes, "standby")
    hampered = ("standby_onfail", "maintenance", "pending", "unclean", "shutdown")
    return ClusterNode(
        name=name,
        is_online=is_online and not _is(attributes, "pending"),
        is_standby=is_standby,
        can_host=is_online
        and not is_standby
        and not any(_is(attributes, each) for each in hampered)
        and attributes.get("health", "green") != "red"
        and attributes.get("type", "member") in HOSTS,
    )


def _resource(attributes: Attributes, node: str, *, is_cloned: bool) -> Resource:
    will_stay = ""
    if not _is(attributes, "managed"):
        will_stay = "unmanaged"
    elif _is(attributes, "blocked"):
        will_stay = "blocked"
    role = attributes.get("role", "")
    return Resource(
        id=attributes.get("id", "").partition(":")[0],
        node=node,
        role=role,
        is_settled=role in RUNNING
        and not attributes.get("pending")
        and not _is(attributes, "failed"),
        is_cloned=is_cloned,
        will_stay=will_stay,
    )
