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

    # Not `config show`, which reads the same settings and is refused too.
    advice = "See the page 'Settings of the service', or `forewarn serve --help`."


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
    clashes = tuple(
        _problem(loaded, name, message) for name, message in _clashes(loaded)
    )
    if clashes:
        raise SettingsError(clashes)
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
    return SettingsError((_problem(settings, name, message),))


def _problem(settings: Settings, name: str, message: str) -> Problem:
    """Return a problem of a setting, with the origin of its value."""
    origin = settings.origins.get(name, "default")
    # The origin already names the setting if it is a flag.
    key = "" if origin == f"flag {flag_of(name)}" else array_tables.plain(name)
    return Problem(file=origin, line=0, key=key, message=message)


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


def _clashes(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the settings that do not fit together, each with a message.

    Each value alone is valid.
    """
    yield from _targets(settings)
    yield from _cluster(settings)
    if settings.inventory.program and settings.inventory.libvirt:
        message = "cannot be used with inventory.program: there is one inventory"
        yield "inventory.libvirt", message
    yield from _admin(settings)


def _admin(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the settings of a listener that is not protected, or only in part."""
    admin = settings.admin
    for named, other in (("certificate", "key"), ("key", "certificate")):
        if getattr(admin, f"tls_{named}") and not getattr(admin, f"tls_{other}"):
            yield f"admin.tls_{named}", f"needs admin.tls_{other} too"
    if options.socket_path(admin.listen):
        if admin.tls_certificate:
            yield "admin.tls_certificate", "cannot be used with a Unix socket"
        return
    address = split_listener(admin.listen)
    assert address is not None, admin.listen
    if not is_loopback(address[0]) and not admin.token_file:
        message = (
            f"{admin.listen} is reachable from other machines, so admin.token_file must "
            "name a file with tokens"
        )
        yield "admin.listen", message


def _cluster(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the URLs of a replica that other replicas cannot use."""
    cluster = settings.cluster
    for key in ("url", "metadata_url"):
        text = getattr(cluster, key)
        try:
            url = parse_url(text) if text else None
        except ValueError as error:
            yield f"cluster.{key}", str(error)
            continue
        if url is not None and url.target.strip("/"):
            yield f"cluster.{key}", "must end after the host and port"
    if is_database(settings.store.url):
        return
    for key in ("name", "url", "metadata_url", "ca_file"):
        if getattr(cluster, key):
            message = "needs a store.url of PostgreSQL, which all replicas share"
            yield f"cluster.{key}", message


def _targets(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield settings that mean nothing if the driver chooses where VMs move to."""
    if settings.driver.targets == TARGETS_FOREWARN:
        return
    name = "driver.targets"
    if settings.policy.reserve.value:
        yield name, "cannot be used with policy.reserve, which the driver keeps"
    if settings.driver.kind in {"qemu", "libvirt"}:
        kind = settings.driver.kind
        yield name, f"must be forewarn with the {kind} driver, which chooses no host"
    if settings.driver.kind == "simulated" and not settings.simulated.target_hosts:
        yield name, "needs driver.simulated.target_hosts with the simulated driver"
    for key in ("live_migrate", "redeploy"):
        if any("{to_host}" in word for word in getattr(settings.command, key)):
            message = "has {to_host}, which is empty if driver.targets is driver"
            yield f"driver.command.{key}", message
