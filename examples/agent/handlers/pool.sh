#!/bin/sh
# Removes this VM from its load balancer's pool before an event, and adds it again after
# it: the health check of the balancer tests whether the file READY exists.
set -eu
: "${READY:=/run/web/ready}" "${PORT:=443}"

connections() {
    ss -Htn state established "sport = :$PORT" 2>/dev/null | wc -l
}

case $FOREWARN_EVENT_PHASE in
prepare)
    rm -f "$READY"
    # End two seconds before the deadline, at which the agent would kill this program.
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
