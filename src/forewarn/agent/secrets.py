"""The secrets of this agent, and how to remove them from texts.

Each secret is registered here before it is used. Some servers repeat requests in an
error, a page or the name of an alert. Text from other programs is therefore shown,
stored and sent only after `masked`. It finds secrets in any case, percent-encoded, in
JSON, in HTML, in base64 within other text, and cut after their beginning. Other
encodings are not recognized.
"""

from __future__ import annotations

import binascii
import re
import threading
from collections.abc import Iterable, Sequence

from forewarn.agent import forms
from forewarn.protocol.frozen import frozen_dataclass

MASK = "(secret)"
"""The text that replaces a secret."""

SECRET_CHARACTERS_MIN = 4
"""Minimum length of a masked secret. Shorter ones occur in ordinary words."""

BEGIN_CHARACTERS = 8
"""Length of the beginning by which a cut secret is recognized."""

SPELLING_CHARACTERS_MAX = 12
"""Maximum length of one character of a secret in any recognized spelling."""

SOURCES_MAX = 100
"""Maximum number of files whose secrets are registered; settings name a few."""

_HTML = {'"': "&quot;", "&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&apos;"}
_OF_URLS = {"+": "-", "/": "_"}
"""The characters that differ in base64 for URLs."""


@frozen_dataclass
class _Form:
    """One form of a secret."""

    text: str
    begin: re.Pattern[str]
    """Pattern that finds possible beginnings of the text."""
    least: int
    """Minimum number of leading characters that are masked. Fewer would reveal too
    little."""


_guard = threading.Lock()
_held: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
"""For each source, its current and its previous secrets."""
_forms: tuple[_Form, ...] = ()
"""The forms of all secrets, the longest first. Replaced as a whole."""


def hold(source: str, secrets: Iterable[str]) -> None:
    """Register the secrets of a file, so that no text shows them.

    The previous secrets of the file are kept, since an answer to a request with them
    may still arrive.
    """
    global _forms  # noqa: PLW0603 - a process has one set of secrets
    fresh = tuple(secret for secret in secrets if len(secret) >= SECRET_CHARACTERS_MIN)
    with _guard:
        now, before = _held.get(source, ((), ()))
        if fresh == now:
            return
        _held.pop(source, None)
        _held[source] = fresh, now or before
        while len(_held) > SOURCES_MAX:
            del _held[next(iter(_held))]
        every = {
            spelling for pair in _held.values() for held in pair for spelling in held
        }
        _forms = tuple(_forms_of(every))


def masked(text: str, also: Sequence[str] = ()) -> str:
    """Return a string without the registered secrets, and without those in `also`."""
    known = _forms
    if also:
        long = (spelling for spelling in also if len(spelling) >= SECRET_CHARACTERS_MIN)
        known = (*known, *_forms_of(long))
    for form in known:
        text = _without(text, form)
    return text


def _forms_of(secrets: Iterable[str]) -> list[_Form]:
    texts: dict[str, None] = {}
    for secret in secrets:
        # Short base64 texts may occur by chance.
        coded = (
            spelling
            for spelling in _in_base64(secret)
            if len(spelling) >= BEGIN_CHARACTERS
        )
        texts.update(dict.fromkeys((secret, *coded)))
    return [_form(text) for text in sorted(texts, key=len, reverse=True)]


def _form(text: str) -> _Form:
    begin = "".join(
        f"(?:{'|'.join(map(re.escape, _spellings(begin)))})"
        for begin in text[:BEGIN_CHARACTERS]
    )
    return _Form(
        text=text,
        begin=re.compile(begin, re.IGNORECASE),
        least=min(len(text), BEGIN_CHARACTERS),
    )


def _in_base64(secret: str) -> Sequence[str]:
    """Return the base64 texts of a secret within a longer text.

    Three bytes become four characters, so there are three possible positions.
    """
    data = secret.encode("utf-8", "surrogateescape")
    encodings: list[str] = []
    for before in range(3):
        coded = binascii.b2a_base64(b"\0" * before + data, newline=False).decode()
        # The characters at both ends also depend on the surrounding text.
        behind = (before + len(data)) % 3
        whole = coded.rstrip("=")
        encodings.append(whole[(0, 2, 3)[before] : len(whole) - (1 if behind else 0)])
    return encodings


def _spellings(character: str) -> Sequence[str]:
    """Return all spellings of a character, the longest first."""
    if character.isascii() and character.isalnum():
        return (character,)
    number = ord(character)
    quoted = "".join(
        f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape")
    )
    spellings = {
        character,
        quoted,
        quoted.replace("%", "%25"),
        f"\\{character}",
        forms.json_quoted(character),
        f"\\u{number:04x}",
        f"&#{number};",
        f"&#x{number:x};",
        _HTML.get(character, character),
        _OF_URLS.get(character, character),
    }
    return sorted(spellings, key=len, reverse=True)


def _without(text: str, form: _Form) -> str:
    parts: list[str] = []
    shown = looked = 0
    # A secret may start within a false start: `abab` in `ababab`.
    while (match := form.begin.search(text, looked)) is not None:
        looked = match.start() + 1
        if not parts or match.start() > shown:
            parts += (text[shown : match.start()], MASK)
        shown = max(shown, _end(text, match.end(), form))
    return "".join((*parts, text[shown:])) if parts else text


def _end(text: str, at: int, form: _Form) -> int:
    """Return the end of the secret that starts before `at`."""
    for character in form.text[form.least :]:
        for spelling in _spellings(character):
            end = at + len(spelling)
            if text[at:end].lower() == spelling.lower():
                at = end
                break
        else:
            break
    return at
