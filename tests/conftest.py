"""Options and settings that all tests share."""

import hypothesis
import pytest

pytest_plugins = ["pytester"]

# `quick` gives the same examples on every run, so that a failure is a change's
# own. `--hypothesis-profile=deep` looks further, with new examples each time. No
# deadline in either: how long one example takes says more about the machine.
hypothesis.settings.register_profile(
    "quick", derandomize=True, deadline=None, print_blob=True
)
hypothesis.settings.register_profile(
    "deep", max_examples=2_000, deadline=None, print_blob=True
)
hypothesis.settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="write what the transcripts gave back into their files",
    )
