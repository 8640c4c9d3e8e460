"""The lines of tables and keys in any valid TOML."""

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.settings.lines import Lines


def line_of(lines: Lines, table: str, index: int, key: str) -> int:
    name = f"{table}.{index + 1}"
    return lines.line(f"{name}.{key}" if key else name)


AWKWARD = '''\
# a comment with [[vm]] in it
title = "top"  # and one = here
"quoted root" = """
[[vm]]
name = "not a table"
"""
numbers = [  # [[vm]]
  1,
  [2, 3], # ]
]

[[vm]]   # the first
name = "a"
tags.role = "web"
'host' = "h1" # "a quote
address = [
  "192.0.2.1", # ] not yet
  '192.0.2.2',
]

[[ "vm" ]]
name = """
[[vm]]
name = \\"""x
"""
note = \'\'\'
[[vm]]
it\'\'s
\'\'\'\'\'
tags = { role = "a]}", "b c" = 'd' }
since = 1979-05-27 07:32:00Z
"ho\\u0073t" = "h2"

[[host]]
name = "h1"

[vm.extra]
deep = 1

[plain]
x.y = {}
  [[vm]]
  name="c"'''


@pytest.mark.parametrize(
    ("index", "key", "line"),
    [
        (0, "", 12),
        (0, "name", 13),
        (0, "tags", 14),
        (0, "host", 15),
        (0, "address", 16),
        (0, "scope", 12),
        (1, "", 21),
        (1, "name", 22),
        (1, "note", 26),
        (1, "tags", 30),
        (1, "since", 31),
        (1, "host", 32),
        (1, "extra", 37),
        (1, "deep", 21),
        (2, "", 42),
        (2, "name", 43),
        (2, "zone", 42),
    ],
)
def test_key_is_found_in_awkward_text(index: int, key: str, line: int) -> None:
    tomllib.loads(AWKWARD)
    assert line_of(Lines(AWKWARD), "vm", index, key) == line


@pytest.mark.parametrize(
    ("name", "line"),
    [("title", 2), ("quoted root", 3), ("numbers", 7), ("vm", 12), ("plain", 40)],
)
def test_top_level_name_is_found(name: str, line: int) -> None:
    assert Lines(AWKWARD).line(name) == line


def test_windows_line_ending_counts_as_one() -> None:
    text = '[[vm]]\r\nname = "a"\r\n\r\n[[vm]]\r\nhost = """x\r\ny"""\r\nname = "b"'
    lines = Lines(text)
    assert lines.line("vm.2.name") == 7
    assert lines.line("vm.2") == 4


INLINE = """\
host = [{ name = "h1" }, { name = "h2" }]
vm = [
  { name = "a", host = "h1", tags = { host = "no" } },
  # { name = "not this" },
  { "name" = "b",
    address = ["192.0.2.1", "192.0.2.2"],
    x.y = 1, host = "h2" },
  5,
  {},
]
"""


@pytest.mark.parametrize(
    ("index", "key", "line"),
    [
        (0, "", 3),
        (0, "host", 3),
        (1, "name", 5),
        (1, "address", 6),
        (1, "x", 7),
        (1, "y", 5),
        (1, "host", 7),
        (3, "", 9),
        (3, "name", 9),
    ],
)
def test_inline_tables_in_a_list_have_lines(index: int, key: str, line: int) -> None:
    # TOML 1.0 allows inline tables only on one line; the index accepts more.
    assert line_of(Lines(INLINE), "vm", index, key) == line


def test_subtable_of_a_missing_table_has_the_first_line() -> None:
    lines = Lines("[vm.tags]\nrole = 'x'\n")
    assert lines.line("vm") == 1


VALUES = st.sampled_from(
    [
        "1",
        "true",
        '"text"',
        '"with \\" quote # and [["',
        "'literal \\'",
        '"""\nlong\n[[vm]]\n"""',
        '"""one "" two"""""',
        "'''\n[[host]]\nname = 1\n''''",
        "[1, 2]",
        '[\n  "a", # ]\n  [{ x = "]" }],\n]',
        '{ a = "}", b = [1, { c = 2 }] }',
        "{}",
        '""',
        "1979-05-27T07:32:00Z # [[vm]]",
    ]
)
ENTRY = st.tuples(
    st.sampled_from(["vm", "host"]),
    st.lists(
        st.tuples(
            st.sampled_from(["k{}", '"q {}"', "'l{}'", "d{}.e . f"]),
            VALUES,
            st.sampled_from(["", "\n", "# [[vm]]\n", "  \t\n\n"]),
        ),
        max_size=5,
    ),
)


@given(st.lists(ENTRY, max_size=6), st.booleans())
def test_every_key_of_a_written_file_is_found(
    entries: list[tuple[str, list[tuple[str, str, str]]]], crlf: bool
) -> None:
    text = ""
    expected: dict[tuple[str, int, str], int] = {}
    counts = {"vm": 0, "host": 0}
    for table, keys in entries:
        index = counts[table]
        counts[table] += 1
        expected[table, index, ""] = text.count("\n") + 1
        text += f"[[{table}]]\n"
        for number, (form, value, before) in enumerate(keys):
            text += before
            key = form.format(number)
            bare = re.sub(r"[\"']|\.e . f", "", key)
            expected[table, index, bare] = text.count("\n") + 1
            text += f"{key} = {value}\n"
    tomllib.loads(text)
    lines = Lines(text.replace("\n", "\r\n") if crlf else text)
    numbers = {key: line_of(lines, *key) for key in expected}
    assert numbers == expected


@pytest.mark.slow
def test_lines_of_a_hundred_thousand_tables_are_counted() -> None:
    text = "".join(f'[[vm]]\nname = "v{n}"\nhost = "h"\n\n' for n in range(100_000))
    assert Lines(text).line("vm.100000.host") == 399_999


def test_table_headers_are_distinguished_from_nested_lists() -> None:
    text = """\
a = [
  ["b"],
  [["c"]],
["d"]]
x.y = { z = [1, { w = 2 }] }
[table]
k = "# no comment"  # ["t"]
[table.'odd key'."sub"]
deep.k = 1
[[table.list]]
n = 1
[[table.list]]

[table.list.inner]
m = { a.b = 1, c = [[2], [3]] }
"""
    lines = Lines(text)
    assert {name: lines.line(name) for name in WHERE} == WHERE


WHERE = {
    "a": 1,
    "a.1": 2,
    "a.3": 4,
    "x.y.z": 5,
    "x.y.z.2.w": 5,
    "b": 0,
    "t": 0,
    "table": 6,
    "table.k": 7,
    "table.odd key": 8,
    "table.odd key.sub.deep.k": 9,
    "table.list": 10,
    "table.list.1.n": 11,
    "table.list.2": 12,
    "table.list.2.n": 12,
    "table.list.2.inner": 14,
    "table.list.2.inner.m.a.b": 15,
    "table.list.2.inner.m.c.2.1": 15,
    "": 0,
}
