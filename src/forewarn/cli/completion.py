"""`completion`: completion scripts for shells, made from the table of commands.

The three scripts have the same content: the words that can follow other words, and the
values of each option. Names of a fleet are not completed, since that would send a
request at every key. The agent's program has its scripts in its package.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from forewarn.cli.command_table import GLOBAL, Call, Command, Exit, Option
from forewarn.cli.commands import COMMANDS, GROUPS
from forewarn.cli.parser import options_of

PROGRAM = "forewarn"
AGENT_PROGRAM = "forewarn-agent"
"""The program of the agent only, as in its single file and its package."""

SHELLS = ("bash", "zsh", "fish")

FILE_WORDS = frozenset({"FILE", "SCENARIO|FILE"})
"""Metavariables whose value is the name of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The words that can follow the words of a command or a group."""

    words: str
    """`fleet apply`; empty at the beginning."""
    follow: tuple[tuple[str, str], ...]
    """Words that can come next, each with its summary."""
    values: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The values of each option that takes one; empty if any value is possible."""
    takes_files: bool = False


def completion(call: Call) -> int:
    """Print the script."""
    print(script(call.text("shell")), end="")
    return Exit.DONE


def script(shell: str, program: str = PROGRAM) -> str:
    """Return the completion script of a program for a shell."""
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    command_levels = levels() if program == PROGRAM else agent_levels()
    return "".join(f"{line}\n" for line in write(program, list(command_levels)))


def function_of(program: str) -> str:
    """Return the name of the function that completes a program's words."""
    return f"_{program.replace('-', '_')}"


def levels() -> Iterator[Level]:
    """Yield the levels of all commands."""
    top = {command.path[0]: command.summary for command in COMMANDS} | GROUPS
    shared = [(option.name, option.help) for option in GLOBAL]
    yield Level(
        words="",
        follow=(*top.items(), *shared, ("--help", "Say more."), ("--version", "")),
        values=_values(GLOBAL),
    )
    alone = {command.name for command in COMMANDS}
    for group in GROUPS:
        if group not in alone:
            yield Level(words=group, follow=_members(group))
    yield from map(_level, COMMANDS)


def agent_levels() -> Iterator[Level]:
    """Yield the levels of the agent's program.

    `forewarn agent check` is `forewarn-agent check` there.
    """
    for command in COMMANDS:
        first, *rest = command.path
        if first == "agent":
            level = replace(_level(command), words=" ".join(rest))
            if not rest:
                level = replace(level, follow=(*level.follow, ("--version", "")))
            yield level


def _members(group: str) -> tuple[tuple[str, str], ...]:
    """Return the words that can follow the word of a group; empty for a command."""
    return tuple(
        (command.path[1], command.summary)
        for command in COMMANDS
        if command.path[0] == group and len(command.path) > 1
    )


def _level(command: Command) -> Level:
    options = options_of(command)
    named = [(option.name, option.help) for option in options if not option.is_word]
    chosen = [
        (choice, option.help)
        for option in options
        if option.is_word
        for choice in option.choices
    ]
    return Level(
        words=command.name,
        follow=(
            *(_members(command.name) if command.name in GROUPS else ()),
            *chosen,
            *named,
            ("--help", "Say more."),
        ),
        values=_values(options),
        takes_files=any(
            option.is_word and option.metavar in FILE_WORDS for option in options
        ),
    )


def _values(options: tuple[Option, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (option.name, ("FILE",) if option.metavar in FILE_WORDS else option.choices)
        for option in options
        if not option.is_word and not option.is_flag
    )


# Bash

_BASH_BEGIN = """\
@() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local path='' word skip='' i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $skip ]]; then skip=''; continue; fi
        case "$path $word" in
            *' --'*) @_takes_value "$path" "$word" && skip=1 ;;
            *) @_is_path "${path:+$path }$word" && path="${path:+$path }$word" ;;
        esac
    done"""


def _bash(program: str, command_levels: list[Level]) -> Iterator[str]:
    yield f"# bash completion for {program}; made by `forewarn completion bash`"
    yield from _bash_body(program, command_levels)


def _bash_body(program: str, command_levels: list[Level]) -> Iterator[str]:
    function = function_of(program)
    yield from _bash_helpers(function, command_levels)
    yield _BASH_BEGIN.replace("@", function)
    yield '    case "$path:$prev" in'
    for level in command_levels:
        for name, values in level.values:
            yield f"        {shlex.quote(f'{level.words}:{name}')})"
            yield f"            {_bash_reply(values)}; return ;;"
    yield "    esac"
    yield '    case "$path" in'
    for level in command_levels:
        options = " ".join(name for name, _ in level.follow)
        files = '; COMPREPLY+=($(compgen -f -- "$cur"))' if level.takes_files else ""
        yield f"        {shlex.quote(level.words)})"
        yield f'            COMPREPLY=($(compgen -W "{options}" -- "$cur")){files} ;;'
    yield "    esac"
    yield "}"
    yield f"complete -F {function} {program}"


def _bash_helpers(function: str, command_levels: list[Level]) -> Iterator[str]:
    paths = "|".join(
        shlex.quote(level.words) for level in command_levels if level.words
    )
    yield f'{function}_is_path() {{ case "$1" in {paths}) return 0 ;; esac; return 1; }}'
    takes = "|".join(
        shlex.quote(f"{level.words}:{name}")
        for level in command_levels
        for name, _ in level.values
    )
    yield (
        f'{function}_takes_value() {{ case "$1:$2" in '
        f"{takes}) return 0 ;; esac; return 1; }}"
    )


def _bash_reply(values: tuple[str, ...]) -> str:
    if values == ("FILE",):
        return 'COMPREPLY=($(compgen -f -- "$cur"))'
    if not values:
        return "COMPREPLY=()"
    return f'COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$cur"))'


# Zsh runs the script for bash.


def _zsh(program: str, command_levels: list[Level]) -> Iterator[str]:
    function = function_of(program)
    yield f"#compdef {program}"
    yield f"# zsh completion for {program}; to be sourced behind compinit, or in a file"
    yield f"# {function} of a directory in fpath"
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from _bash_body(program, command_levels)
    # In a directory of fpath, zsh reads this file at the first completion.
    yield f'[[ "${{funcstack[1]}}" != {function} ]] || _bash_complete -F {function}'


# Fish


def _fish(program: str, command_levels: list[Level]) -> Iterator[str]:
    yield f"# fish completion for {program}; made by `forewarn completion fish`"
    yield f"complete -c {program} -f"
    for level in command_levels:
        condition = _fish_condition(level)
        values = dict(level.values)
        for name, text in level.follow:
            arguments = _fish_words(name, text, values.get(name))
            yield shlex.join(("complete", "-c", program, "-n", condition, *arguments))
        if level.takes_files:
            yield f"complete -c {program} -n {shlex.quote(condition)} -F"


def _fish_condition(level: Level) -> str:
    if not level.words:
        return "__fish_use_subcommand"
    path = level.words.split()
    condition = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in path)
    if level.words in GROUPS:
        members = [name for name, _ in _members(level.words)]
        return f"{condition}; and not __fish_seen_subcommand_from {' '.join(members)}"
    return condition


def _fish_words(name: str, text: str, values: tuple[str, ...] | None) -> Iterator[str]:
    """Yield a word or an option in fish's syntax."""
    yield from ("-l", name[2:]) if name.startswith("--") else ("-a", name)
    if values == ("FILE",):
        yield "-rF"
    elif values:
        yield from ("-x", "-a", " ".join(values))
    elif values is not None:
        yield "-x"
    if text:
        yield from ("-d", text)
