"""Commands as values: name, options, help texts and function.

The parser and the reference in `docs/reference/cli.md` are made from them. This module
imports no package of an extra: `run` names a function that is imported only when the
command is used.
"""

import argparse
import enum
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from forewarn.verbs import arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option or argument of a command: `--vm`, or a word such as `VM`."""

    name: str
    """Name of the option with its hyphens; a positional argument has none."""
    help: str
    metavar: str = ""
    is_flag: bool = False
    """Whether the option takes no value."""
    many: bool = False
    """Whether the option takes one or more values; an optional argument can have
    none."""
    repeated: bool = False
    """Whether the option can be given several times, with one value each."""
    is_optional: bool = False
    """Whether the argument can be left out."""
    is_needed: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None
    may_be_empty: bool = False
    """Whether an empty value is allowed, because it is meaningful or harmless. Other
    options refuse it: it usually comes from an unset variable, and `--vm ""` does not
    mean every VM."""

    @property
    def is_word(self) -> bool:
        """Return whether the option is a positional argument."""
        return not self.name.startswith("-")

    @property
    def key(self) -> str:
        """Return the key of the option's value."""
        return self.name.lstrip("-").replace("-", "_").lower()

    @property
    def usage(self) -> str:
        """Return the usage of the option: `--vm VM`."""
        shown = "|".join(self.choices) if self.choices else self.metavar
        if self.is_word:
            return shown or self.name
        return self.name if self.is_flag else f"{self.name} {shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command."""

    path: tuple[str, ...]
    """Words of the command: `("fleet", "apply")`."""
    summary: str
    """Line of the command in lists of commands."""
    text: str
    """Description of the command, for its help page."""
    run: str
    """`module:function`; the function takes a `Call` and returns the status."""
    options: tuple[Option, ...] = ()
    more: str = ""
    """`module:function` that returns further options, imported when needed."""
    examples: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the words of the command as they are typed."""
        return " ".join(self.path)

    @property
    def verb(self) -> str:
        """Return the name in the table of verbs, for a command that is one of them."""
        return "-".join(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command with its arguments and environment."""

    command: Command
    arguments: argparse.Namespace
    environ: Mapping[str, str]
    exits: ExitStack = field(default_factory=ExitStack)
    """Everything that is closed when the command ends."""

    def text(self, key: str) -> str:
        """Return a value, or an empty text if it was not given.

        `key` is the option's name with underscores, as in `at_once`.
        """
        assert "-" not in key, f"{key} is not the key of an option"
        value = getattr(self.arguments, key, None)
        return "" if value is None else str(value)

    def texts(self, key: str) -> list[str]:
        """Return the values of an option that can be given several times."""
        value: Any = getattr(self.arguments, key, None)
        return list(value or [])

    def flag(self, key: str) -> bool:
        """Return whether a flag was given."""
        return bool(getattr(self.arguments, key, False))

    def given(self, *keys: str) -> dict[str, str]:
        """Return the values that were given and are not empty."""
        return {key: text for key in keys if (text := self.text(key))}

    def flags(self, *keys: str) -> dict[str, bool]:
        """Return the flags that were given."""
        return {key: True for key in keys if self.flag(key)}


JSON = Option(name="--json", is_flag=True, help="Print JSON.")
URL = Option(
    name="--url",
    metavar="URL",
    may_be_empty=True,
    help="URL of the operator API, such as unix:/run/forewarn/api, or those of all "
    "replicas with spaces between. Default: FOREWARN_URL, else http://127.0.0.1:8200.",
)
TOKEN = Option(
    name="--token",
    metavar="TOKEN",
    may_be_empty=True,
    help="Bearer token. Prefer FOREWARN_TOKEN: other users can see command-line arguments. "
    "Default: the file in FOREWARN_TOKEN_FILE, or /etc/forewarn/token if the service "
    "is on this machine.",
)
REASON = Option(
    name="--reason",
    metavar="TEXT",
    may_be_empty=True,
    help=arguments.REASON.about,
)
DRY_RUN = Option(
    name="--dry-run",
    is_flag=True,
    help="Change nothing, and print the effect that the request would have.",
)
CA_FILE = Option(
    name="--ca-file",
    metavar="FILE",
    may_be_empty=True,
    help="Certificates of the authorities to trust. Default: "
    "FOREWARN_CA_FILE, or those of the system.",
)
CLIENT = (URL, TOKEN, CA_FILE, JSON)
"""Options of each command that uses the service."""
SELECTORS = (
    Option(name="--host", metavar="HOST", help="Only this host and its VMs."),
    Option(name="--scope", metavar="SCOPE", help="Only VMs of this scope."),
    Option(name="--tenant", metavar="TENANT", help="Only VMs of this tenant."),
    Option(
        name="--zone", metavar="ZONE", help="Only hosts of this zone and their VMs."
    ),
    Option(
        name="--cluster",
        metavar="CLUSTER",
        help="Only hosts of this cluster and their VMs.",
    ),
    Option(
        name="--rack", metavar="RACK", help="Only hosts of this rack and their VMs."
    ),
    Option(
        name="--pool", metavar="POOL", help="Only hosts of this pool and their VMs."
    ),
    Option(
        name="--label",
        metavar="KEY=VALUE",
        help="Only hosts with this label and their VMs.",
    ),
    Option(name="--tag", metavar="KEY=VALUE", help="Only VMs with this tag."),
)
"""Options that narrow lists and select targets of requests. All must match."""
WATCH = Option(
    name="--watch",
    is_flag=True,
    help="Continue until Ctrl-C. A terminal shows each row with the time of its last "
    "change. A pipe gets a line for each change, or a JSON document with --json. If "
    "the service stops, the command waits until it runs again.",
)
NAMES_FILE = Option(
    name="--file",
    metavar="FILE",
    help="A file with names, one on each line; - for standard input.",
)
GLOBAL = (*CLIENT, REASON)
"""Options that can also precede the command."""


class Exit(enum.IntEnum):
    """The exit status of a command."""

    DONE = 0
    FAILED = 1
    """The work failed."""
    USAGE = 2
    """Wrong usage, settings or file."""
    UNREACHABLE = 3
    """The service cannot be reached, or is not available."""
    REFUSED = 4
    """The service refused."""


class CommandError(Exception):
    """A command cannot be executed; the message has the reason."""

    def __init__(
        self,
        status: Exit,
        message: str,
        *,
        hint: str = "",
        lines: Sequence[str] = (),
    ) -> None:
        """Store the texts; `lines` are printed before the message."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
        self.lines = tuple(lines)
