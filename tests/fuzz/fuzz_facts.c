/* A text of another node: whether it differs is found, and how is said in words that can be printed. */
#define FUZZ_NAME "facts"
#include "tests/fuzz/driver.h"

#include "engine/node/facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char ours[] = "the protocol of nodes\t1\ntrain.batch\t64\n[fc h1]\tthere\nh1.units\t5\n";
    const struct facts facts = {.text = ours, .bytes = sizeof ours - 1};
    struct facts_difference d;
    if (!facts_differ(&facts, (const char *)data, bytes, &d)) return 0;
    CHECK(strlen(d.ours) > 0 && strlen(d.ours) < FACTS_WORDS_BYTES);
    CHECK(strlen(d.theirs) > 0 && strlen(d.theirs) < FACTS_WORDS_BYTES);
    for (const char *p = d.ours; *p; p++) CHECK((unsigned char)*p >= ' ');
    return 0;
}
