"""The settings of a replica."""

from collections.abc import Mapping

from forewarn.instants import MINUTE, SECOND
from forewarn.service.options import Forms
from forewarn.settings.forms import Option

LEASE_MIN = SECOND * 3 // 10
"""Minimum lease: it is renewed three times, and a database on a busy machine can take a
tenth of a second to answer."""

LEASE_MAX = MINUTE
"""Maximum lease: approvals wait so long after the leader was killed."""

CLUSTER_OPTIONS: Mapping[str, Option] = {
    "cluster.name": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="Name of this replica, which people see. Empty: the name of the machine.",
    ),
    "cluster.lease": Option(
        form=Forms.DURATION,
        least=LEASE_MIN,
        most=LEASE_MAX,
        text="Time without a renewal after which another replica takes over. Give "
        "all replicas the same value; while they differ, each counts the leader's or its "
        "own, whichever is longer. `timing.speed` does not divide it.",
    ),
    "cluster.url": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="URL at which people and programs reach the operator API of this replica, such "
        "as `https://r1.example.com:8200`. The other replicas show it when they are asked "
        "for something that only the leader does. Empty: the name of the machine with the "
        "port of `admin.listen`.",
    ),
    "cluster.metadata_url": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="URL at which the other replicas reach the metadata endpoint of this one, such "
        "as `http://r1.example.com:8080`. They pass approvals on to it while this replica "
        "leads. With `https`, a TLS proxy on this machine must stand before the endpoint, "
        "which has no TLS of its own. Empty: the name of the machine with the port of "
        "`metadata.listen`.",
    ),
    "cluster.ca_file": Option(
        form=Forms.LINE,
        may_be_empty=True,
        text="File with the certificates, in PEM, with which the certificate of the "
        "replica that leads is checked if its `metadata_url` is `https`. Empty: those of "
        "the system.",
    ),
}
"""The keys of `[cluster]` by their full names, in the order of the file."""
