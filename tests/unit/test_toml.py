"""The limit of TOML files: no key is slow to parse."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn import toml
from forewarn.addresses.file import read_plan
from forewarn.agent.settings import load_settings as load_agent_settings
from forewarn.fleet.file import read_fleet
from forewarn.problems import not_toml
from forewarn.service.settings import load_settings

DEEP = ".".join("a" * 49_000)
"""A text of 98 kB that `tomllib` parses in half a minute."""

FORMS = {
    "key": f"{DEEP} = 1",
    "indented": f"  \t{DEEP} = 1",
    "header": f"[{DEEP}]",
    "array header": f"[[ {DEEP} ]]",
    "inline table": f"x = {{ b = 1, {DEEP} = 1 }}",
    "inline table of its own": f"x = {{{DEEP} = 1}}",
    "nested": f"x = [{{ {DEEP} = 1 }}]",
    "blanks": " . ".join("a" * 49_000) + " = 1",
    "quoted": ".".join(['"a.b\\""'] * 20_000) + " = 1",
    "literal": ".".join(["'a.b'"] * 20_000) + " = 1",
}


@pytest.mark.parametrize("form", FORMS)
def test_too_deep_key_is_refused_with_its_line(form: str) -> None:
    text = f"first = 1\r\n# {DEEP}\n{FORMS[form]}\n"
    with pytest.raises(toml.DeepKeyError, match="more than 64 names") as caught:
        toml.loads(text)
    problem = not_toml(caught.value, file="fleet.toml", text=text)
    assert str(problem).startswith("fleet.toml:3: this is not TOML: a key has more")


@pytest.mark.parametrize("names", [1, 3, 64])
def test_key_with_the_maximum_number_of_names_is_read(names: int) -> None:
    text = ".".join("a" * names) + " = 1"
    assert toml.loads(text) == tomllib.loads(text)


def test_dots_in_values_and_comments_do_not_count() -> None:
    text = f'''
# {DEEP}
name = "{DEEP}"
list = ["{DEEP}", '{DEEP}']
number = 1.5
long = """
one. two. three {DEEP[:60]}"""
'''
    assert toml.loads(text) == tomllib.loads(text)


def settings(text: str, directory: Path, load: Callable[[Path], object]) -> None:
    file = directory / "a.toml"
    file.write_text(text)
    load(file)


READERS: dict[str, Callable[[str, Path], object]] = {
    "fleet": lambda text, _: read_fleet(text, name="fleet.toml"),
    "service": lambda text, directory: settings(
        text, directory, lambda file: load_settings(file=file, environ={}, flags={})
    ),
    "agent": lambda text, directory: settings(
        text,
        directory,
        lambda file: load_agent_settings(file=str(file), environ={}, flags={}),
    ),
    "addresses": lambda text, _: read_plan(text, name="addresses.toml"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("form", ["key", "inline table"])
@pytest.mark.parametrize("reader", READERS)
def test_each_reader_enforces_the_limit(reader: str, form: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="more than 64 names") as caught:
        READERS[reader](f"\n[[host]]\n{FORMS[form]}\n", tmp_path)
    assert "toml:3: " in str(caught.value)


CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS)
VALUES: st.SearchStrategy[object] = st.recursive(
    TEXTS
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.times(),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
)


@given(value=VALUES, key=TEXTS)
def test_written_values_are_read_back(value: object, key: str) -> None:
    line = f"{toml.key(key)} = {toml.value(value)}"
    assert line.splitlines() == [line]
    assert tomllib.loads(line) == {key: value}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("\N{ROCKET}", '"\N{ROCKET}"'),
        ("\x7f\x85\u2028", '"\\u007f\\u0085\\u2028"'),
        ('a"\\\n', '"a\\"\\\\\\n"'),
    ],
)
def test_characters_are_escaped_for_toml(text: str, written: str) -> None:
    assert toml.text(text) == written


def test_nan_is_written_as_toml() -> None:
    assert toml.value(float("nan")) == "nan"
