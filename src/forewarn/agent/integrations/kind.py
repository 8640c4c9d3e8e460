"""The description of an integration: its keys, their checks, and its constructor.

Each module of an integration has one of these, called `KIND`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from forewarn.agent.core.policy import HANDLER_TIMEOUT
from forewarn.agent.handlers.port import Ground, Worker
from forewarn.agent.settings_model import HandlerSettings, NotifySettings
from forewarn.agent.sinks.port import Sink
from forewarn.clock import Clock
from forewarn.instants import Micros, format_duration
from forewarn.protocol.frozen import frozen_dataclass

if TYPE_CHECKING:
    # Unloaded after the settings are read if no integration is used.
    from forewarn.settings.forms import Option

Entry = Mapping[str, Any]
"""The valid keys of one table of the settings: those of its kind and of all kinds."""

Faults = Iterator[tuple[str, str]]
"""Problems as pairs: a key (or an empty text for the whole table) and a sentence."""


def too_long(entry: Entry, key: str, usual: Micros) -> Faults:
    """Find a duration that is not shorter than the handler's `timeout`."""
    wanted, timeout = entry.get(key, usual), entry.get("timeout", HANDLER_TIMEOUT)
    if wanted >= timeout:
        limit = f"{key} ({format_duration(wanted)})"
        yield "", f"{limit} must be shorter than timeout ({format_duration(timeout)})"


@frozen_dataclass
class HandlerKind:
    """A kind of handler."""

    make: Callable[[HandlerSettings, Ground], Worker]
    """The keys of the kind are in `settings.more`; keys that are not set are absent."""
    keys: Mapping[str, Option] = field(default_factory=dict[str, Any])
    """The keys of the kind; their texts are the reference and state the defaults."""
    needed: tuple[str, ...] = ()
    """Required keys."""
    faults: Callable[[Entry], Faults] = lambda _entry: iter(())
    """Check conditions between keys."""
    recovers: bool = True
    """Whether the handler does anything after the event."""
    marks_there: bool = False
    """Whether it marks its changes on the target and not on this VM's disk, so that they
    are found after a lost journal. Then `always` is on, unless the settings disable it."""


@frozen_dataclass
class SinkKind:
    """A kind of receiver."""

    make: Callable[[NotifySettings, Clock], Sink]
    name: Callable[[NotifySettings], str]
    """Return the receiver's name for logs and the queue, which must not contain a
    secret."""
    keys: Mapping[str, Option] = field(default_factory=dict[str, Any])
    needed: tuple[str, ...] = ()
    faults: Callable[[Entry], Faults] = lambda _entry: iter(())
