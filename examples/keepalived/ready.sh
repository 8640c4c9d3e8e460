#!/bin/sh
# Succeeds if a replica behind the HAProxy of this machine is ready. HAProxy has checked the
# certificate, which names the replicas and not this machine.
exec curl --silent --insecure --fail --max-time 1 --output /dev/null --header "Host: localhost" "$1"
