"""Generate the manual pages: `python -m deploy.manual`.

They come from the table of commands and from the reference of the settings. A test
compares `deploy/man` with the result; `pytest --rewrite` renews it.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from deploy import agent_reference, roff
from deploy.cli_reference import ENDINGS, usage
from forewarn import __version__
from forewarn.cli.command_table import GLOBAL, Command, Option
from forewarn.cli.commands import COMMANDS
from forewarn.cli.parser import ABOUT

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
DIRECTORY = ROOT / "deploy" / "man"

_SERVICE_SETTINGS = ("forewarn.toml", "timing.speed", "--timing-speed")
_AGENT_SETTINGS = ("forewarn-agent.toml", "log.level", "--log-level")
"""The page of the settings, and an example of a setting with its flag."""

ENVIRONMENT = {
    "FOREWARN_URL": "The URL of the operator API; `--url` overrides it.",
    "FOREWARN_TOKEN": "The bearer token; `--token` overrides it, but other users can see it.",
    "NO_COLOR": "If it is set, the output has no colors. Without a terminal it has none either.",
}
FILES = {
    "forewarn.toml": "The settings, if a command has no `--config`.",
    "fleet.toml": "The fleet, if `fleet apply` and similar commands have no file.",
    "/etc/forewarn/forewarn.toml": "The settings of a service under systemd.",
}
AGENT_FILES = {
    "/etc/forewarn/agent.toml": "The settings, if there is no `--config`.",
    "/var/lib/forewarn/agent.db": "The journal of preparations, approvals and "
    "pending recoveries, unless the settings name another file. The output of handlers is "
    "in the directory next to it, with the same name and `.runs`.",
}
AGENT_ENVIRONMENT = {
    "FOREWARN_ENDPOINT": "The URL of the endpoint; `--endpoint` overrides it.",
    "FOREWARN_AGENT_*": "Every other setting outside arrays, such as "
    "`FOREWARN_AGENT_LOG_LEVEL` for `log.level`.",
    "NOTIFY_SOCKET": "The socket for notifications to systemd.",
}


def pages() -> Mapping[str, str]:
    """Return every page by its file's name."""
    made = {
        "forewarn.1": _forewarn(),
        "forewarn-agent.1": _agent(),
        "forewarn.toml.5": _settings(
            "forewarn.toml",
            "settings of forewarn's service",
            (DOCS / "reference" / "settings.md").read_text(encoding="utf-8"),
        ),
        "forewarn-agent.toml.5": _settings(
            "forewarn-agent.toml",
            "settings of forewarn's agent, in /etc/forewarn/agent.toml",
            agent_reference.markdown(),
        ),
    }
    return {
        name: "".join(f"{line}\n" for line in lines) for name, lines in made.items()
    }


def write() -> None:
    """Write the pages, and delete obsolete ones."""
    wanted = pages()
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for file in DIRECTORY.iterdir():
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


def _forewarn() -> Iterator[str]:
    yield roff.heading("forewarn", 1, version=__version__)
    yield ".SH NAME"
    yield "forewarn \\- notice of maintenance for virtual machines"
    yield ".SH SYNOPSIS"
    yield f"{roff.bold('forewarn')} [\\fIOPTION\\fR...] \\fICOMMAND\\fR [...]"
    yield ".SH DESCRIPTION"
    yield roff.line(roff.inline(ABOUT))
    yield from roff.paragraph("`forewarn COMMAND --help` says more about a command.")
    yield ".SH COMMANDS"
    for command in COMMANDS:
        if command.path[0] != "agent":
            yield from _command("forewarn", command.name, command)
    yield ".SS forewarn agent"
    yield "Watch for maintenance in a VM: its page is"
    yield ".BR forewarn\\-agent (1)."
    yield ".SH OPTIONS"
    yield "These may stand before a command as well as after it, where it takes them."
    yield from _options(GLOBAL)
    yield from roff.tagged(roff.bold("--help"), "Say more, of any command.")
    yield from roff.tagged(roff.bold("--version"), "Say which version this is.")
    yield from _end(
        FILES,
        ENVIRONMENT,
        ("forewarn\\-agent", 1),
        ("forewarn.toml", 5),
        ("forewarn\\-agent.toml", 5),
    )


def _agent() -> Iterator[str]:
    yield roff.heading("forewarn-agent", 1, version=__version__)
    yield ".SH NAME"
    yield "forewarn\\-agent \\- prepares a VM for maintenance that is announced"
    yield ".SH SYNOPSIS"
    yield f"{roff.bold('forewarn-agent')} [\\fICOMMAND\\fR] [\\fIOPTION\\fR...]"
    yield ".br"
    yield f"{roff.bold('forewarn agent')} [\\fICOMMAND\\fR] [\\fIOPTION\\fR...]"
    yield ".SH DESCRIPTION"
    yield "Both are the same program: the agent alone, as its package and its single"
    yield "file have it, and as a command of"
    yield ".BR forewarn (1)."
    yield ".SH COMMANDS"
    for command in COMMANDS:
        if command.path[0] == "agent":
            own = " ".join(command.path[1:])
            yield from _command("forewarn-agent", own, command)
    yield from _end(
        AGENT_FILES,
        AGENT_ENVIRONMENT,
        ("forewarn", 1),
        ("forewarn\\-agent.toml", 5),
    )


def _command(program: str, name: str, command: Command) -> Iterator[str]:
    words = f"{program} {name}".strip()
    yield f".SS {roff.literal(words)}"
    yield roff.line(roff.inline(command.text))
    shown = f"{words}{usage(command.options)}".replace("…", "...")
    yield from roff.example([shown])
    yield from _options(
        tuple(option for option in command.options if option not in GLOBAL)
    )
    if command.more:
        is_agents = command.path[0] == "agent"
        page, setting, flag = _AGENT_SETTINGS if is_agents else _SERVICE_SETTINGS
        yield ".PP"
        yield "Each setting that is there once is an option too, such as"
        yield f"{roff.bold(flag)} of {roff.bold(setting)}: see"
        yield f".BR {roff.literal(page)} (5)."
    yield ".PP"
    yield "For example:"
    yield from roff.example(
        [
            example.replace("forewarn agent", "forewarn-agent")
            for example in command.examples
        ]
        if program == "forewarn-agent"
        else list(command.examples)
    )


def _options(options: tuple[Option, ...]) -> Iterator[str]:
    for option in options:
        yield from roff.tagged(roff.bold(option.usage), option.help)


def _settings(name: str, about: str, page: str) -> Iterator[str]:
    title, _, text = page.partition("\n")
    assert title.startswith("# "), title
    yield roff.heading(name, 5, version=__version__)
    yield ".SH NAME"
    yield f"{roff.literal(name)} \\- {about}"
    yield ".SH DESCRIPTION"
    yield from roff.markdown(text)
    program = "forewarn-agent" if "agent" in name else "forewarn"
    yield ".SH SEE ALSO"
    yield f".BR {roff.literal(program)} (1)"


def _end(
    files: Mapping[str, str], environment: Mapping[str, str], *others: tuple[str, int]
) -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for status, meaning in ENDINGS.items():
        yield from roff.tagged(roff.bold(str(status.value)), f"{meaning}.".capitalize())
    yield ".SH ENVIRONMENT"
    for word, meaning in environment.items():
        yield from roff.tagged(roff.bold(word), meaning)
    yield ".SH FILES"
    for word, meaning in files.items():
        yield from roff.tagged(roff.bold(word), meaning)
    yield ".SH SEE ALSO"
    last = len(others) - 1
    for number, (page, section) in enumerate(others):
        yield f".BR {page} ({section}){'' if number == last else ','}"


if __name__ == "__main__":
    write()
    sys.exit()
