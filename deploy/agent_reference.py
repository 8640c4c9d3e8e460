"""Write the reference page of agent.toml from the table of its settings."""

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

`forewarn agent` reads its settings from these sources, in order of precedence: a flag, an environment variable, the file that `--config` names, the default.
Without `--config` it reads `/etc/forewarn/agent.toml`, if that file exists.

Settings outside arrays have flags and variables.
For example, `log.level` has the flag `--log-level` and the variable `FOREWARN_AGENT_LOG_LEVEL`. The variable of the endpoint is `FOREWARN_ENDPOINT`. A flag for `true` or `false` needs no value for `true`: `--dry-run`.
A variable that starts with `FOREWARN_AGENT_` but names no setting is an error, like an unknown key.
Write durations as `500ms`, `7s`, `15m`, `24h` or `7d`, or in ISO 8601, such as `PT5M`.
A list must not be empty; omit its key instead.

If a setting is invalid, the agent does not start, and reports the file, the line and the key. It never guesses.
`forewarn agent check` reports all problems without a start, and checks the files and programs that the settings name.
Settings, secrets and certificates must be regular files or links to them, and the first line of a secret has at most 4,096 bytes. A FIFO, a device, a socket or a directory is refused at once: `/etc/forewarn/token cannot be read: it is a FIFO, and must be a regular file or a link to one`.

Without rules, the default policy applies. Events that have already started are only logged. With handlers, all handlers prepare for all other events, one after the other, and the agent approves prepared events. It approves an event of several VMs only if `[peers]` say that all are prepared. Without handlers, the agent approves a Freeze of up to 8 s and user requests at once, and only logs everything else.
It never approves a Preempt or Terminate without preparation.
See [Protect a service with the agent](../tutorials/protect-a-service.md) for a tutorial, [Rule recipes](../how-to/agent/rule-recipes.md) for rules, and [Handlers](../how-to/agent/handlers.md) for handlers.
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
    """Yield the settings of each integration."""
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
    """Return a function for the defaults of the settings in an array."""
    kinds = {"handler": HandlerSettings, "notify": NotifySettings}
    known = {
        field.name: field.default
        for field in (fields(kinds[array]) if array in kinds else ())
        if field.default is not MISSING
    }

    def default_of(key: str, option: Option) -> str:
        if key in _DEFAULTS.get(array, {}):
            return f"`{_DEFAULTS[array][key]}`"
        return default_shown(option, known.get(key), nothing="absent")

    return default_of


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
