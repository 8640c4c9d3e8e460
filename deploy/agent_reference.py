"""The reference of agent.toml, written from the table of its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields

from deploy.option_tables import default_shown, in_table, meaning_of, table
from forewarn.agent.array_tables import ARRAYS, ENTRIES
from forewarn.agent.integrations import registry
from forewarn.agent.integrations.kind import HandlerKind, SinkKind
from forewarn.agent.option_table import OPTIONS, TABLES
from forewarn.agent.settings import value_of
from forewarn.agent.settings_model import HandlerSettings, NotifySettings, Settings
from forewarn.settings.forms import Option

_RULE_DEFAULTS = {"mine": "true", "start": "at once", "approver": "any"}
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "rule": {**_RULE_DEFAULTS, "takeover": "30s"},
    "window": {"zone": "UTC"},
    "blackout": {"zone": "UTC"},
}

INTRODUCTION = """\
# Settings of the agent

<!-- Written by deploy/agent_reference.py; `pytest --rewrite` renews it. -->

`forewarn agent` reads its settings from, in this order of precedence: a flag, an environment variable, the file that `--config` names, the default.
Without `--config` it reads `/etc/forewarn/agent.toml`, if that is there.

Flags and variables are for the settings that are there once.
The flag of `log.level` is `--log-level`, its variable `FOREWARN_AGENT_LOG_LEVEL`; only the endpoint's is `FOREWARN_ENDPOINT`. A flag whose value is `true` or `false` may stand alone for `true`: `--dry-run`.
A variable that begins with `FOREWARN_AGENT_` and names no setting is a mistake, as a key is that there is not.
Durations are written `500ms`, `7s`, `15m`, `24h`, `7d`, or as in ISO 8601, `PT5M`.
A list has something in it; where nothing is meant, its key is not written.

A mistake stops the start with the file, the line and the key; nothing is guessed.
`forewarn agent check` tells all mistakes without a start, and looks at what the settings name.
Settings, secrets and certificates are read from regular files, or from links to them, and the first line of a secret has at most 4,096 bytes. A FIFO, a device, a socket or a directory is refused at once: `/etc/forewarn/token cannot be read: it is a FIFO, and must be a regular file or a link to one`.

Without any rule, the documented policy holds: what has started is logged. With handlers, they prepare for everything else, one after the other, and what is prepared is approved; an event of several VMs only when `[peers]` say that all are prepared. Without handlers, a Freeze of up to 8 s and what a user ordered are approved at once, and everything else is only logged.
A Preempt or Terminate is never approved unprepared.
[Protect a service with the agent](../tutorials/protect-a-service.md) tells the whole story, [Rule recipes](../how-to/agent/rule-recipes.md) has recipes for rules, [Handlers](../how-to/agent/handlers.md) is about handlers.
"""


def markdown() -> str:
    """Return `docs/reference/agent-settings.md`."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION.rstrip("\n")
    usual = Settings()
    for name, meaning in TABLES.items():
        yield ""
        yield f"## [{name}]: {_lower(meaning)}" if name else "## Before any table"
        yield ""
        yield from table(
            in_table(OPTIONS, name),
            lambda key, option: default_shown(option, value_of(usual, key)),
        )
    for array, meaning in ARRAYS.items():
        yield ""
        yield f"## [[{array}]]: {_lower(meaning)}"
        yield ""
        yield from table(ENTRIES[array], _default_in(array), what="key")
    yield from _kinds("handlers", registry.HANDLERS, registry.handler_kind)
    yield from _kinds("receivers", registry.SINKS, registry.sink_kind)


def _kinds(
    what: str,
    words: Mapping[str, str],
    find: Callable[[str], HandlerKind | SinkKind | None],
) -> Iterator[str]:
    """Yield the keys that each integration has besides those of all."""
    yield ""
    yield f"## Kinds of {what}"
    for word, meaning in words.items():
        kind = find(word)
        assert kind is not None, word
        yield ""
        yield f"### `{word}`: {_lower(meaning)}"
        yield ""
        yield f"[Its page](../how-to/agent/integrations/{word}.md)."
        if kind.keys:
            yield ""
            yield "| key | meaning |"
            yield "|---|---|"
        for key, option in kind.keys.items():
            needed = "Required. " if key in kind.needed else ""
            yield f"| `{key}` | {needed}{meaning_of(option)} |"


def _default_in(array: str) -> Callable[[str, Option], str]:
    """Return what finds the default of a key of an array's tables."""
    kinds = {"handler": HandlerSettings, "notify": NotifySettings}
    known = {
        each.name: each.default
        for each in (fields(kinds[array]) if array in kinds else ())
        if each.default is not MISSING
    }

    def default_of(key: str, option: Option) -> str:
        if key in _DEFAULTS.get(array, {}):
            return f"`{_DEFAULTS[array][key]}`"
        return default_shown(option, known.get(key), nothing="absent")

    return default_of


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
