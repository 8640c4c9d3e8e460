#!/usr/bin/env python3
"""A client without error handling, which expects every response to be valid.

It is meant to fail: `forewarn simulate drill.toml` shows why. A robust client for the
same job is examples/clients/watch.py.
"""

import json
import os
import time
import urllib.request

URL = (
    os.environ["FOREWARN_ENDPOINT"] + "/metadata/scheduledevents?api-version=2020-07-01"
)
HEADERS = {"Metadata": "true"}

while True:
    with urllib.request.urlopen(urllib.request.Request(URL, headers=HEADERS)) as answer:
        document = json.load(answer)
    for event in document["Events"]:
        body = json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode()
        urllib.request.urlopen(urllib.request.Request(URL, data=body, headers=HEADERS))
    time.sleep(1)
