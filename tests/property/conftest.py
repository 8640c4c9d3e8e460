"""What the random lives share."""

import pytest

from forewarn.control.execution import release
from forewarn.instants import MINUTE


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at held operations rarely: days of holds would be lived by the minute."""
    monkeypatch.setattr(release, "LOOK_AGAIN_AFTER", 40 * MINUTE)
