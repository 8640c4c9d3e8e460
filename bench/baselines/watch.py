"""The watcher that many people write: a loop around urllib.

It approves what it has prepared for, and knows nothing else: no fault, no deadline,
no restart.
"""

import json
import subprocess
import sys
import time
import urllib.request

PATH = "/metadata/scheduledevents?api-version=2020-07-01"


def main(url: str, handler: str, pause: float) -> None:
    """Watch until somebody ends it."""
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
    """Return the document, or send something."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url + PATH, data=data, headers={"Metadata": "true"}
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.loads(answer.read() or b"{}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
