"""The programs of the driver as processes."""

import subprocess
from pathlib import Path

import pytest

from forewarn.drivers.qemu.commands import programs_of
from tests.support.fake_qemus import places_in

pytestmark = pytest.mark.system


def test_watching_program_ends_with_the_service(tmp_path: Path) -> None:
    command = programs_of(places_in(tmp_path)).watch
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        # The service is killed, and there is nothing to print.
        program.stdout.close()
        assert program.wait(60) == 0
