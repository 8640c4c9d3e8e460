"""The quick reading of plain TOML: what `tomllib` reads, or nothing."""

import tomllib
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.fleet import fast_toml

FILE = """\
# A fleet.
[[host]]
name = "h1"   # the first
capacity = 40

[[ vm ]]
name="web_0"
id = 'literal'
size = "tab\\tand \\u00e9"
spot = false
tags = { role = "web", "a b" = "#" }
address = ["192.0.2.5", "2001:db8::5"]
mixed = [ 1, "]", ["#"] ]
empty = ""
none = []
date = 1979-05-27
"""

LINES = (
    *("", " \t", "# comment", "# no\x01control", "[[vm]]", " [[ a-b ]] # c"),
    *('a = "x"', 'a="y" # c', 'a = "x" y', "b = 1", "b = 01", "b =", "b = ", "= 1"),
    *('c = "a\\n"', 'c = "a\x02"', 'c = "\x7f"', 'c = """', 'c = """x"""', "c = '''"),
    *('d = ["a"', 'd = ["a", "b",]', 'd = [ "#" ] # c', "d = {}", 'd = { a = "}" }'),
    *("[vm]", "[vm.tags]", '"q" = 1', "m.n = 2", "[[v.w]]", "[[vm]] x", '"""', "\r"),
)


def test_usual_forms_are_parsed_like_tomllib() -> None:
    assert fast_toml.tables(FILE) == tomllib.loads(FILE)
    assert fast_toml.tables(FILE.replace("\n", "\r\n")) == tomllib.loads(FILE)
    assert fast_toml.tables(FILE.rstrip()) == tomllib.loads(FILE)
    assert fast_toml.tables("") == {}


@pytest.mark.parametrize(
    "text",
    [
        'a = "before any table"\n',
        "a = 1\n",
        '[[vm]]\na = "x"\na = "y"\n',
        "[[vm]]\na = 1\na = 2\n",
        "[vm]\n",
        '[[vm]]\n[vm.tags]\nrole = "web"\n',
        '[[vm]]\na = """\n[[vm]]\n"""\n',
        "[[vm]]\na = [\n1]\n",
        "[[vm]]\na = 1 2\n",
        "[[vm]]\na = [" + "[" * 10_000 + "\n",
        "[[vm]]\na =\n",
        "[[vm]]\nhost\n",
    ],
)
def test_unsupported_toml_is_left_to_tomllib(text: str) -> None:
    assert fast_toml.tables(text) is None


def test_large_file_is_parsed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_toml, "PIECE_CHARACTERS", 10)
    assert fast_toml.tables(FILE) == tomllib.loads(FILE)


def agrees(text: str) -> bool:
    """Return whether the fast parser agrees with `tomllib`, or leaves the text to it."""
    tables = fast_toml.tables(text)
    return tables is None or tables == tomllib.loads(text)


def test_every_pair_of_lines_is_parsed_like_tomllib() -> None:
    wrong = [
        text
        for pair in product(LINES, repeat=2)
        if not agrees(text := "[[vm]]\n" + "\n".join(pair))
    ]
    assert wrong == []


@pytest.mark.slow
@given(st.lists(st.sampled_from(LINES), max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_any_lines_are_parsed_like_tomllib(lines: list[str], end: str) -> None:
    assert agrees(end.join(lines))
