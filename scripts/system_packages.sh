#!/bin/sh
# The programs that the tests drive: installed here when missing and we are root on a Debian system, else named.
set -eu
PATH=$PATH:/usr/sbin:/sbin

missing=
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need sshd openssh-server
need ssh openssh-client
need tmux tmux
need gcc gcc
need fish fish
need csh csh
need dash dash
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing what the tests drive:$missing"
    export DEBIAN_FRONTEND=noninteractive
    # Only the programs are wanted: no sshd may start listening because somebody runs our tests.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        trap 'rm -f $policy' EXIT
    fi
    log=$(mktemp)
    { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1 || {
        tail -20 "$log" >&2
        exit 1
    }
    rm -f "$log"
else
    echo "the tests need these Debian packages (or their like):$missing" >&2
    echo "install them (sudo apt-get install$missing), then run make test again" >&2
    exit 1
fi
