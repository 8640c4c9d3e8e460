"""The commands for the file of the store, and for shell completion."""

from forewarn.cli.command_table import JSON, Command, Option

_CONFIG = Option(
    name="--config",
    metavar="FILE",
    help="Settings file with [store]. Default: forewarn.toml, if it exists.",
)

UPKEEP = (
    Command(
        path=("store", "check"),
        summary="check the consistency of a store's file",
        text="Check the file of a store: its pages, each row, and the relations "
        "between the rows. Each violation is printed as a sentence. The file is only "
        "read: it can be a backup, or the file of a running service.",
        run="forewarn.cli.store:check",
        options=(
            Option(
                name="file",
                metavar="FILE",
                is_optional=True,
                help="The file. Default: the file in [store] url.",
            ),
            _CONFIG,
            JSON,
        ),
        examples=("forewarn store check", "forewarn store check backup.db --json"),
    ),
    Command(
        path=("store", "backup"),
        summary="copy the file of the store, even while the service runs",
        text="Copy the file of the store as it is at one moment, while the service "
        "continues to run. The copy is checked before it gets its name. No file is "
        "overwritten.",
        run="forewarn.cli.store:backup",
        options=(
            Option(name="file", metavar="FILE", help="The file to write."),
            _CONFIG,
            JSON,
        ),
        examples=("forewarn store backup /var/backups/forewarn.db",),
    ),
    Command(
        path=("completion",),
        summary="print a shell completion script",
        text="Print a script that completes the commands, their options and the "
        "values of options. Bash and fish read it from their directories of "
        "completions. For zsh, add this line to .zshrc after compinit: source "
        "<(forewarn completion zsh).",
        run="forewarn.cli.completion:completion",
        options=(
            Option(
                name="shell",
                choices=("bash", "zsh", "fish"),
                help="The shell that reads the script.",
            ),
        ),
        examples=("forewarn completion bash", "forewarn completion zsh"),
    ),
)

GROUPS = {"store": "check and back up the file of the store"}
"""Words that begin several commands."""
