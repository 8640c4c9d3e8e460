"""The errors of the operator API as errors of a command.

A message about a member of a request names the option that the user typed.
"""

import contextlib
import re
from collections.abc import Mapping
from typing import Any, cast

import httpx2

from forewarn.cli.command_table import Command, CommandError, Exit
from forewarn.verbs.table import VERBS

REFUSALS_MAX = 20
"""Maximum refused targets of a request that are printed, to keep them on one screen."""

_STATUS = {
    400: Exit.USAGE,
    413: Exit.USAGE,
    415: Exit.USAGE,
    429: Exit.UNREACHABLE,
    500: Exit.FAILED,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}
"""Any other status is a refusal."""


_FILES = {"bad-fleet": "fleet", "bad-campaign": "campaign"}
"""The kinds of errors of files, which have a list of problems."""


def json_of(answer: httpx2.Response, url: str) -> Any:
    """Return the JSON in a response; raises CommandError for another server."""
    try:
        return answer.json()
    except ValueError as error:
        raise _stranger(url) from error


def _stranger(url: str) -> CommandError:
    return CommandError(
        Exit.UNREACHABLE,
        f"the server at {url} is not forewarn's operator API",
        hint="Check --url or FOREWARN_URL.",
    )


def error_of(
    answer: httpx2.Response, url: str, command: Command | None = None
) -> CommandError:
    """Return the error for a response without success; it names options of `command`."""
    body: Any = None
    with contextlib.suppress(ValueError):
        body = answer.json()
    if not isinstance(body, dict) or "kind" not in body or "error" not in body:
        return _stranger(url)
    error = cast("dict[str, Any]", body)
    status = _STATUS.get(answer.status_code, Exit.REFUSED)
    if (file := _FILES.get(error["kind"])) is not None:
        return CommandError(
            status,
            f"the {file} file cannot be used",
            hint=str(error.get("hint", "")),
            lines=[str(problem["text"]) for problem in error["problems"]],
        )
    message, hint = _in_options(error, command)
    seconds = answer.headers.get("Retry-After", "")
    if error["kind"] == "too-many" and seconds.isdecimal():
        hint = f"{hint} Try again in {seconds} s."
    refused = error.get("refused", ())
    lines = [refusal(refusal_) for refusal_ in refused[:REFUSALS_MAX]]
    if more := len(refused[REFUSALS_MAX:]):
        lines.append(f"and {more:,} more")
    return CommandError(status, message, hint=hint, lines=lines)


def refusal(refused: Mapping[str, Any]) -> str:
    """Return the reason of a refusal, which names its target once."""
    name, error = str(refused["name"]), str(refused["error"])
    is_named = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", error)
    return error if is_named else f"{name}: {error}"


def _in_options(error: Mapping[str, Any], command: Command | None) -> tuple[str, str]:
    """Return the message and the hint of an error, with the options of a command instead
    of the members of its request."""
    message, hint = str(error["error"]), str(error.get("hint", ""))
    if command is None or error["kind"] != "bad-request":
        return message, hint
    options = _options(command)
    if not (problems := error.get("problems")):
        place, colon, rest = message.partition(": ")
        return f"{options.get(place, place)}{colon}{rest}", hint
    named: list[str] = []
    sentences: list[str] = []
    for problem in problems:
        member, _, index = str(problem["place"]).partition(".")
        name = options.get(member, member)
        named += [name] if member in options and name not in named else []
        number = f" number {int(index) + 1}" if index.isdecimal() else ""
        place = f"{name}{number}: " if name else ""
        sentences.append(f"{place}{problem['message']}")
    if named:
        hint = f"Run `forewarn {command.name} --help` to see the form of {named[0]}."
    return "; ".join(sentences), hint


def _options(command: Command) -> dict[str, str]:
    """Return the options of a command by the members of its requests."""
    options = {
        option.key: option.metavar or option.name if option.is_word else option.name
        for option in command.options
    }
    if entry := VERBS.get(command.verb):
        options |= {argument.key: argument.name for argument in entry.arguments}
    return options
