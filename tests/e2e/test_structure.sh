#!/bin/sh
# The tree keeps to its structure: which folder may include which, what the pipeline may not know, sizes of functions and files.
. "$(dirname "$0")/lib.sh"
exec python3 tests/structure.py
