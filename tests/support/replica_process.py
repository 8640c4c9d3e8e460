"""A replica of a cluster in PostgreSQL as a process: it leads, and writes when it does.

    python -m tests.support.replica_process URL KEY [within]

It prints a line for each term and each commit. With `within`, it stops inside its first
transaction until a line comes on its standard input.
"""

import sys
import threading

from forewarn.clock import SystemClock
from forewarn.cluster.port import LeaseRow
from forewarn.cluster.times import Times
from forewarn.fleet.model import Host
from forewarn.service.cluster.keeper import Keeper
from forewarn.store.port import NotLeaderError, Transaction
from forewarn.store.postgres.cluster import PostgresCluster
from forewarn.store.postgres.store import PostgresStore

TIMES = Times(lease=1.5)


class Process:
    """The replica."""

    def __init__(self, url: str, key: str, *, within: bool) -> None:
        self.url, self.key, self.within = url, key, within
        self.led: list[int] = []
        self.told = threading.Event()

    def lead(self, row: LeaseRow) -> None:
        self.led.append(row.term)
        self.told.set()

    def follow(self) -> None:
        self.say("follows")

    def say(self, text: str) -> None:
        # One write: two threads say something at the same time.
        print(f"{text}\n", end="", flush=True)  # noqa: T201

    def run(self) -> None:
        """Lead once, and write until the term ends."""
        keeper = Keeper(
            PostgresCluster(self.url),
            SystemClock(),
            self,
            key=self.key,
            url="",
            times=TIMES,
        )
        keeper.start()
        self.told.wait()
        term = self.led[0]
        self.say(f"leads {term}")
        store = PostgresStore(self.url, term=term)
        try:
            for number in range(1_000_000):
                store.transact(lambda tx, number=number: self.write(tx, number))
                self.say(f"committed {self.key}.{number}")
                if not sys.stdin.readline():
                    break
        except NotLeaderError:
            self.say("refused")
        keeper.lost(term)
        sys.stdin.readline()
        keeper.stop()

    def write(self, tx: Transaction, number: int) -> None:
        tx.add(Host(name=f"{self.key}.{number}", capacity=0))
        if self.within:
            self.within = False
            self.say("within")
            sys.stdin.readline()


if __name__ == "__main__":
    Process(sys.argv[1], sys.argv[2], within="within" in sys.argv).run()
