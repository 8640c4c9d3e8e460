#!/usr/bin/env bash
# Watch Scheduled Events from inside a VM, prepare, approve. Needs curl, sed and grep.
#
#   watch.sh [PREPARE-COMMAND …]
#
# For each event that names this VM, runs PREPARE-COMMAND with FOREWARN_EVENT_ID,
# FOREWARN_EVENT_TYPE and FOREWARN_EVENT_NOT_BEFORE in its environment, and approves
# the event if the command succeeds. Without a command, it only prints the events.
# FOREWARN_ENDPOINT is the URL of the endpoint (default: http://169.254.169.254).
# FOREWARN_POLLS is the number of polls after which to end (default: never).
set -u
export LC_ALL=C

endpoint=${FOREWARN_ENDPOINT:-http://169.254.169.254}
events_url="$endpoint/metadata/scheduledevents?api-version=2020-07-01"
name_url="$endpoint/metadata/instance/compute/name?api-version=2021-02-01&format=text"
prepare=${*:-}
polls=${FOREWARN_POLLS:-0}

# The first answer may take two minutes, because it enables Scheduled Events.
ask() { curl --silent --fail --noproxy '*' --max-time 130 -H Metadata:true "$@"; }

# member NAME: print the text of a member of the event on standard input. The document
# is compact JSON with known member names, so no JSON program is needed.
member() { sed -n "s/.*\"$1\":\"\\([^\"]*\\)\".*/\\1/p"; }

say() { printf '%s %s\n' "$(date -u +%H:%M:%S)" "$*"; }

until me=$(ask "$name_url") && [ -n "$me" ]; do
  say "waiting for the metadata service"
  sleep 1
done
say "I am $me"

# sed and grep cannot find a name that JSON writes with escapes. Exit with an error then,
# instead of missing all events.
case $me in
  *[!A-Za-z0-9._-]*) echo "watch.sh cannot find the name $me in JSON: use watch.py" >&2; exit 1 ;;
esac

declare -A handled=()
while :; do
  # Ignore a bad answer: the next poll follows in a second.
  document=$(ask "$events_url") || document=
  listed=" "
  while IFS= read -r event <&3; do
    id=$(member EventId <<<"$event")
    status=$(member EventStatus <<<"$event")
    listed+="$id "
    [ "${handled[$id]:-}" = "$status" ] && continue
    say "$(member EventType <<<"$event") $status $id, not before $(member NotBefore <<<"$event")"
    if [ "$status" != Scheduled ] || [ -z "$prepare" ]; then
      handled[$id]=$status
      continue
    fi
    if FOREWARN_EVENT_ID=$id FOREWARN_EVENT_TYPE=$(member EventType <<<"$event") \
      FOREWARN_EVENT_NOT_BEFORE=$(member NotBefore <<<"$event") bash -c "$prepare" </dev/null; then
      if ask -X POST -d "{\"StartRequests\":[{\"EventId\":\"$id\"}]}" "$events_url" >/dev/null; then
        handled[$id]=$status
        say "approved $id"
      else
        say "the approval of $id was not taken; once more with the next poll"
      fi
    else
      handled[$id]=$status
      say "not prepared, so $id is not approved; it starts at NotBefore"
    fi
  done 3< <(sed 's/{"EventId"/\n&/g' <<<"$document" |
    grep -E '"Resources":\[("[^"]*",)*"'"${me//./\\.}"'"' || true)
  if [ -n "$document" ]; then
    for id in "${!handled[@]}"; do
      if [ "${listed/" $id "/}" = "$listed" ]; then
        say "over: $id"
        unset "handled[$id]"
      fi
    done
  fi
  polls=$((polls - 1))
  [ "$polls" -eq 0 ] && exit 0
  sleep 1
done
