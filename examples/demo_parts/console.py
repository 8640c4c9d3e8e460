"""The console at the end of the demo: the service of the campaign goes on until Ctrl-C."""

import signal
from collections.abc import Callable
from contextlib import suppress

OFFER = "To see the campaign in a browser, with its service: make demo CONSOLE=1"
OPENED = "The service of the campaign goes on: the link to its console is below."


def stay(show_link: Callable[[], None], *, url: str) -> None:
    """Show the link to the console of the service at `url`, and wait for Ctrl-C."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        show_link()
        print(
            "\nGive it work in another terminal, and see it there:\n"
            "  . .venv/bin/activate\n"
            f"  FOREWARN_URL={url} forewarn maintain r2 --impact freeze\n"
            "Ctrl-C ends it, and removes its files.",
            flush=True,
        )
        signal.pause()
