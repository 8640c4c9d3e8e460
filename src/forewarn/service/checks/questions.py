"""Ask one check: a request or a program, with one deadline, in the calling thread."""

import re
from pathlib import Path
from urllib.parse import urlencode

from forewarn.agent.wire.http import Client, HttpError, parse_url
from forewarn.checks.judging import judge_page, judge_query
from forewarn.checks.model import (
    REASON_CHARACTERS_MAX,
    Bounds,
    Judged,
    Kind,
    Page,
    unknown,
)
from forewarn.clock import Clock
from forewarn.instants import SECOND
from forewarn.service.checks import limits
from forewarn.service.checks.programs import Programs
from forewarn.service.secret_files import SECRET_BYTES_MAX
from forewarn.service.settings_model import CheckSettings
from forewarn.settings.files import read_file
from forewarn.texts import readable

QUERY_PATH = "/api/v1/query"
"""Path of an instant query below the URL of Prometheus."""

_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def ask(check: CheckSettings, *, clock: Clock, programs: Programs) -> Judged:
    """Ask a check, and judge its answer; every failure is an unknown outcome."""
    if Kind(check.kind) is Kind.COMMAND:
        judged = programs.run(check.program, seconds=check.timeout / SECOND)
    else:
        judged = _ask_server(check, clock)
    reason = readable(judged.reason)[:REASON_CHARACTERS_MAX]
    return Judged(outcome=judged.outcome, reason=reason)


def authorization(file: str) -> str:
    """Return the value of the header Authorization from a file.

    A single word is a bearer token. Raises ValueError, without the content of the file.
    """
    try:
        text = read_file(Path(file), bytes_max=SECRET_BYTES_MAX).decode("ascii").strip()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not ASCII text") from None
    if _HEADER_VALUE.fullmatch(text) is None:
        raise ValueError(f"{file} must have one line with a token")
    return text if " " in text else f"Bearer {text}"


def _ask_server(check: CheckSettings, clock: Clock) -> Judged:
    is_query = Kind(check.kind) is Kind.PROMQL
    url = parse_url(check.url)
    target = url.target or "/"
    if is_query:
        target = f"{target.rstrip('/')}{QUERY_PATH}?{urlencode({'query': check.query})}"
    try:
        headers = [
            ("Accept", "application/json" if is_query else "*/*"),
            *check.headers,
        ]
        if check.authorization_file:
            headers.append(("Authorization", authorization(check.authorization_file)))
        client = Client(
            url, clock=clock, ca_file=check.ca_file, body_max=limits.BODY_BYTES_MAX
        )
    except (ValueError, HttpError) as error:
        return unknown(str(error))
    try:
        answer = client.get(target, headers=headers, timeout=check.timeout)
    except HttpError as error:
        return unknown(error.message)
    finally:
        client.close()
    if is_query:
        return judge_query(
            answer.status, answer.body, Bounds(below=check.below, above=check.above)
        )
    return judge_page(
        answer.status, answer.body, Page(status=check.status, contains=check.contains)
    )
