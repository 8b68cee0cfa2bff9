#!/bin/sh
# Make or update the virtual environment: make_venv.sh PYTHON VENV EXTRAS
set -eu
python=$1 venv=$2 extras=$3

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "eaglewatch needs Python 3.11 or newer; $python is $("$python" -V 2>&1). Use: make PYTHON=/path/to/python3.11" >&2
    exit 2
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || {
    echo "could not make a virtual environment; on Debian: apt-get install python3-venv" >&2
    exit 2
}
echo "installing eaglewatch[$extras] into $venv (the first time takes some minutes)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$extras]"
case ",$extras," in
*,rehearsal,*) "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt speculators hs-connectors ;;
esac
