"""Tests of the same service with unittest, without plugin and fixture.

python -m unittest examples/testing/test_with_unittest.py
"""

import os
import sys
import unittest
from pathlib import Path

from forewarn.testing import ScheduledEvents

sys.path.insert(0, str(Path(__file__).parent))

from service import Service


class ServiceTest(unittest.TestCase):
    """Tests of the service during events of its VM."""

    def setUp(self) -> None:
        """Start a world with one VM, and point the service to it."""
        self.world = self.enterContext(ScheduledEvents(vms=1))
        before = os.environ.get("FOREWARN_ENDPOINT")
        os.environ.update(self.world.environment())
        if before is None:
            self.addCleanup(os.environ.pop, "FOREWARN_ENDPOINT")
        else:
            self.addCleanup(os.environ.__setitem__, "FOREWARN_ENDPOINT", before)

    def test_it_leaves_when_it_is_deleted(self) -> None:
        """A Terminate is approved as soon as the jobs are done."""
        service = Service("web_0")
        event = self.world.vm("web_0").terminate()
        service.look()
        event.assert_approved(by="web_0")
        assert service.is_leaving

    def test_it_asks_nobody_when_its_vm_has_failed(self) -> None:
        """An event that has already started needs no approval."""
        service = Service("web_0")
        event = self.world.vm("web_0").fail()
        service.look()
        event.assert_not_approved()
        assert service.is_leaving


if __name__ == "__main__":
    unittest.main()
