"""The secrets that this agent holds, and texts without them.

Whoever reads a secret holds it here before it is used. Some servers repeat what they are
sent: in an error, a page, the name of an alert. So a text of another program is shown,
kept and sent on only as `masked` returns it. That knows a secret as it is, in small or
capital letters, with percent signs, as in JSON and HTML, and in base64 together with
whatever stands before and behind it; and the beginning of one that somebody has cut.
What a server encodes in a form of its own is not known here.
"""

from __future__ import annotations

import binascii
import re
import threading
from collections.abc import Iterable, Sequence

from forewarn.agent import forms
from forewarn.protocol.frozen import frozen_dataclass

MASK = "(secret)"
"""What stands in the place of a secret."""

SECRET_CHARACTERS_MIN = 4
"""Of what is masked: shorter ones are in every other word, and guard nothing."""

BEGIN_CHARACTERS = 8
"""Of a secret that has been cut: with fewer, many a text begins."""

SPELLING_CHARACTERS_MAX = 12
"""For one character of a secret, in the forms that are known."""

SOURCES_MAX = 100
"""Files whose secrets are held; settings name a few."""

_HTML = {'"': "&quot;", "&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&apos;"}
_OF_URLS = {"+": "-", "/": "_"}
"""As base64 is written for URLs."""


@frozen_dataclass
class _Form:
    """One form of a secret."""

    text: str
    begin: re.Pattern[str]
    """Finds where it may begin."""
    least: int
    """Characters of it that are too many to be shown."""


_guard = threading.Lock()
_held: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
"""Of each source, its secrets and those that it had before them."""
_forms: tuple[_Form, ...] = ()
"""Of all of them, the longest first. Replaced as a whole."""


def hold(source: str, secrets: Iterable[str]) -> None:
    """Have no text show these secrets, which are those of a file, from now on.

    Those that were held of the file before them are held on: an answer to a request
    with them may be on its way.
    """
    global _forms  # noqa: PLW0603 - a process has one set of secrets
    fresh = tuple(each for each in secrets if len(each) >= SECRET_CHARACTERS_MIN)
    with _guard:
        now, before = _held.get(source, ((), ()))
        if fresh == now:
            return
        _held.pop(source, None)
        _held[source] = fresh, now or before
        while len(_held) > SOURCES_MAX:
            del _held[next(iter(_held))]
        every = {each for pair in _held.values() for held in pair for each in held}
        _forms = tuple(_forms_of(every))


def forget() -> None:
    """Hold nothing, as a new process does."""
    global _forms  # noqa: PLW0603 - as above
    with _guard:
        _held.clear()
        _forms = ()


def masked(text: str, also: Sequence[str] = ()) -> str:
    """Return a text without the secrets that are held, and without these."""
    known = _forms
    if also:
        long = (each for each in also if len(each) >= SECRET_CHARACTERS_MIN)
        known = (*known, *_forms_of(long))
    for form in known:
        text = _without(text, form)
    return text


def _forms_of(secrets: Iterable[str]) -> list[_Form]:
    texts: dict[str, None] = {}
    for secret in secrets:
        # Few letters of base64 may well be others that mean something else.
        coded = (each for each in _in_base64(secret) if len(each) >= BEGIN_CHARACTERS)
        texts.update(dict.fromkeys((secret, *coded)))
    return [_form(text) for text in sorted(texts, key=len, reverse=True)]


def _form(text: str) -> _Form:
    begin = "".join(
        f"(?:{'|'.join(map(re.escape, _spellings(each)))})"
        for each in text[:BEGIN_CHARACTERS]
    )
    return _Form(
        text=text,
        begin=re.compile(begin, re.IGNORECASE),
        least=min(len(text), BEGIN_CHARACTERS),
    )


def _in_base64(secret: str) -> Sequence[str]:
    """Return what base64 of a text has in it wherever the secret stands in that text.

    Three bytes make four letters, so there are three places where it may begin.
    """
    data = secret.encode("utf-8", "surrogateescape")
    found: list[str] = []
    for before in range(3):
        coded = binascii.b2a_base64(b"\0" * before + data, newline=False).decode()
        # Letters that tell of what stands before or behind it, too.
        behind = (before + len(data)) % 3
        whole = coded.rstrip("=")
        found.append(whole[(0, 2, 3)[before] : len(whole) - (1 if behind else 0)])
    return found


def _spellings(character: str) -> Sequence[str]:
    """Return how a character may be written, the longest first."""
    if character.isascii() and character.isalnum():
        return (character,)
    number = ord(character)
    quoted = "".join(
        f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape")
    )
    found = {
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
    return sorted(found, key=len, reverse=True)


def _without(text: str, form: _Form) -> str:
    parts: list[str] = []
    shown = looked = 0
    # A secret may begin within what looked like its beginning: `abab` in `ababab`.
    while (found := form.begin.search(text, looked)) is not None:
        looked = found.start() + 1
        if not parts or found.start() > shown:
            parts += (text[shown : found.start()], MASK)
        shown = max(shown, _end(text, found.end(), form))
    return "".join((*parts, text[shown:])) if parts else text


def _end(text: str, at: int, form: _Form) -> int:
    """Return where a text goes another way than the secret that begins before `at`."""
    for character in form.text[form.least :]:
        for spelling in _spellings(character):
            end = at + len(spelling)
            if text[at:end].lower() == spelling.lower():
                at = end
                break
        else:
            break
    return at
