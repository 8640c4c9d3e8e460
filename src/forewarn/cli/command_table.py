"""What a command is: its name, what it takes, what it teaches, and who runs it.

Commands are values, so that the parser and the reference in `docs/reference/cli.md` come
from the same words. Nothing here imports what an extra brings: `run` names a
function that is imported only when the command is given.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forewarn.verbs import table as verbs


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One thing that a command takes: `--vm`, or a word such as `VM`."""

    name: str
    """With its hyphens; without any it is a word in its place."""
    help: str
    metavar: str = ""
    is_flag: bool = False
    """It takes no value."""
    many: bool = False
    """One or more words; none at all too, where it is optional."""
    repeated: bool = False
    """It may be given several times, one value each."""
    is_optional: bool = False
    """A word that may be left out."""
    is_needed: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None
    may_be_empty: bool = False
    """An empty value says something, or nothing that matters. Elsewhere it is refused:
    mostly it is a variable that nobody has set, and `--vm ""` is not every VM."""

    @property
    def is_word(self) -> bool:
        """Tell whether it stands in its place, without a name."""
        return not self.name.startswith("-")

    @property
    def key(self) -> str:
        """Return what its value is found under."""
        return self.name.lstrip("-").replace("-", "_").lower()

    @property
    def usage(self) -> str:
        """Return how it is written: `--vm VM`."""
        shown = "|".join(self.choices) if self.choices else self.metavar
        if self.is_word:
            return shown or self.name
        return self.name if self.is_flag else f"{self.name} {shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command."""

    path: tuple[str, ...]
    """Its words: `("fleet", "apply")`."""
    summary: str
    """A few words for the list of commands."""
    text: str
    """What it does, for its own page."""
    run: str
    """`module:function`; the function takes a `Call` and returns the status."""
    options: tuple[Option, ...] = ()
    more: str = ""
    """`module:function` that returns further options, imported when needed."""
    examples: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return its words as they are typed."""
        return " ".join(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command as it was given."""

    command: Command
    arguments: argparse.Namespace
    environ: Mapping[str, str]

    def text(self, key: str) -> str:
        """Return a value, or nothing where it was not given.

        `key` is the option's name with underscores, as in `at_once`.
        """
        assert "-" not in key, f"no option is found by {key}"
        value = getattr(self.arguments, key, None)
        return "" if value is None else str(value)

    def texts(self, key: str) -> list[str]:
        """Return the values of what may be given several times."""
        value: Any = getattr(self.arguments, key, None)
        return list(value or [])

    def flag(self, key: str) -> bool:
        """Tell whether a flag was given."""
        return bool(getattr(self.arguments, key, False))


JSON = Option(
    name="--json", is_flag=True, help="Print JSON instead of what people read."
)
URL = Option(
    name="--url",
    metavar="URL",
    may_be_empty=True,
    help="The service's operator API, also unix:/run/forewarn/api; else FOREWARN_URL, "
    "else http://127.0.0.1:8200.",
)
TOKEN = Option(
    name="--token",
    metavar="TOKEN",
    may_be_empty=True,
    help="The bearer token; better FOREWARN_TOKEN, since others see a command's words. "
    "Without any, that of FOREWARN_TOKEN_FILE, or of /etc/forewarn/token if the service "
    "is on this machine.",
)
REASON = Option(
    name="--reason",
    metavar="TEXT",
    may_be_empty=True,
    help=verbs.REASON.about,
)
CA_FILE = Option(
    name="--ca-file",
    metavar="FILE",
    may_be_empty=True,
    help="Certificates of the authorities that the service's must be from; else "
    "FOREWARN_CA_FILE, else the system's.",
)
CLIENT = (URL, TOKEN, CA_FILE, JSON)
"""What every command takes that asks the service."""
SELECTORS = (
    Option(name="--host", metavar="HOST", help="Only this host and its VMs."),
    Option(name="--scope", metavar="SCOPE", help="Only VMs of this scope."),
    Option(name="--tenant", metavar="TENANT", help="Only VMs of this tenant."),
    Option(
        name="--zone", metavar="ZONE", help="Only hosts of this zone and their VMs."
    ),
    Option(name="--tag", metavar="KEY=VALUE", help="Only VMs with this tag."),
)
"""They narrow lists, and name the targets of orders. All of them must match."""
NAMES_FILE = Option(
    name="--file",
    metavar="FILE",
    help="A file with names, one on each line; - for standard input.",
)
GLOBAL = (*CLIENT, REASON)
"""What may also stand before the command."""
