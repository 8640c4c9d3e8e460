"""Fixtures that the random lives share."""

import pytest

from forewarn.campaigns import gate
from forewarn.control.execution import release
from forewarn.instants import MINUTE


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at held operations and campaigns rarely: days would be lived by the minute."""
    monkeypatch.setattr(release, "LOOK_AGAIN_AFTER", 40 * MINUTE)
    monkeypatch.setattr(gate, "LOOK_AGAIN_AFTER", 40 * MINUTE)
