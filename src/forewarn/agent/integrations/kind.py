"""What an integration tells of itself: its keys, and how it is made of them.

Each module of an integration has one of these, called `KIND`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from forewarn.agent.handlers.port import Ground, Worker
from forewarn.agent.settings_model import (
    HANDLER_TIMEOUT,
    HandlerSettings,
    NotifySettings,
)
from forewarn.agent.sinks.port import Sink
from forewarn.clock import Clock
from forewarn.instants import Micros, format_duration
from forewarn.protocol.frozen import frozen_dataclass

if TYPE_CHECKING:
    # Whoever uses no integration lets go of it once the settings are read.
    from forewarn.settings.forms import Option

Entry = Mapping[str, Any]
"""The sound keys of one table of the settings: its own and those of all kinds."""

Faults = Iterator[tuple[str, str]]
"""What is wrong: a key, or an empty text for all of it, and a sentence."""


def no_faults(_entry: Entry) -> Faults:
    """Find nothing wrong."""
    return iter(())


def too_long(entry: Entry, key: str, usual: Micros) -> Faults:
    """Find a duration that leaves nothing of the handler's own `timeout`."""
    wanted, timeout = entry.get(key, usual), entry.get("timeout", HANDLER_TIMEOUT)
    if wanted >= timeout:
        told = f"{key} ({format_duration(wanted)})"
        yield "", f"{told} must be shorter than timeout ({format_duration(timeout)})"


@frozen_dataclass
class HandlerKind:
    """A kind of handler."""

    make: Callable[[HandlerSettings, Ground], Worker]
    """Its own keys are in `settings.more`, those that were not written are absent."""
    keys: Mapping[str, Option] = field(default_factory=dict[str, Any])
    """Its own; their texts are the reference, with the default of each in them."""
    needed: tuple[str, ...] = ()
    """Keys that must be there."""
    faults: Callable[[Entry], Faults] = no_faults
    """What must hold between keys."""
    recovers: bool = True
    """Whether it has anything to do after the event."""
    marks_there: bool = False
    """Whether what it did is marked where it did it, away from this VM's disk, and is
    found there after a lost journal: `always` is on then, unless the settings say no."""


@frozen_dataclass
class SinkKind:
    """A kind of receiver."""

    make: Callable[[NotifySettings, Clock], Sink]
    name: Callable[[NotifySettings], str]
    """What it is called in logs and in the queue: never with a secret in it."""
    keys: Mapping[str, Option] = field(default_factory=dict[str, Any])
    needed: tuple[str, ...] = ()
    faults: Callable[[Entry], Faults] = no_faults
