"""Runs of pytest inside a test, as a developer's own test run has the plugin."""

import pytest

HEAD = """
import os
from pathlib import Path
import pytest
from forewarn.testing import ScheduledEvents
from tests.support.processes import eventually
from tests.support.programs import Program
"""


def run(pytester: pytest.Pytester, text: str, *words: str) -> pytest.RunResult:
    pytester.makepyfile(HEAD + text)
    return pytester.runpytest_inprocess(
        *("-p", "no:cacheprovider", "-p", "no:schemathesis"),
        *("-W", "error", "--strict-markers", *words),
    )
