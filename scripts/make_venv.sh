#!/bin/sh
# Make or update the virtual environment: make_venv.sh PYTHON VENV EXTRAS
set -eu
python=$1 venv=$2 extras=$3

"$(dirname "$0")/new_venv.sh" "$python" "$venv"
echo "installing eaglewatch[$extras] into $venv (the first time takes some minutes)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$extras]"
case ",$extras," in
*,rehearsal,*) "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt speculators hs-connectors ;;
esac
