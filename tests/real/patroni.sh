#!/bin/sh
# Tries the handler `patroni` beside a real Patroni, in half a minute:
#
#     sh tests/real/patroni.sh
#
# Patroni is put into .build/patroni, an environment of its own, once. PostgreSQL must
# be there as Debian's package; nothing else is installed, and nothing goes on running.
set -eu
cd "$(dirname "$0")/../.."

# For root the nodes run as nobody, who may not look where root's own Python is.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
if [ ! -x .build/patroni/bin/patroni ]; then
    "$python" -m venv --without-pip --clear .build/patroni
    .venv/bin/python -m pip --python .build/patroni/bin/python install -qq \
        --require-hashes -r requirements/patroni.txt
fi
exec .venv/bin/python -m pytest -q tests/real/test_patroni.py
