"""The kinds of objects that `explain` can be asked for, if several have the same name."""

from typing import Literal, TypeAlias, get_args

ExplainedKind: TypeAlias = Literal[
    "host",
    "vm",
    "campaign",
    "scope",
    "tenant",
    "blackout",
    "brake",
    "check",
    "webhook",
    "token",
    "replica",
    "place",
]

EXPLAINED_KINDS: tuple[ExplainedKind, ...] = get_args(ExplainedKind)
