"""The commands that look after the service's file, and after the command line."""

from forewarn.cli.command_table import JSON, Command, Option

_CONFIG = Option(
    name="--config",
    metavar="FILE",
    help="The settings whose [store] is meant; else forewarn.toml where there is one.",
)

UPKEEP = (
    Command(
        path=("store", "check"),
        summary="check a store's file for everything that must hold",
        text="Check a store's file: its pages, each row, and what must hold between "
        "the rows. Each violation is a sentence. The file is only read: it may be a "
        "backup, or the one that a service is using.",
        run="forewarn.cli.store:check",
        options=(
            Option(
                name="file",
                metavar="FILE",
                is_optional=True,
                help="The file; the one of [store] url if it is not named.",
            ),
            _CONFIG,
            JSON,
        ),
        examples=("forewarn store check", "forewarn store check backup.db --json"),
    ),
    Command(
        path=("store", "backup"),
        summary="copy the store's file, also while the service runs",
        text="Copy the store's file as it is at one moment, while the service goes on. "
        "The copy is checked before it gets its name, and overwrites nothing.",
        run="forewarn.cli.store:backup",
        options=(
            Option(name="file", metavar="FILE", help="Where the copy goes."),
            _CONFIG,
            JSON,
        ),
        examples=("forewarn store backup /var/backups/forewarn.db",),
    ),
    Command(
        path=("completion",),
        summary="print what completes these commands in a shell",
        text="Print a script that completes the commands, their options and the words "
        "that these take. Bash and fish read it from their folders of completions; zsh "
        "is told to in .zshrc, behind compinit: source <(forewarn completion zsh).",
        run="forewarn.cli.completion:completion",
        options=(
            Option(
                name="shell",
                choices=("bash", "zsh", "fish"),
                help="The shell that will read it.",
            ),
        ),
        examples=("forewarn completion bash", "forewarn completion zsh"),
    ),
)

GROUPS = {"store": "check and back up the store's file"}
"""Words that begin several commands."""
