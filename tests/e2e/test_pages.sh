#!/bin/sh
# The pages say what is true: links, tables, names of files and flags, and commands whose output has the shape
# that the page shows.
. "$(dirname "$0")/lib.sh"
case $(basename "$BUILD") in
release) exec python3 tests/pages.py "$HETERPS" ;;
*) exec python3 tests/pages.py ;;
esac
