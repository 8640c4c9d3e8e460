#!/bin/bash
# A typical watcher: a loop around curl. It approves events after preparation. It handles
# no errors, no deadlines and no restarts.
url="$1/metadata/scheduledevents?api-version=2020-07-01" handler=$2 pause=$3 seen=' '
while :; do
	document=$(curl -s -m 5 -H Metadata:true "$url")
	for id in $(grep -o '"EventId": *"[^"]*"' <<<"$document" | cut -d'"' -f4); do
		[[ $seen == *" $id "* ]] && continue
		seen+="$id "
		"$handler" && curl -s -m 5 -H Metadata:true \
			-d "{\"StartRequests\":[{\"EventId\":\"$id\"}]}" "$url" >/dev/null
	done
	sleep "$pause"
done
