"""Check that `docs/explanation/verification.md` describes what a usual run does."""

from pathlib import Path

from tests.fuzz.conftest import CONNECTIONS, REQUESTS
from tests.fuzz.test_crowd import SLOW
from tests.fuzz.test_http import REPEATED_ONE_IN
from tests.fuzz.test_sockets import SHARE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "verification.md"


def test_page_states_the_request_count_of_a_default_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"# {REQUESTS:,} requests, {CONNECTIONS} idle connections" in text
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()]
    usual = {row[0]: row[1] for row in rows if len(row) == 3}
    for what, count in {
        "requests of any kind, checked by both implementations": REQUESTS,
        "requests read by the fast path and by the parser": REQUESTS,
        "streams over a socket and without": REQUESTS // SHARE,
        "pollers that repeat a request, each next to one whose requests are split": (
            REQUESTS // REPEATED_ONE_IN
        ),
        f"idle connections in addition to {SLOW} slow ones, while one client polls": (
            CONNECTIONS
        ),
    }.items():
        assert usual[what] == f"{count:,}", what
