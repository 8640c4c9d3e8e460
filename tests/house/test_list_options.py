"""Every list has selectors, `--file` and `--watch`, or a reason why it needs none."""

from forewarn.cli.command_table import NAMES_FILE, SELECTORS, WATCH, Command
from forewarn.cli.commands import COMMANDS

WITHOUT_SELECTORS = {
    "blackout show": "it has at most 50 blackouts",
    "campaign list": "an operator has few open campaigns, each with its name",
    "check list": "it has the checks of the settings",
    "deferrals": "it has --tenant and --scope",
    "token list": "it has --tenant, and tokens are of no host",
    "upcoming": "it is of one tenant, and has --scope and --vm",
    "webhook list": "it has the receivers of the settings",
    "window show": "it names scopes",
}
"""Lists without selectors of hosts and VMs."""

WITHOUT_FILE = {
    "availability": "it has sums, whose parts name no hosts",
    "capacity": "it has sums, whose parts name no hosts",
    "relay list": "it has a line for each host",
    "waits": "it has sums, whose parts name no hosts",
}
"""Lists with selectors and without a file of names."""

WITHOUT_WATCH = {
    "availability": "it is about a past time",
    "capacity": "its sums are read again at most once a second for all readers",
    "deferrals": "`upcoming --watch` shows their effect",
    "fleet show": "the stream of changes has hosts and VMs for the console",
    "history": "`operations --watch` shows new entries as changes",
    "waits": "`problems --watch` shows each late approval",
    **dict.fromkeys(
        (
            "blackout show",
            "check list",
            "relay list",
            "token list",
            "webhook list",
            "window show",
        ),
        "it changes only by a command or with the settings",
    ),
}
"""Lists without `--watch`."""

OTHERS = {
    "addresses show",
    "brake show",
    "campaign show",
    "cluster show",
    "config show",
    "rollout show",
    "sim list",
}
"""Commands that show one object, or are of the simulator or of one host."""


def lists() -> dict[str, Command]:
    """Return the commands that list objects of the service."""
    list_verbs = {"list", "show"}
    single = {
        *("operations", "events", "problems", "waits", "capacity", "history"),
        *("availability", "upcoming", "deferrals"),
    }
    named = {" ".join(command.path): command for command in COMMANDS}
    return {
        name: list_
        for name, list_ in named.items()
        if (list_.path[-1] in list_verbs or name in single) and name not in OTHERS
    }


def without(*options: str) -> set[str]:
    """Return the lists that lack one of these options."""
    return {
        name
        for name, list_ in lists().items()
        if not set(options) <= {option.name for option in list_.options}
    }


def test_lists_without_selectors_have_a_reason() -> None:
    names = (option.name for option in SELECTORS)
    assert without(*names) == WITHOUT_SELECTORS.keys()


def test_lists_without_a_file_of_names_have_a_reason() -> None:
    assert without(NAMES_FILE.name) == {*WITHOUT_SELECTORS, *WITHOUT_FILE}


def test_lists_without_watch_have_a_reason() -> None:
    assert without(WATCH.name) == WITHOUT_WATCH.keys()
