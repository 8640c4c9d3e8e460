"""Load the settings of a service: flags override the environment, which overrides the
file, which overrides the defaults.

All problems are reported together, each with its file and line, its variable or its
flag, so that the user can fix them in one go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from forewarn.agent.wire.urls import parse_url
from forewarn.fleet.validators import is_loopback, split_listener
from forewarn.problems import Problem
from forewarn.service import array_tables, named_tables, options
from forewarn.service.option_table import OPTIONS, SECTIONS
from forewarn.service.settings_model import (
    TARGETS_FOREWARN,
    Settings,
    impacts,
    policy,
)
from forewarn.settings.files import read_file
from forewarn.settings.forms import flag_of, shown
from forewarn.settings.tables import FileError, Format, Reader, SettingRow, slips
from forewarn.store.postgres.url import is_url as is_database

__all__ = [
    "SettingRow",
    "Settings",
    "SettingsError",
    "describe",
    "impacts",
    "load_settings",
    "policy",
    "problem",
    "value_of",
]


class SettingsError(FileError):
    """Settings that cannot be used; nothing was started."""

    advice = "Run `forewarn config show` to see each setting with its origin."


FORMAT = Format(
    options=OPTIONS,
    tables=(*SECTIONS,),
    arrays=array_tables.OPTIONS,
    variable=options.environment_name,
    flag=flag_of,
    named=named_tables.OPTIONS,
)
"""The allowed content of forewarn.toml."""


def load_settings(
    *, file: Path | None, environ: Mapping[str, str], flags: Mapping[str, str]
) -> Settings:
    """Return the effective settings; `flags` have full names, such as `timing.speed`.

    Raises SettingsError with all problems.
    """
    reader = Reader(
        FORMAT,
        file="" if file is None else str(file),
        read=lambda name, limit: read_file(Path(name), bytes_max=limit),
    )
    if file is not None:
        reader.read_file()
        for array, entries in reader.arrays.items():
            for name, message in array_tables.wrong(array, entries):
                reader.blame(name, message)
            # A key that is not valid is not missing.
            if not reader.problems:
                for name, message in array_tables.incomplete(array, entries):
                    reader.blame(name, message)
        for group, tables in reader.named.items():
            for name, message in named_tables.wrong(group, tables):
                reader.blame(name, message)
    reader.read_environment(environ)
    reader.read_flags(flags)
    if reader.problems:
        raise SettingsError(reader.problems)
    variables = [options.environment_name(name) for name in OPTIONS]
    loaded = _settings(reader, tuple(slips(environ, "FOREWARN_", variables)))
    _check_together(loaded)
    return loaded


def describe(settings: Settings) -> tuple[SettingRow, ...]:
    """Return each setting with its value and origin, in the order of the file."""
    return (
        *FORMAT.rows(partial(value_of, settings), settings.origins),
        *_entry_rows(settings),
    )


def _entry_rows(settings: Settings) -> Iterator[SettingRow]:
    """Yield the keys of the tables in arrays and groups, each table by its name."""
    for array, kind in array_tables.ARRAYS.items():
        for number, entry in enumerate(getattr(settings, array), start=1):
            for key in (field.name for field in fields(kind)):
                option = array_tables.OPTIONS[array][key]
                yield SettingRow(
                    key=f"{array}.{entry.name}.{key}",
                    value=shown(option, getattr(entry, key)),
                    origin=settings.origins.get(f"{array}.{number}.{key}", "default"),
                )
    for group, keys in named_tables.OPTIONS.items():
        for table in getattr(settings, group):
            for key, option in keys.items():
                name = f"{group}.{table.name}.{key}"
                yield SettingRow(
                    key=name,
                    value=shown(option, getattr(table, key)),
                    origin=settings.origins.get(name, "default"),
                )


def value_of(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its full name."""
    section, _, key = name.rpartition(".")
    return getattr(getattr(settings, section.rpartition(".")[2]), key)


def problem(settings: Settings, name: str, message: str) -> SettingsError:
    """Return the error for a value whose problem shows only when it is used."""
    origin = settings.origins.get(name, "default")
    # The origin already names the setting if it is a flag.
    key = "" if origin == f"flag {flag_of(name)}" else array_tables.plain(name)
    return SettingsError((Problem(file=origin, line=0, key=key, message=message),))


def _settings(reader: Reader, warnings: tuple[str, ...]) -> Settings:
    groups = {
        section.rpartition(".")[2]: group(**reader.table(section))
        for section, group in SECTIONS.items()
    }
    arrays: dict[str, Any] = {
        array: tuple(kind(**entry) for entry in reader.arrays[array])
        for array, kind in array_tables.ARRAYS.items()
    }
    arrays |= {
        group: tuple(
            kind(name=name, **table) for name, table in reader.named[group].items()
        )
        for group, kind in named_tables.GROUPS.items()
    }
    return Settings(**groups, **arrays, origins=reader.origins, warnings=warnings)


def _check_together(settings: Settings) -> None:
    _check_targets(settings)
    _check_cluster(settings)
    if settings.inventory.program and settings.inventory.libvirt:
        raise problem(
            settings,
            "inventory.libvirt",
            "cannot be used with inventory.program: there is one inventory",
        )
    admin = settings.admin
    for named, other in (("certificate", "key"), ("key", "certificate")):
        if getattr(admin, f"tls_{named}") and not getattr(admin, f"tls_{other}"):
            raise problem(
                settings, f"admin.tls_{named}", f"needs admin.tls_{other} too"
            )
    if options.socket_path(admin.listen):
        if admin.tls_certificate:
            raise problem(
                settings, "admin.tls_certificate", "cannot be used with a Unix socket"
            )
        return
    address = split_listener(admin.listen)
    assert address is not None, admin.listen
    if not is_loopback(address[0]) and not settings.admin.token_file:
        raise problem(
            settings,
            "admin.listen",
            f"{settings.admin.listen} is reachable from other machines, so "
            "admin.token_file must name a file with tokens",
        )


def _check_cluster(settings: Settings) -> None:
    """Refuse the URLs of a replica that other replicas cannot use."""
    cluster = settings.cluster
    for key in ("url", "metadata_url"):
        text = getattr(cluster, key)
        try:
            url = parse_url(text) if text else None
        except ValueError as error:
            raise problem(settings, f"cluster.{key}", str(error)) from error
        if url is not None and url.target.strip("/"):
            raise problem(
                settings, f"cluster.{key}", "must end after the host and port"
            )
    if is_database(settings.store.url):
        return
    for key in ("name", "url", "metadata_url", "ca_file"):
        if getattr(cluster, key):
            raise problem(
                settings,
                f"cluster.{key}",
                "needs a store.url of PostgreSQL, which all replicas share",
            )


def _check_targets(settings: Settings) -> None:
    """Refuse settings that mean nothing if the driver chooses where VMs move to."""
    if settings.driver.targets == TARGETS_FOREWARN:
        return
    name = "driver.targets"
    if settings.policy.reserve.value:
        raise problem(
            settings, name, "cannot be used with policy.reserve, which the driver keeps"
        )
    if settings.driver.kind in {"qemu", "libvirt"}:
        raise problem(
            settings,
            name,
            f"must be forewarn with the {settings.driver.kind} driver, which chooses no "
            "host",
        )
    if settings.driver.kind == "simulated" and not settings.simulated.target_hosts:
        raise problem(
            settings,
            name,
            "needs driver.simulated.target_hosts with the simulated driver",
        )
    for key in ("live_migrate", "redeploy"):
        if any("{to_host}" in word for word in getattr(settings.command, key)):
            raise problem(
                settings,
                f"driver.command.{key}",
                "has {to_host}, which is empty if driver.targets is driver",
            )
