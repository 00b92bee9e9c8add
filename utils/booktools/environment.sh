#!/bin/sh
# Makes .venv with one extra of pyproject.toml, or leaves it alone when it is up to date.
#
#   sh utils/booktools/environment.sh EXTRA
#
# PYTHON names the interpreter to start from; LOCK=none takes the newest releases that the ranges admit.
set -eu

extra=${1:?usage: environment.sh EXTRA, one of book, test, lab}
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
venv=.venv
lock=${LOCK:-requirements.txt}

fail() {
    echo "error: $*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed; ${PYTHON:-python3} is" \
        "$("${PYTHON:-python3}" --version 2>&1 || true). Name another with make PYTHON=/path/to/python3.12 ..."
}

# The state that an installation depends on; the folder is part of it, since scripts in .venv hold its path.
fingerprint() {
    if [ "$lock" = none ]; then cat pyproject.toml; else cat pyproject.toml "$lock"; fi | cksum
    echo "$root $lock"
}

is_installed() {
    [ -x "$venv/bin/python" ] && is_new_enough "$venv/bin/python" || return 1
    for stamp in "$@"; do
        if [ "$(cat "$venv/installed-$stamp" 2>/dev/null)" = "$(fingerprint)" ]; then return 0; fi
    done
    return 1
}

# One name for each package that pip takes up, so that a person sees it move.
show_progress() {
    awk '/^Collecting /     { sub(/[(<>=!~;\[].*/, "", $2); printf " %s", $2; fflush() }
         /^Processing .*whl/ { sub(/.*\//, "", $2); sub(/-.*/, "", $2); printf " %s", $2; fflush() }
         /^Installing coll/ { printf "\ninstalling them ..."; fflush() }
         END                { print "" }'
}

case $extra in
    book) holders="book test lab" ;;
    test) holders="test lab" ;;
    lab) holders="lab" ;;
    *) fail "expected an extra, one of book, test, lab; got $extra" ;;
esac
# shellcheck disable=SC2086
if is_installed $holders; then exit 0; fi

if [ "$lock" != none ] && [ ! -f "$lock" ]; then fail "the lock $lock is missing"; fi
if ! { [ -x "$venv/bin/python" ] && is_new_enough "$venv/bin/python"; }; then
    python=$(find_python)
    echo "making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv" >"${TMPDIR:-/tmp}/venv.$$" 2>&1 || {
        tail -n 3 "${TMPDIR:-/tmp}/venv.$$" >&2
        rm -rf "$venv" "${TMPDIR:-/tmp}/venv.$$"
        fail "$python has no working venv module (on Debian and Ubuntu: apt-get install python3-venv)"
    }
    rm -f "${TMPDIR:-/tmp}/venv.$$"
fi

echo "installing what the extra '$extra' needs into $venv:"
log=$venv/install.log
set -- -e ".[$extra]"
if [ "$lock" != none ]; then
    # pip refuses an editable line in a file of constraints.
    grep -v '^-e' "$lock" >"$venv/constraints.txt"
    set -- -c "$venv/constraints.txt" "$@"
else
    set -- --upgrade --upgrade-strategy eager "$@"
fi
rm -f "$venv/pip-failed"
{ "$venv/bin/python" -m pip install --disable-pip-version-check "$@" 2>&1 || touch "$venv/pip-failed"; } \
    | tee "$log" | show_progress
if [ -e "$venv/pip-failed" ]; then
    grep -E 'ERROR|error:' "$log" | tail -n 3 >&2 || true
    if grep -q -E 'NewConnectionError|Max retries|Temporary failure|No matching distribution' "$log"; then
        fail "pip could not fetch a package: is this machine online? (whole log: $log)"
    fi
    fail "pip could not install the extra '$extra' (whole log: $log)"
fi
# The kernels are tested in Triton's interpreter. A torch for CUDA brings Triton along; this is the release that
# torch 2.13.0 asks for. There is none for other systems, and the tests of the kernels say so.
if [ "$extra" != book ] && [ "$(uname -s)" = Linux ] && ! "$venv/bin/python" -c 'import triton' 2>/dev/null; then
    echo "installing triton into $venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check triton==3.7.1 >>"$log" 2>&1 \
        || fail "pip could not install triton==3.7.1 (whole log: $log)"
fi
fingerprint >"$venv/installed-$extra"
