"""A typical watcher: a loop around urllib.

It approves events after preparation. It handles no errors, no deadlines and no
restarts.
"""

import json
import subprocess
import sys
import time
import urllib.request

PATH = "/metadata/scheduledevents?api-version=2020-07-01"


def main(url: str, handler: str, pause: float) -> None:
    """Watch until the process is killed."""
    seen: set[str] = set()
    while True:
        for event in ask(url)["Events"]:
            event_id = event["EventId"]
            if event_id in seen:
                continue
            seen.add(event_id)
            if subprocess.run([handler], check=False).returncode == 0:
                ask(url, {"StartRequests": [{"EventId": event_id}]})
        time.sleep(pause)


def ask(url: str, body: object = None) -> dict[str, list[dict[str, str]]]:
    """GET the document, or POST a body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url + PATH, data=data, headers={"Metadata": "true"}
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.loads(answer.read() or b"{}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
