#!/bin/sh
# The tree keeps to its structure (which folder may include which, what the pipeline may not know, sizes and
# names) and to its layout.
. "$(dirname "$0")/lib.sh"
python3 tests/structure.py || failed=1
python3 tests/format.py || failed=1

sources() {
    if [ -e .git ]; then
        git ls-files -z --cached --others --exclude-standard '*.c' '*.h' '*.cu'
    else
        find cfg engine gpu graph io sched tests \( -name '*.[ch]' -o -name '*.cu' \) -print0
    fi
}
# Other versions of clang-format lay some places out otherwise.
formatter=$(command -v clang-format-14 || command -v clang-format)
name="clang-format 14 would lay no file of C out otherwise"
case $([ -n "$formatter" ] && "$formatter" --version) in
*"version 14."*)
    if sources | xargs -0 -n 60 -P 2 "$formatter" --dry-run -Werror 2>"$work/differs"; then
        ok "$name"
    else
        not_ok "$name"
        grep ': error: ' "$work/differs" | cut -d: -f1,2 | sort -u | head -20 | note
        echo "# clang-format -i FILE lays it out; a table made by hand stands between" \
            "/* clang-format off */ and /* clang-format on */"
    fi
    ;;
*) skip "$name" "clang-format 14 is not installed" ;;
esac
echo "1..$count"
exit $failed
