#!/bin/sh
# Usage: sh tests/quality/crash.sh [N]        (default 1,000; needs ./heterps-run)
# The short tests of crashes and of damaged files, at length: N times kill -9 at a random moment, then N flipped bits.
set -eu
cd "$(dirname "$0")/../.."
CRASHES=${1:-1000} sh tests/e2e/test_crash.sh
FLIPS=${1:-1000} sh tests/e2e/test_fsck.sh
