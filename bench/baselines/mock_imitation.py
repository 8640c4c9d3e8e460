"""The baseline of the simulator: a typical mock on Flask.

It has one route on Flask's server, which checks the header and the version, and renders
the document from a list in memory for each request. The port is the only argument.
"""

import importlib
import logging
import sys
from typing import Any

# Without types: Flask is not a dependency and need not be installed.
flask: Any = importlib.import_module("flask")

EVENTS: list[dict[str, Any]] = [
    {
        "EventId": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_0"],
        "NotBefore": "Sat, 21 Nov 2026 12:26:55 GMT",
        "Description": "Virtual machine is going to be restarted.",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
]

app = flask.Flask(__name__)


@app.route("/metadata/scheduledevents", methods=["GET"])
def events() -> Any:
    """Return the document."""
    if flask.request.headers.get("Metadata", "").lower() != "true":
        return flask.jsonify({"error": "the header is missing"}), 400
    if not flask.request.args.get("api-version"):
        return flask.jsonify({"error": "the version is missing"}), 400
    return flask.jsonify({"DocumentIncarnation": 2, "Events": EVENTS})


if __name__ == "__main__":
    # A log line per request would cost more than the response.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app.run(host="127.0.0.1", port=int(sys.argv[1]), threaded=True)
