/* Sums what lists lose, and judges it (io/read/reader_lists.h); asked for every example of a text. */
#include "io/read/reader_lists.h"

#include <inttypes.h>

/* With as many keys the lost part is checked at once, with fewer at the end of the pass. */
#define LISTS_WINDOW 10000u
/* At most one key of this number may be lost. */
#define LOST_PART 100u

#define LOST_HELP                                                                                                      \
    "because lists are longer than ids_max: one has %u keys; "                                                         \
    "give ids_max = %u in the field's [column NAME] (--set NAME.ids_max=%u), or in [data] where that says none"

status reader_lists_count(struct reader_text *text, const struct reader_example *example)
{
    struct reader_lists *lists = &text->lists;
    const uint32_t field_count = text->reader.shape.field_count;
    if (example != NULL) {
        if (field_count) lists->key_count += example->key_end[field_count - 1] + example->lost_count;
        lists->lost_count += example->lost_count;
        if (example->list_longest > lists->longest) lists->longest = example->list_longest;
        if (example->lost_count == 0 || lists->key_count < LISTS_WINDOW) return ST_OK;
    }
    /* What a part of a pass has lost says little of the whole, which a run before this one has begun. */
    if (text->lost_are_told || lists->is_part) {
        if (example == NULL && lists->lost_count > 0)
            notices_tell(text->notices, NOTICE_WARNING,
                         "%s: %" PRIu64 " of %" PRIu64 " keys are lost, " LOST_HELP ", and train anew",
                         text->reader.paths, lists->lost_count, lists->key_count, lists->longest, lists->longest,
                         lists->longest);
        return ST_OK;
    }
    if (lists->lost_count <= lists->key_count / LOST_PART) return ST_OK;
    FAIL(INVALID,
         "%s: %" PRIu64 " of %" PRIu64 " keys are lost, " LOST_HELP "; or ids_over = cut if they are to be cut",
         text->reader.paths, lists->lost_count, lists->key_count, lists->longest, lists->longest, lists->longest);
}
