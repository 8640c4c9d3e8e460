"""What happened, as lines that a newcomer can follow."""

import os
import sys
import threading
import time

COLOURS = {
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
    """Prints who saw or did what, when; remembers what was seen."""

    def __init__(self) -> None:
        """Begin at second 0; colours only where they can be seen."""
        self.all_seen = True
        self._began = time.monotonic()
        self._colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._lock = threading.Lock()
        self._checks = 0

    def head(self, title: str) -> None:
        """Begin a new part of the story."""
        self._print(f"\n{self._paint(title, '1')}")

    def say(self, who: str, what: str, *, tenant: str = "", bold: bool = False) -> None:
        """Tell that somebody did or saw something."""
        seconds = time.monotonic() - self._began
        colour = COLOURS.get(tenant or who, "0")
        if bold:
            colour = f"1;{colour}"
        moment = self._paint(f"{seconds:5.1f} s", DIM)
        self._print(f"{moment}  {self._paint(f'{who:<9}', colour)} {what}")

    def check(self, what: str, *, seen: bool) -> None:
        """Tell whether something that matters was seen on the wire."""
        self._checks += 1
        self.all_seen = self.all_seen and seen
        mark = self._paint("✔", GOOD) if seen else self._paint("✘ not seen:", BAD)
        self._print(f"         {mark} {what}")

    def end(self) -> None:
        """Say how it ended, and what to try next."""
        seconds = time.monotonic() - self._began
        if not self.all_seen:
            self._print(f"\n{self._paint('Not everything was seen.', BAD)}")
            return
        self._print(
            f"\n{self._paint('All of it was seen on the wire', GOOD)}: "
            f"{self._checks} things in {seconds:.0f} seconds.\n"
            "\nNext: a fleet of your own. README.md has one to copy; then\n"
            "  . .venv/bin/activate\n"
            "  forewarn serve --fleet fleet.toml\n"
            "and an agent in each VM: README.md shows one too. All commands:\n"
            "  forewarn --help"
        )

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text

    def _print(self, line: str) -> None:
        with self._lock:
            print(line, flush=True)
