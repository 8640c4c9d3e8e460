#!/bin/sh
# Prints the signature that a webhook must have, calculated with openssl.
# Usage: verify.sh SECRET WEBHOOK_ID WEBHOOK_TIMESTAMP < body
set -eu
key=$(printf %s "${1#whsec_}" | openssl base64 -d -A | od -An -vtx1 | tr -d ' \n')
{ printf '%s.%s.' "$2" "$3"; cat; } |
	openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary |
	openssl base64 -A | sed 's/^/v1,/'
echo
