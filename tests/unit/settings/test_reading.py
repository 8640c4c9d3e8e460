"""The reader of settings: each source, and the place of each problem."""

from collections.abc import Mapping

import pytest

from forewarn.settings.forms import Forms, Option, flag_of
from forewarn.settings.tables import Format, Reader

FORMAT = Format(
    named={},
    options={
        "name": Option(form=Forms.TEXT),
        "log.level": Option(form=Forms.WORD, words=("info", "debug")),
        "driver.kind": Option(form=Forms.WORD, words=("own",)),
        "driver.own.delay": Option(form=Forms.DURATION),
    },
    tables=("log", "driver", "driver.own"),
    arrays={
        "hook": {
            "url": Option(form=Forms.TEXT, is_needed=True),
            "kind": Option(form=Forms.TEXT),
        }
    },
    variable=lambda name: f"TEST_{name.upper().replace('.', '_')}",
    flag=flag_of,
)


class OwnReader(Reader):
    """A reader of a text instead of a file."""

    def __init__(self, text: str) -> None:
        data = text.encode("utf-8", "surrogateescape")
        super().__init__(FORMAT, file="own.toml", read=lambda _, most: data[:most])

    def entry_keys(
        self, array: str, entry: Mapping[str, object]
    ) -> Mapping[str, Option] | None:
        if entry.get("kind") == "strange":
            return None
        return super().entry_keys(array, entry)


def read(text: str) -> OwnReader:
    reader = OwnReader(text)
    reader.read_file()
    return reader


def test_later_source_replaces_an_earlier_one() -> None:
    reader = read('name = "a"\n[log]\nlevel = "info"\n[driver.own]\ndelay = "1s"\n')
    reader.read_environment({"TEST_NAME": "b", "TEST_LOG_LEVEL": "debug"})
    reader.read_flags({"name": "c"})
    assert not reader.problems
    assert reader.table("") == {"name": "c"}
    assert reader.table("log") == {"level": "debug"}
    assert reader.table("driver.own") == {"delay": 1_000_000}
    assert reader.origins == {
        "name": "flag --name",
        "log.level": "environment TEST_LOG_LEVEL",
        "driver.own.delay": "own.toml:5",
    }
    values = {"name": "c", "log.level": "debug", "driver.kind": None}
    rows = [*FORMAT.rows(values.get, reader.origins)]
    assert [(row.key, row.value, row.origin) for row in rows[:3]] == [
        ("name", "c", "flag --name"),
        ("log.level", "debug", "environment TEST_LOG_LEVEL"),
        ("driver.kind", "", "default"),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("= 1", "own.toml:1: this is not TOML: Invalid statement"),
        ("\udcff", "own.toml:1: is not UTF-8"),
        ("#" * (1 << 20) + "#", "own.toml: is too large for a settings file"),
        ("nam = 1", 'own.toml:1: nam: there is no such setting (did you mean "name"?)'),
        ("[lg]", 'own.toml:1: lg: there is no such table (did you mean "log"?)'),
        ("log = 1", "own.toml:1: log: must be a table: [log]"),
        ("delay = 1", "own.toml:1: delay: there is no such setting (it belongs to "),
        ("url = 1", "own.toml:1: url: there is no such setting (it belongs to [[hook"),
        (
            'kind = "x"',
            "own.toml:1: kind: there is no such setting (it belongs to [[hook]])",
        ),
        ("xyzzy = 1", "own.toml:1: xyzzy: there is no such setting"),
        ('\n[log]\nlevel = "x"', "own.toml:3: log.level: must be one of info, debug"),
        ("hook = 1", "own.toml:1: hook: must be an array of tables: [[hook]]"),
        ("hook = []", "own.toml:1: hook: must be an array of tables: [[hook]]"),
        ("[[hook]]", "own.toml:1: hook.url: is missing"),
        (
            '[[hook]]\nurl = "u"\nurk = 1',
            'own.toml:3: hook.urk: there is no such setting (did you mean "url"?)',
        ),
        ("[[hook]]\nurl = 1", "own.toml:2: hook.url: must be a string"),
        (
            '[[hook]]\nurl = "u"\n' * 101,
            "own.toml:201: hook: has more than 100 tables, the maximum",
        ),
    ],
)
def test_problem_is_reported_with_line_and_key(text: str, told: str) -> None:
    [problem] = read(text).problems
    assert str(problem).startswith(told)


def test_invalid_flag_is_reported_by_name() -> None:
    reader = read("")
    assert reader.is_blank
    reader.read_flags({"log.level": "inf", "log.levl": "x"})
    first, second = map(str, reader.problems)
    assert first.startswith("flag --log-level: must be one of info, debug")
    assert second.startswith("flag --log-levl: there is no such setting (did you")


def test_later_problem_is_reported_where_the_value_is_set() -> None:
    reader = read('name = "a"\n[[hook]]\nurl = "u"\nkind = 1\n')
    reader.read_flags({"log.level": "info"})
    del reader.problems[:]
    reader.blame("name", "is taken")
    reader.blame("log.level", "is too low")
    reader.blame("hook.1.url", "is down")
    reader.blame("driver.kind", "is missing")
    assert [str(problem) for problem in reader.problems] == [
        "own.toml:1: name: is taken",
        "flag --log-level: is too low",
        "own.toml:3: hook.url: is down",
        "own.toml: driver.kind: is missing",
    ]
    assert reader.partial == {"hook.1"}
    assert reader.arrays == {"hook": [{"url": "u"}]}


def test_known_keys_of_a_table_of_unknown_kind_are_read() -> None:
    text = '[[hook]]\nurl = "u"\nkind = "strange"\nother = 1\n'
    reader = read(text)
    assert not reader.problems
    assert reader.arrays == {"hook": [{"url": "u", "kind": "strange"}]}
