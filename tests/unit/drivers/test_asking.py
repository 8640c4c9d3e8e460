"""`observe` and `probe` programs: a bounded number at once, and none without a file."""

import threading
from pathlib import Path

from forewarn.clock import SystemClock
from forewarn.drivers.programs import PROGRAMS_AT_ONCE_MAX, Answer, Asker
from tests.support.open_files import no_more_files

QUESTIONS = 4
"""Looks at once, each with as many programs as it may have."""


def test_concurrent_observers_share_the_program_limit(tmp_path: Path) -> None:
    """Each program notes how many there are besides it, and waits for others."""
    program = tmp_path / "look"
    program.write_text(
        '#!/bin/sh\nhere="$1"\nmkdir "$here/$$" && ls -d "$here"/[0-9]* | wc -l'
        '\nsleep 0.05\nrmdir "$here/$$"\n'
    )
    program.chmod(0o755)
    there = tmp_path / "there"
    there.mkdir()
    asker = Asker(SystemClock())
    answers: list[Answer] = []

    def look() -> None:
        arguments = (str(program), str(there))
        questions = {f"v{number}": arguments for number in range(PROGRAMS_AT_ONCE_MAX)}
        answers.extend(asker.ask(questions, parallel=PROGRAMS_AT_ONCE_MAX).values())

    looks = [threading.Thread(target=look) for _ in range(QUESTIONS)]
    for thread in looks:
        thread.start()
    for thread in looks:
        thread.join()
    assert len(answers) == QUESTIONS * PROGRAMS_AT_ONCE_MAX
    assert {answer.status for answer in answers} == {0}
    assert max(int(answer.text) for answer in answers) <= PROGRAMS_AT_ONCE_MAX


def test_result_is_unknown_if_no_file_can_be_opened() -> None:
    asker = Asker(SystemClock())
    command = ("/bin/true",)
    with no_more_files():
        answers = asker.ask({"v0": command, "v1": command}, parallel=2)
    assert answers == {"v0": Answer(status=None), "v1": Answer(status=None)}
    assert asker.ask({"v0": command}, parallel=1)["v0"].status == 0
