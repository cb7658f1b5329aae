#!/bin/sh
# Usage: sh tests/quality/members.sh [SEEDS [FIRST]]
# The membership of nodes (engine/node/member.h) under SEEDS (100,000) seeds of its simulator, from FIRST (1) on,
# shared by the processors. Prints what it finds, each with the seed that repeats it (test_member 1 SEED), and how
# many seeds a second a core has done. Needs `./build.sh tests`.
set -u
cd "$(dirname "$0")/../.."
seeds=${1:-100000} first=${2:-1} cores=$(nproc)
program=${BUILD:-build/release}/tests/engine/node/test_member
[ -x "$program" ] || { echo "members.sh: $program is not there: ./build.sh tests" >&2; exit 2; }
share=$(((seeds + cores - 1) / cores))
begin=$(date +%s.%N)
for core in $(seq 0 $((cores - 1))); do echo $((first + core * share)); done | xargs -P"$cores" -n1 "$program" "$share"
found=$?
python3 -c "import sys; print('%.0f seeds a second a core' % ($share / (float(sys.argv[2]) - float(sys.argv[1]))))" \
    "$begin" "$(date +%s.%N)"
[ $found = 0 ]
