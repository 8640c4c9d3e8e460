"""Texts of servers that repeat what they were sent: no secret is in what is shown."""

from __future__ import annotations

import base64
import html
import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent import foreign, secrets
from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.secret import read_secret, read_token
from forewarn.agent.secrets import MASK, masked
from forewarn.logs import logging_to

TOKEN = "q7/Zk+w9=T_x-4.Rb1&n"

ECHOES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in a sentence": lambda token: f"no such token: Bearer {token}, go away",
    "twice": lambda token: f"{token}{token}",
    "small letters": str.lower,
    "capital letters": str.upper,
    "percent": lambda token: quote(token, safe=""),
    "percent in small letters": lambda token: quote(token, safe="").lower(),
    "percent of a path": quote,
    "percent twice": lambda token: quote(quote(token, safe=""), safe=""),
    "JSON": lambda token: json.dumps({"header": token}),
    "JSON of PHP": lambda token: json.dumps(token).replace("/", "\\/"),
    "JSON of others": lambda token: json.dumps(token).replace("&", "\\u0026"),
    "HTML": html.escape,
    "HTML by numbers": lambda token: token.replace("/", "&#x2F;").replace(
        "&n", "&#38;n"
    ),
    "base64": lambda token: base64.b64encode(token.encode()).decode(),
    "base64 of a header": lambda token: _coded(f"Bearer {token}"),
    "base64 at another place": lambda token: _coded(f"u:{token}"),
    "base64 with more": lambda token: _coded(f"{token}\r\nHost: web_0"),
    "base64 for URLs": lambda token: base64.urlsafe_b64encode(token.encode()).decode(),
}


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def token(tmp_path: Path) -> str:
    """Return a token that the agent has read."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return read_token(str(file))


def pieces(text: str) -> list[str]:
    """Return what is too much to be shown of a text."""
    size = secrets.BEGIN_CHARACTERS
    return [text[at : at + size] for at in range(len(text) - size + 1)]


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_secret_is_not_shown_in_any_usual_form(
    token: str, echo: Callable[[str], str]
) -> None:
    text = masked(echo(token))
    assert MASK in text
    for piece in pieces(token):
        assert piece.lower() not in text.lower()
    # The base64 around it is of other bytes.
    core = _coded(token).rstrip("=")[:-1]
    assert not any(piece in text for piece in pieces(core))


def test_truncated_secret_is_masked(token: str) -> None:
    for length in range(secrets.BEGIN_CHARACTERS, len(token)):
        text = masked(f"Bearer {token[:length]}")
        assert text == f"Bearer {MASK}"
        assert masked(f"{token[:length]}, and more") == f"{MASK}, and more"


@pytest.mark.parametrize("most", range(1, 60))
def test_truncated_text_shows_no_piece_of_a_secret(token: str, most: int) -> None:
    """Wherever the end of what is shown falls."""
    for text in (f"no such token: {token}", f"{quote(token, safe='')} is none", token):
        message = foreign.told(text, most)
        assert len(message) <= most
        assert not any(piece in message for piece in pieces(token))


def test_texts_without_a_secret_are_unchanged(token: str) -> None:
    for text in ("", "no alert fires", token[:4], token[8:], f"q{token[1:4]}"):
        assert masked(text) == text


def test_previous_secret_is_still_masked_after_a_change(tmp_path: Path) -> None:
    """An answer to the request before may be on its way."""
    file = tmp_path / "token"
    for secret in ("first-token", "second-token", "second-token", "third-token"):
        file.write_text(secret)
        read_token(str(file))
    text = masked("second-token third-token first-token")
    assert text == f"{MASK} {MASK} first-token"


def test_password_is_masked_and_the_user_name_is_not(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("postgres:hunter2hunter2\n")
    read_secret(str(file), parts=lambda secret: secret.split(":")[1:])
    assert masked("postgres is away") == "postgres is away"
    assert masked("no: postgres:hunter2hunter2") == f"no: postgres:{MASK}"
    coded = _coded("postgres:hunter2hunter2")
    assert masked(f"Basic {coded}").startswith(f"Basic {_coded('postgres:')}{MASK}")


def test_short_text_is_not_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("ab\n")
    read_token(str(file))
    assert masked("about") == "about"


def test_reported_text_is_one_bounded_line_without_control_characters(
    token: str,
) -> None:
    message = foreign.told(
        f"\x1b[31mred\r\nERROR forged\u202e\ud800 {token}" + "x" * 5_000
    )
    assert message.isprintable()
    assert len(message) == foreign.TOLD_CHARACTERS
    assert message.startswith("red ERROR forged " + MASK)


def test_secret_with_control_characters_in_it_is_masked(token: str) -> None:
    for hidden in ("\x1b[0m", "\0", "\u200b\x1b[1;31m"):
        message = foreign.told(f"refused: {hidden.join(token)}")
        assert message == f"refused: {MASK}"


def test_last_line_is_also_masked(token: str) -> None:
    assert last_line(f"a\n{'y' * 290}{token}\n\n").count(token[:8]) == 0


@pytest.mark.parametrize("form", ["json", "text"])
def test_log_shows_no_secret_and_no_traceback_with_one(token: str, form: str) -> None:
    """No module of any library writes the secret."""
    stream = io.StringIO()
    with logging_to(stream, form=form, level="info", shown=masked):
        logging.getLogger("elsewhere").warning("it said %s", token)
        try:
            {}[f"Bearer {token}"]
        except KeyError:
            logging.getLogger("forewarn.agent").exception("a fault")
    message = stream.getvalue()
    assert "KeyError" in message
    assert message.count(MASK) == 2
    assert not any(piece in message for piece in pieces(token))
    if form == "json":
        assert [json.loads(line)["level"] for line in message.splitlines()]


@given(
    secret=st.text("ab/+%", min_size=secrets.BEGIN_CHARACTERS, max_size=20),
    before=st.text("ab/+% ", max_size=12),
    behind=st.text("ab/+% ", max_size=12),
    most=st.integers(min_value=1, max_value=40),
)
def test_secret_is_masked_in_any_surrounding_text(
    secret: str, before: str, behind: str, most: int
) -> None:
    """Text of a few letters, so that its beginning often repeats within it."""
    text = f"{before}{secret}{behind}"
    for shown in (masked(text, [secret]), foreign.told(text, most, also=[secret])):
        for piece in shown.split(MASK):
            assert secret not in piece
        assert len(shown) <= max(most, len(masked(text, [secret])))
    quoted = f"{before}{quote(secret, safe='')}{behind}"
    assert quote(secret, safe="") not in masked(quoted, [secret])
