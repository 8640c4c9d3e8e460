"""The search of visits in a process of its own, which is small.

Each step of the search forks its process, which copies the table of all pages. A process
of pytest has hundreds of megabytes of tests, and a fork of it takes ten times as long.
"""

import gc
import pickle
import subprocess
import sys

from tests.search.reached import NO_LIMIT
from tests.search.visits.bugs import PLANTED
from tests.search.visits.explore import Report, Search
from tests.search.visits.settings import Setting


def search(setting: Setting, *, limit: int = NO_LIMIT, planted: str = "") -> Report:
    """Search a world until `limit` states are known, or all are.

    `planted` is the text of the bug that is planted in the service.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=pickle.dumps((setting, limit, planted)),
        stdout=subprocess.PIPE,
        check=True,
    )
    report = pickle.loads(done.stdout)
    assert isinstance(report, Report)
    return report


def _answer(setting: Setting, limit: int, planted: str) -> bytes:
    """Search in this process; return the report for the one that started it."""
    for bug in PLANTED:
        if bug.what == planted:
            setattr(bug.home, bug.function, bug.instead)
    # Objects that no collection visits stay shared by all forks.
    gc.freeze()
    return pickle.dumps(Search(setting, limit=limit).run())


if __name__ == "__main__":
    sys.stdout.buffer.write(_answer(*pickle.load(sys.stdin.buffer)))
