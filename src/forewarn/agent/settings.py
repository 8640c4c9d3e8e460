"""Read an agent's settings from flags, environment variables, a file and defaults.

All errors are reported together, each with its file and line, its variable or its flag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from forewarn.agent import checks, option_table, options
from forewarn.agent.array_tables import ENTRIES, has_kind, keys_of, kind_of
from forewarn.agent.core.policy import GoneAfter, Standby
from forewarn.agent.integrations import registry
from forewarn.agent.option_table import OPTIONS, TABLES
from forewarn.agent.settings_model import (
    GateSettings,
    HandlerSettings,
    HistorySettings,
    LockSettings,
    LogSettings,
    NotifySettings,
    PeerSettings,
    Settings,
    WatchSettings,
)
from forewarn.problems import Problem, did_you_mean, quoted
from forewarn.settings import files
from forewarn.settings.forms import Option, flag_of
from forewarn.settings.tables import FileError, Format, Reader, SettingRow

FORMAT = Format(
    options=OPTIONS,
    tables=[table for table in TABLES if table],
    arrays=ENTRIES,
    named={},
    variable=options.environment_name,
    flag=flag_of,
)
"""The settings that agent.toml may contain."""

OWN_VARIABLES = "FOREWARN_AGENT_"
"""Prefix of the agent's variables. Other variables of forewarn belong to all programs
or to the service, and are not checked."""

_OF_KUBERNETES = re.compile(
    r"FOREWARN_AGENT_(?:.+_)?(?:SERVICE_(?:HOST|PORT)|PORT)(?:_.*)?", re.ASCII
)
"""Variables that Kubernetes sets in every pod for a Service `forewarn-agent`."""


class AgentSettingsError(FileError):
    """The settings cannot be used. Nothing was started."""

    advice = "See the page 'Settings of the agent'."


def load_settings(
    *, file: str = "", environ: Mapping[str, str], flags: Mapping[str, str]
) -> Settings:
    """Return the settings; `flags` are by the settings' full names, such as
    `log.level`.

    An empty `file` means none. Raises AgentSettingsError with all errors.
    """
    reader = _Reader(FORMAT, file=file, read=files.begin_of)
    if file:
        reader.read_file()
    reader.read_environment(environ)
    reader.read_flags(flags)
    reader.refuse_unknown_variables(environ)
    settings = reader.settings()
    if reader.problems:
        raise AgentSettingsError(reader.problems)
    return settings


def describe(settings: Settings) -> tuple[SettingRow, ...]:
    """Return all settings outside of arrays, each with its value and its origin."""
    return (*FORMAT.rows(partial(value_of, settings), settings.origins),)


def value_of(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its full name."""
    if name == "peers.url":
        return settings.peers.url or settings.peers.urls
    table, _, key = name.rpartition(".")
    return getattr(getattr(settings, table or "watch"), key)


class _Reader(Reader):
    """The reader of the agent's settings."""

    def entry_keys(
        self, array: str, entry: Mapping[str, object]
    ) -> Mapping[str, Option] | None:
        word = entry.get("kind")
        if not has_kind(array, word):
            return None
        option_table, kind = keys_of(array, word), kind_of(array, word)
        needed = () if kind is None else kind.needed
        return {
            **option_table,
            **{key: replace(option_table[key], is_needed=True) for key in needed},
        }

    def settings(self) -> Settings:
        """Return the settings, after checking all of them together."""
        peers = self.table("peers")
        url = peers.pop("url", "")
        peers["urls" if isinstance(url, tuple) else "url"] = url
        settings = Settings(
            watch=WatchSettings(**self.table("")),
            log=LogSettings(**self.table("log")),
            history=HistorySettings(**self.table("history")),
            peers=PeerSettings(**peers),
            standby=Standby(**self.table("standby")),
            gone_after=GoneAfter(**self.table("gone_after")),
            lock=LockSettings(**self.table("lock")),
            gate=GateSettings(**self.table("gate")),
            handlers=tuple(
                HandlerSettings(**{**_abilities(entry), **_parted("handler", entry)})
                for entry in self.arrays["handler"]
                if {"name", "kind"} <= entry.keys()
            ),
            notify=tuple(
                NotifySettings(**_parted("notify", entry))
                for entry in self.arrays["notify"]
                if "kind" in entry
            ),
            origins={
                name: origin for name, origin in self.origins.items() if name in OPTIONS
            },
            file=self.file,
            is_blank=self.is_blank,
        )
        judge = checks.Judge(self.arrays, settings, self.partial)
        policy = judge.policy()
        for name, message in judge.faults:
            self.blame(name, message)
        return replace(settings, policy=policy, warnings=tuple(judge.warnings))

    def refuse_unknown_variables(self, environ: Mapping[str, str]) -> None:
        """Report variables with the agent's prefix that name no setting.

        A typing error in the variable for a dry run must not start an agent that acts.
        """
        variables = [options.environment_name(name) for name in OPTIONS]
        for variable in sorted(environ):
            if variable in variables or _OF_KUBERNETES.fullmatch(variable):
                continue
            if variable.startswith(OWN_VARIABLES):
                near = did_you_mean(variable, variables)
                message = f"there is no such setting{near}"
                self.report(f"environment {quoted(variable)}", 0, "", message)


def _parted(array: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table, with those of its kind separated."""
    known, common = keys_of(array, entry["kind"]), ENTRIES[array]
    own = {key for key in entry if known[key] is not common.get(key)}
    return {
        **{key: value for key, value in entry.items() if key not in own},
        "more": {key: value for key, value in entry.items() if key in own},
    }


def _abilities(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a handler does by its kind, or else by its actions."""
    kind = registry.handler_kind(entry["kind"])
    return {
        "prepares": kind is not None or "prepare" in entry,
        "recovers": "recover" in entry if kind is None else kind.recovers,
        "always": kind is not None and kind.marks_there,
    }


def problem(settings: Settings, name: str, message: str) -> AgentSettingsError:
    """Return the error for a value that turns out to be wrong when it is used."""
    assert name in option_table.OPTIONS, name
    return AgentSettingsError(
        [
            Problem(
                file=settings.origins.get(name, "default"),
                line=0,
                key=name,
                message=message,
            )
        ]
    )
