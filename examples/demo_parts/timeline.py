"""The timeline of the demo, for readers who do not know forewarn."""

import os
import sys
import threading
import time

COLORS = {
    "operator": "36",
    "forewarn": "33",
    "shop": "32",
    "bank": "35",
    "you": "36",
    "agent": "32",
    "simulator": "33",
}
GOOD, BAD, DIM = "32", "31", "2"


class Timeline:
    """Prints who did or saw what and when, and records missing steps."""

    def __init__(self) -> None:
        """Start at second 0, with colors only on a terminal."""
        self.all_seen = True
        self._began = time.monotonic()
        self._has_colors = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._lock = threading.Lock()
        self._checks = 0

    def head(self, title: str) -> None:
        """Print the title of a new part."""
        self._print(f"\n{self._paint(title, '1')}")

    def say(self, who: str, what: str, *, tenant: str = "", bold: bool = False) -> None:
        """Print what one party did or saw."""
        seconds = time.monotonic() - self._began
        color = COLORS.get(tenant or who, "0")
        if bold:
            color = f"1;{color}"
        moment = self._paint(f"{seconds:5.1f} s", DIM)
        self._print(f"{moment}  {self._paint(f'{who:<9}', color)} {what}")

    def check(self, what: str, *, seen: bool) -> None:
        """Print whether an expected step was seen by the clients."""
        self._checks += 1
        self.all_seen = self.all_seen and seen
        mark = self._paint("✔", GOOD) if seen else self._paint("✘ not seen:", BAD)
        self._print(f"         {mark} {what}")

    def end(self, offer: str) -> None:
        """Print the result, an offer and what to try next."""
        seconds = time.monotonic() - self._began
        if not self.all_seen:
            self._print(f"\n{self._paint('Not everything was seen.', BAD)}")
            return
        self._print(
            f"\n{self._paint('All of it was seen on the wire', GOOD)}: "
            f"{self._checks} things in {seconds:.0f} seconds.\n"
            f"\n{offer}\n"
            "\nNext: a fleet of your own. README.md has one to copy; then\n"
            "  . .venv/bin/activate\n"
            "  forewarn serve --fleet fleet.toml\n"
            "and an agent in each VM: README.md shows one too. All commands:\n"
            "  forewarn --help"
        )

    def _paint(self, text: str, color: str) -> str:
        return f"\x1b[{color}m{text}\x1b[0m" if self._has_colors else text

    def _print(self, line: str) -> None:
        with self._lock:
            print(line, flush=True)
