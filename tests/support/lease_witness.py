"""An independent judge of who leads: what the database and the programs of drivers saw.

The database writes down each change of the lease, and each program of a driver writes down
which replica started it. Nothing of forewarn takes part: no replica says of itself that it
leads. Times are seconds since the boot of this machine.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg

STEP_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
"""The resolution of the times of programs."""

LATE_SECONDS = 0.5
"""Maximum delay between the driver call and its program: two processes start in
between, and each can wait for a core."""

TABLE = """
CREATE TABLE IF NOT EXISTS witnessed (term bigint, holder text, at double precision);
CREATE OR REPLACE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (old.term, old.holder) IS DISTINCT FROM (new.term, new.holder) THEN
    INSERT INTO witnessed VALUES
      (new.term, new.holder, extract(epoch FROM clock_timestamp()));
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER witness AFTER UPDATE ON lease
  FOR EACH ROW EXECUTE FUNCTION witness();
INSERT INTO witnessed SELECT term, holder, 0 FROM lease;
"""


@dataclass(frozen=True, slots=True)
class Holding:
    """The holder of the lease from an instant on."""

    term: int
    holder: str
    """The name of a replica; empty: no replica."""
    since: float


@dataclass(frozen=True, slots=True)
class Act:
    """The start of a program by the driver of a replica."""

    replica: str
    at: float
    what: str


class Witness:
    """The history of the lease in a database."""

    def __init__(self, url: str) -> None:
        """Let it write down each change from now on."""
        self._url = url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(TABLE.encode())
            before = uptime()
            cursor = connection.execute(
                "SELECT extract(epoch FROM clock_timestamp())::float8"
            )
            [(now,)] = cursor.fetchall()
            self._booted = now - (before + uptime()) / 2

    def holdings(self) -> list[Holding]:
        """Return what it has written down, in order."""
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                "SELECT term, holder, at FROM witnessed ORDER BY at, term"
            )
            # The key of a holder is its name and a random part.
            return [
                Holding(term, key.rpartition(" ")[0], at - self._booted)
                for term, key, at in rows.fetchall()
            ]


def uptime() -> float:
    """Return the time of this machine."""
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])


def acts(file: Path) -> list[Act]:
    """Return the lines `REPLICA TICKS WHAT` that programs have written, by their starts.

    TICKS is field 22 of /proc/PID/stat: when the kernel made the process.
    """
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    rows = [line.split() for line in lines]
    all_acts = [
        Act(name, int(ticks) * STEP_SECONDS, what) for name, ticks, what in rows
    ]
    return sorted(all_acts, key=lambda act: act.at)


def faults(held: Sequence[Holding], acted: Iterable[Act]) -> list[str]:
    """Return a sentence for each act of a replica that did not lead."""
    errors: list[str] = []
    spans: dict[int, list[Act]] = {}
    for act in acted:
        own = [hold for hold in held if hold.holder == act.replica]
        led = [hold for hold in own if hold.since <= act.at + STEP_SECONDS]
        if not led:
            errors.append(f"{act} before {act.replica} has led")
            continue
        spans.setdefault(led[-1].term, []).append(act)
        after = held[held.index(led[-1]) + 1 :]
        ended = min((hold.since for hold in after), default=act.at)
        if act.at > ended + LATE_SECONDS:
            late = act.at - ended
            errors.append(f"{act}: {late:.2f} s after the end of term {led[-1].term}")
    for (term, one), (other, two) in pairwise(sorted(spans.items())):
        if two[0].at + STEP_SECONDS < one[-1].at:
            errors.append(
                f"the acts of terms {term} and {other} overlap: {one[-1]} is after {two[0]}"
            )
    return errors
