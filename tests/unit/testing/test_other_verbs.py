"""Verbs that the test kit has no place for: the hint names another way."""

import pytest

from forewarn.protocol.errors import NotFoundError
from forewarn.testing import ScheduledEvents


@pytest.mark.parametrize("verb", ["campaign-start", "campaign-pause", "brake-on"])
def test_a_verb_that_is_not_about_hosts_or_vms_has_another_way(verb: str) -> None:
    with ScheduledEvents(vms=1) as world, pytest.raises(NotFoundError) as refused:
        world.order("bios", verb=verb)
    assert f'there is no verb "{verb}"' in refused.value.message
    assert "FOREWARN_URL" in refused.value.hint
