"""Untrusted texts: rejected characters, and output to a terminal."""

import json
import logging

import pytest

from forewarn.cli import output
from forewarn.logs import JsonFormatter, TextFormatter
from forewarn.texts import cleaned, fault_of, json_text, printable, readable, shortened

HARMFUL = [
    "\x00",
    "\x07",
    "\x1b",
    "\r",
    "\x7f",
    "\x85",
    "\x9b",
    "\u061c",
    "\u200e",
    "\u2028",
    "\u202e",
    "\u2066",
    "\ud800",
]

HARMLESS = [
    "firmware 2.4",
    "two\nlines\tand a tab",
    "naïve Größe 東京",
    "\U0001f469\u200d\U0001f4bb",  # An emoji of two, with a joiner.
    "\u0915\u094d\u200d\u0937",  # Hindi, with a joiner.
]


def name_of(text: str) -> str:
    return " ".join(f"U+{ord(character):04X}" for character in text)


@pytest.mark.parametrize("character", HARMFUL, ids=name_of)
def test_harmful_character_is_reported_with_its_position(character: str) -> None:
    fault = fault_of(f"abc{character}d")
    assert fault.startswith(f"character 4 is U+{ord(character):04X} (")
    assert fault.isprintable()


@pytest.mark.parametrize("text", HARMLESS, ids=range(len(HARMLESS)))
def test_text_of_any_script_is_allowed(text: str) -> None:
    assert fault_of(text) == ""


@pytest.mark.parametrize("character", [*HARMFUL, "\U000e0001"], ids=name_of)
def test_json_text_is_printable_and_has_the_same_value(character: str) -> None:
    value = {f"key{character}": [f"a{character}b", "東京", 1, None]}
    for indent in (None, 2):
        text = json_text(value, indent=indent)
        assert text.replace("\n", "").isprintable()
        assert "東京" in text
        assert json.loads(text) == value
    assert printable(f"a{character}").isprintable()


def test_large_value_with_one_harmful_character_is_preserved() -> None:
    value = ["x" * 1_000_000, "\x9b"]
    assert json.loads(json_text(value)) == value


def record_of(text: str) -> logging.LogRecord:
    return logging.LogRecord("forewarn", logging.INFO, "", 1, "%s", (text,), None)


@pytest.mark.parametrize("character", HARMFUL, ids=name_of)
def test_log_line_of_either_form_is_printable(character: str) -> None:
    record = record_of(f"reason {character}[2J")
    record.fields = {"reason": character}
    line = JsonFormatter().format(record)
    assert line.isprintable()
    assert json.loads(line)["reason"] == character
    assert TextFormatter(short=False).format(record).isprintable()


@pytest.mark.parametrize("character", HARMFUL, ids=name_of)
def test_json_output_of_a_command_is_printable(
    character: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.document([character])
    output.json_line({"reason": character})
    message = capsys.readouterr().out
    assert message.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[1;31merror:\x1b[0m no \x1b]0;title\x07disk", "error: no disk"),
        ("\x1b]8;;https://example.org\x1b\\docs\x1b]8;;\x1b\\ say", "docs say"),
        ("done\x1b(B\x1b=", "done"),
        ("no end \x1b]0;title\r\nerror: no disk", "no end error: no disk"),
        ("no end \x1bPq#0\nerror: no disk", "no end error: no disk"),
        ("cut off \x1b[1;3", "cut off"),
        ("in 8 bits: \x9b31mred", "in 8 bits: red"),
        ("two\nlines\r\n\tand a tab", "two lines and a tab"),
        ("Gr\ufffd\ufffd\ufffde of the disk", "Gr\ufffde of the disk"),
        ("\ufffd" * 200, "(binary data)"),
        ("a\x00\x01\ufffd\ufffdb\x02\ufffdc" * 50, "(binary data)"),
        ("", ""),
    ],
)
def test_output_of_another_program_is_one_readable_line(said: str, shown: str) -> None:
    assert readable(said) == shown


@pytest.mark.parametrize("text", ["firmware 2.4", "naïve Größe 東京"])
def test_readable_text_is_not_changed(text: str) -> None:
    assert readable(text) == text


def test_text_without_binary_data_keeps_its_words() -> None:
    assert cleaned("status 3: \x1b[1m" + "\ufffd\0" * 90) == "status 3: \ufffd"


@pytest.mark.parametrize(
    ("most", "shown"), [(5, "a lo…"), (8, "a longer"), (9, "a longer")]
)
def test_shortened_text_ends_with_a_mark(most: int, shown: str) -> None:
    assert shortened("a longer", most) == shown


def test_words_after_binary_data_are_readable() -> None:
    assert (
        readable("\ufffd" * 900 + "\nthe disk is full", last=16) == "the disk is full"
    )
