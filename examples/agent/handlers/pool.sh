#!/bin/sh
# Takes this VM out of its load balancer's pool before an event, and back in after it:
# the balancer's health check looks whether the file READY is there.
set -eu
: "${READY:=/run/web/ready}" "${PORT:=443}"

connections() {
    ss -Htn state established "sport = :$PORT" 2>/dev/null | wc -l
}

case $FOREWARN_EVENT_PHASE in
prepare)
    rm -f "$READY"
    # Two seconds before the deadline it is better to go than to be killed.
    left=$((FOREWARN_EVENT_TIMEOUT - 2))
    while [ "$(connections)" -gt 0 ] && [ "$left" -gt 0 ]; do
        sleep 1
        left=$((left - 1))
    done
    echo "out of the pool for a $FOREWARN_EVENT_TYPE, $(connections) connections left"
    ;;
recover)
    mkdir -p "$(dirname "$READY")"
    touch "$READY"
    echo "back in the pool"
    ;;
esac
