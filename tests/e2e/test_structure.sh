#!/bin/sh
# The tree keeps to its structure (which folder may include which, what the pipeline may not know, sizes and names) and to its layout.
. "$(dirname "$0")/lib.sh"
python3 tests/structure.py || failed=1
python3 tests/format.py || failed=1
exit $failed
