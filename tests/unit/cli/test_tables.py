"""Tables at the widths of terminals: nothing that is copied is ever broken."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn import texts
from forewarn.cli import drawing, tables
from forewarn.cli.listings import OPERATIONS
from tests.unit.admin.gateway import LocalGateway
from tests.unit.cli.conftest import Ended, Screen, Served, Terminal

Run = Callable[..., Ended]

GOLDEN = Path(__file__).parents[2] / "golden" / "tables"

FLEET = """\
[[tenant]]
name = "shop"

[[scope]]
name = "shop-checkout"
tenant = "shop"
kind = "availability-set"

[[scope]]
name = "shop-search"
tenant = "shop"
kind = "scale-set"

[[host]]
name = "rack12-host07"
zone = "eu-1"
cluster = "a"
capacity = 8

[[host]]
name = "rack12-host08"
zone = "eu-1"
cluster = "b"
capacity = 8

[[host]]
name = "rack13-host01"
zone = "eu-1"
""" + "".join(
    f"""
[[vm]]
name = "{scope}_{number}"
host = "{host}"
scope = "{scope}"
fault_domain = {number}
"""
    for scope in ("shop-checkout", "shop-search")
    for number, host in enumerate(("rack12-host07", "rack12-host08", "rack13-host01"))
)

LISTS = (
    "operations",
    "operations --all",
    "events",
    "rollout list",
    "rollout show ROLLOUT",
    "history --since 1h",
    "history --summary",
    "history --summary --all",
    "history --summary --operation OPERATION",
    "availability",
    "fleet show",
    "fleet show --all",
    "webhook list",
    "token list",
    "problems",
    "waits",
    "capacity",
    "upcoming --tenant shop",
    "deferrals",
    "window show",
    "check list",
    "relay list",
    "cluster show",
)

IDS = re.compile(r"(?<![\w-])(?:op|ro|rq)-[0-9a-z]{16}\b")
GUIDS = re.compile(r"\b[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}\b")


@pytest.fixture
def busy(service: Served, forewarn: Run) -> Served:
    """Return a service in whose fleet some things have happened."""
    service.gateway = service.app.state.gateway = LocalGateway(FLEET)
    assert forewarn("token", "create", "--name=dashboard").status == 0
    assert forewarn("token", "create", "--relay", "rack12-host07").status == 0
    assert forewarn("window", "set", "shop-search", "--window", "22:00 6h").status == 0
    why = "firmware 2.4 of the network cards, ticket 4711"
    hosts = ("rack12-host07", "rack12-host08")
    forewarn("maintain", *hosts, "--impact", "reboot", "--reason", why)
    later = ("--until", "+2d", "--reason", "month end")
    assert forewarn("defer", "shop-checkout_1", *later).status == 0
    forewarn("fail", "rack13-host01", "--reason", "the power supply of the rack")
    return service


def words_of(run: Run, line: str) -> list[str]:
    """Return a command's words, with the ids of what there is."""
    rollout = re.findall(r"^ro-\w+", run("rollout", "list").out, re.MULTILINE)[0]
    operation = re.findall(r"^op-\w+", run("operations").out, re.MULTILINE)[0]
    return line.replace("ROLLOUT", rollout).replace("OPERATION", operation).split()


def named(text: str) -> str:
    """Return a text with other ids of the same form, which are the same each time."""
    for pattern in (IDS, GUIDS):
        identifiers = list(dict.fromkeys(pattern.findall(text)))
        for number, identifier in enumerate(identifiers):
            size = len(str(number))
            text = text.replace(
                identifier,
                identifier[:3] + re.sub(r"\w", "0", identifier[3:-size]) + str(number),
            )
    return text


def test_each_list_is_complete_at_each_width(
    busy: Served,
    forewarn: Run,
    terminal: Terminal,
    request: pytest.FixtureRequest,
) -> None:
    commands = [(line, words_of(forewarn, line)) for line in LISTS]
    piped = {line: forewarn(*words).out for line, words in commands}
    for width in (40, 80, 100, 120, 160):
        terminal.columns(width)
        message = ""
        for line, words in commands:
            shown = terminal.run(*words)
            check_whole(piped[line], shown)
            message += f"$ forewarn {line}\n{shown}\n"
        file = GOLDEN / f"{width}.txt"
        if request.config.getoption("--rewrite"):
            file.write_text(named(message))
        assert named(message) == file.read_text(), "run `pytest --rewrite` on this file"


def check_whole(piped: str, shown: str) -> None:
    """Check that each word that a pipe gets stands unbroken on the terminal."""
    missing = set(piped.split()) - set(shown.split())
    # Titles of columns under a row are in lower case, and stand only where they say
    # something; so do cells without a value.
    assert {cell for cell in missing if not cell.isupper()} <= {"-"}


def test_a_pipe_gets_one_line_for_each_row(busy: Served, forewarn: Run) -> None:
    head, *rows, summary = forewarn("operations").out.splitlines()
    assert len(rows) == 3
    assert any(row.endswith(" and at most 1 at once (+1 more)") for row in rows)
    assert summary.startswith("3 operations, 6 VMs: ")
    assert all(len(row) > len(head) for row in rows[1:])


def test_commands_are_never_broken() -> None:
    command = "`forewarn restore rack13-host01`"
    why = f"host rack13-host01 failed (down until {command}) (+4 more)"
    for width in (24, 30, 40, 60, 90):
        folded = tables.folded(("HOST", "WAITS FOR"), [("h1", why)], width=width)
        (block,) = folded.blocks
        assert sum(command in line for line in block) == 1
        assert all(len(line) <= max(width, len(command) + 9) for line in block)
    attempt = "forewarn maintain rack13-host01 --impact live-migrate"
    folded = tables.folded(("HOST", "TRY"), [("h1", attempt)], width=24)
    assert folded.blocks == [["h1", f"    try: {attempt}"]]
    rows = [("h1", why)] * 51
    folded = tables.folded(("HOST", "WAITS FOR"), rows, width=60)
    assert folded.blocks[0] == ["h1    host rack13-host01 failed (down until …"]


CELLS = st.text(alphabet="abc -", max_size=60).map(str.strip)


@given(
    rows=st.lists(st.tuples(*[CELLS] * 5), min_size=1, max_size=5),
    width=st.integers(1, 120),
)
def test_words_are_not_split_and_lines_are_as_short_as_possible(
    rows: list[tuple[str, ...]], width: int
) -> None:
    columns = ("FIRST", "SECOND", "THIRD", "FOURTH", "FIFTH")
    folded = tables.folded(columns, rows, width=width)
    blocks = folded.blocks
    assert folded.head.startswith("FIRST")
    for cells, block in zip(rows, blocks, strict=True):
        shown = [word for line in block for word in line.split()]
        for word in " ".join(cells).split():
            assert word in shown or word == "-"
        for line in block[1:]:
            assert len(line) <= max(width, tables.MARGIN) or len(line.split()) <= 2
    widest = max(len(cells[0]) for cells in [columns, *rows])
    assert all(len(block[0]) <= max(width, widest) for block in blocks)


def test_long_table_has_one_line_per_row_and_names_incomplete_columns() -> None:
    columns = ("HOST", "WAITS FOR", "NOTE")
    rows = [(f"h{number}", "word " * 30, "note " * 30) for number in range(51)]
    folded = tables.folded(columns, rows, width=24)
    assert [len(block) for block in folded.blocks] == [1] * 51
    assert folded.left_out == ("WAITS FOR", "NOTE")
    assert folded.head == "HOST"
    folded = tables.folded(columns, rows[:50], width=24)
    assert all(len(block) > 1 for block in folded.blocks)
    assert folded.left_out == ()


def test_long_table_shortens_the_first_column_without_space_between_words() -> None:
    columns = ("HOST", "WAITS FOR", "VMS")
    rows = [("h0", "operation op-1 is on VM-0123456789", "2")] * 51
    folded = tables.folded(columns, rows, width=35)
    assert folded.head == "HOST  WAITS FOR                 VMS"
    assert folded.blocks[0] == ["h0    operation op-1 is on …    2"]
    assert folded.left_out == ("WAITS FOR",)
    rows = [("h0", "VM-0123456789" * 5, "2")] * 51
    assert tables.folded(columns, rows, width=35).blocks[0][0].split() == [
        "h0",
        tables.CUT,
        "2",
    ]


def test_long_table_keeps_essential_columns_below_the_row() -> None:
    columns = ("OPERATION", "WHAT", "VMS", "WAITS FOR")
    rows = [("op-0", "reboot of host " + "h" * 40, "2", "a " * 90)] * 51
    folded = tables.folded(columns, rows, width=40, essential=2)
    assert folded.blocks[0][0].split()[:2] == ["op-0", "2"]
    assert " ".join(folded.blocks[0][1:]).split()[-1] == "h" * 40
    assert folded.left_out == ("WAITS FOR",)


def test_note_about_incomplete_columns_fits_on_the_terminal() -> None:
    columns = ["OPERATION", *(f"COLUMN-{number}" for number in range(12))]
    rows = [["op-0", *["long words " * 9] * 12]] * 51
    shown = drawing.drawn(columns, rows, width=60).plain
    assert "COLUMN-11)" in shown
    assert all(len(line) <= 60 for line in shown.splitlines())


def test_long_list_of_operations_names_each_target_on_a_narrow_terminal() -> None:
    row = ("op-w1380000000000001", "Announced", f"reboot of host {'h' * 50}", "2")
    rows = [(*row, "0/2", "2030-01-01T00:15:00Z", "a reason " * 20)] * 51
    shown = drawing.drawn(
        OPERATIONS.columns, rows, width=80, essential=OPERATIONS.essential
    )
    assert shown.plain.count("h" * 50) == 51


def test_blocks_that_fit_in_a_height_are_counted() -> None:
    blocks = [["a"], ["b", "under b"], ["c"]]
    assert [tables.fitting(blocks, height=height) for height in range(5)] == [
        0,
        1,
        1,
        2,
        3,
    ]


def test_counts_are_formatted() -> None:
    assert texts.count(1, "VM") == "1 VM"
    assert texts.count(6000, "VM") == "6,000 VMs"
    assert tables.counts(["Done", "Failed", "Done"]) == "2 Done, 1 Failed"


def test_wide_characters_take_two_columns() -> None:
    head, first, second = tables.aligned(
        ("NAME", "X"), [("主机一", "1"), ("h\u0301", "2")]
    )
    assert head == "NAME    X"
    assert first == "主机一  1"
    assert second == "h\u0301       2"


def test_table_without_extras_has_the_same_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [("h1", "a reason of several words")]
    assert tables.lines(("HOST", "WHY"), rows) == [
        "HOST  WHY",
        "h1    a reason of several words",
    ]
    monkeypatch.setattr("sys.stdout", Screen())
    monkeypatch.setenv("COLUMNS", "24")
    assert tables.lines(("HOST", "WHY"), rows) == [
        "HOST",
        "h1",
        "    why: a reason of",
        "      several words",
    ]


def test_instants_are_shown_without_a_fraction_of_a_second() -> None:
    assert tables.second("2030-01-01T00:00:59.999999Z") == "2030-01-01T00:00:59Z"
    assert tables.second("2030-01-01T00:00:59Z") == "2030-01-01T00:00:59Z"
    assert tables.second("-") == "-"


def test_times_in_cells_have_whole_seconds_and_other_texts_stay() -> None:
    rows = [("web_0", "2030-01-01T00:00:59.999999Z"), ("v1.2", "at 3.5Z")]
    for shown in (
        tables.aligned(("NAME", "SINCE"), rows),
        [
            line
            for block in tables.folded(("NAME", "SINCE"), rows, width=80).blocks
            for line in block
        ],
    ):
        assert any("2030-01-01T00:00:59Z" in line for line in shown)
        assert any("v1.2" in line and "at 3.5Z" in line for line in shown)
