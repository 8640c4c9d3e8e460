"""Read the settings of a relay: flags override the environment, which overrides the
file, which overrides the defaults. All problems are reported together."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from forewarn.agent.wire.urls import Url
from forewarn.instants import SECOND, Micros
from forewarn.relay.options import OPTIONS
from forewarn.settings.files import begin_of
from forewarn.settings.forms import flag_of
from forewarn.settings.tables import FileError, Format, Reader, slips

VARIABLES = "FOREWARN_RELAY_"
"""The beginning of each environment variable of a relay."""


class RelaySettingsError(FileError):
    """The settings cannot be used; nothing was started."""

    advice = "Run `forewarn relay --help` to see each setting with its flag."


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a relay."""

    url: tuple[Url, ...]
    token_file: str = "relay-token"  # noqa: S105 -- a file name
    ca_file: str = ""
    listen: str = "0.0.0.0:8080"
    state: str = "relay.json"
    stale_max: Micros | None = None
    rate_limit: float = 50.0
    push: bool = False
    push_longest_wait: Micros = 60 * SECOND
    log_format: str = "auto"
    log_level: str = "info"
    warnings: tuple[str, ...] = ()
    """Messages about variables that look like typos of settings."""


def environment_name(name: str) -> str:
    """Return the environment variable for a setting."""
    return f"{VARIABLES}{name.upper().replace('.', '_')}"


FORMAT = Format(
    options=OPTIONS,
    tables=("log",),
    arrays={},
    variable=environment_name,
    flag=flag_of,
    named={},
)
"""The allowed content of relay.toml."""


def load_settings(
    *, file: str, environ: Mapping[str, str], flags: Mapping[str, str]
) -> Settings:
    """Return the settings; an empty `file` means none. Raises RelaySettingsError."""
    reader = Reader(FORMAT, file=file, read=begin_of)
    if file:
        reader.read_file()
    reader.read_environment(environ)
    reader.read_flags(flags)
    values = reader.table("")
    values |= {f"log_{key}": value for key, value in reader.table("log").items()}
    if "url" not in values and not reader.problems:
        reader.blame("url", 'is missing: write url = "https://HOST:8200"')
    if reader.problems:
        raise RelaySettingsError(reader.problems)
    variables = [environment_name(name) for name in OPTIONS]
    return Settings(**values, warnings=tuple(slips(environ, VARIABLES, variables)))


def default_of(name: str) -> object:
    """Return the default of a setting by its full name; None: there is none."""
    usual = {field.name: field.default for field in fields(Settings)}
    return None if name == "url" else usual[name.replace(".", "_")]
