"""The option of the search, and its report at the end of a run."""

import pytest

SEARCH = "search"
"""The property under which a test records the size of its search."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--search-states",
        type=int,
        default=0,
        metavar="N",
        help="search the biggest world too, until N states are known",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    texts = [
        str(text)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == SEARCH
    ]
    if texts:
        terminalreporter.section("what was searched")
        terminalreporter.write_line("\n".join(texts))
