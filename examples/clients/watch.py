#!/usr/bin/env python3
"""Watch Scheduled Events from inside a VM, prepare, approve. Standard library only.

    watch.py [PREPARE-COMMAND …]

For each event that names this VM, runs PREPARE-COMMAND with the event as JSON on
standard input, and approves the event if the command succeeds. Without a command
it only prints the events. FOREWARN_ENDPOINT is the endpoint (default: the metadata
address), and FOREWARN_POLLS the number of polls before it ends.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from typing import Any

Event = dict[str, Any]

ENDPOINT = os.environ.get("FOREWARN_ENDPOINT", "http://169.254.169.254")
EVENTS = f"{ENDPOINT}/metadata/scheduledevents?api-version=2020-07-01"
NAME = f"{ENDPOINT}/metadata/instance/compute/name?api-version=2021-02-01&format=text"
FIRST_ANSWER_SECONDS = 130
"""The first response can take two minutes, since it enables Scheduled Events."""

# Metadata never goes through a proxy.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, body: bytes | None = None) -> bytes:
    """Return the response's bytes; raises OSError for other statuses than 2xx."""
    request = urllib.request.Request(url, data=body, headers={"Metadata": "true"})
    with opener.open(request, timeout=FIRST_ANSWER_SECONDS) as answer:
        return answer.read()


def say(text: str) -> None:
    """Print a line with the time of day."""
    print(time.strftime("%H:%M:%S", time.gmtime()), text, flush=True)


def my_name() -> str:
    """Return this VM's name as it appears in events."""
    while True:
        try:
            return ask(NAME).decode()
        except OSError as error:
            say(f"waiting for the metadata service: {error}")
            time.sleep(1)


def prepare(event: Event, command: list[str]) -> None:
    """Run the preparation and approve the event if it succeeded."""
    done = subprocess.run(command, input=json.dumps(event).encode(), check=False)
    if done.returncode != 0:
        say(f"not prepared, so {event['EventId']} starts at NotBefore")
        return
    approval = {"StartRequests": [{"EventId": event["EventId"]}]}
    ask(EVENTS, json.dumps(approval).encode())
    say(f"approved {event['EventId']}")


def look(me: str, known: dict[str, Event], command: list[str]) -> dict[str, Event]:
    """Poll once; return the events that concern this VM, by id."""
    document = json.loads(ask(EVENTS))
    mine = {
        event["EventId"]: event
        for event in document["Events"]
        if me in event["Resources"]
    }
    for event_id, event in mine.items():
        if known.get(event_id, {}).get("EventStatus") == event["EventStatus"]:
            continue
        what = f"{event['EventType']} {event['EventStatus']} {event_id}"
        say(f"{what}, not before {event['NotBefore']}")
        if event["EventStatus"] == "Scheduled" and command:
            prepare(event, command)
    for event_id in known.keys() - mine.keys():
        say(f"over: {event_id}")
    return mine


def main() -> None:
    """Watch until it is stopped."""
    me = my_name()
    say(f"I am {me}")
    known: dict[str, Event] = {}
    polls = int(os.environ.get("FOREWARN_POLLS", "0"))
    while True:
        try:
            known = look(me, known, sys.argv[1:])
        except (OSError, ValueError, KeyError) as error:
            say(f"no news: {error}")  # The next poll follows in a second.
        polls -= 1
        if polls == 0:
            return
        time.sleep(1)


if __name__ == "__main__":
    main()
