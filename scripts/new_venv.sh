#!/bin/sh
# Make a virtual environment unless it is there: new_venv.sh PYTHON VENV
set -eu
python=$1 venv=$2

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "eaglewatch needs Python 3.11 or newer; $python is $("$python" -V 2>&1). Use: make PYTHON=/path/to/python3.11" >&2
    exit 2
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || {
    echo "could not make a virtual environment; on Debian: apt-get install python3-venv" >&2
    exit 2
}
