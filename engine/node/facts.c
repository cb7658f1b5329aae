/* Writes facts, and finds the first line in which two texts differ. */
#include "engine/node/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/model/recipe.h"

/* The version of what nodes say to each other: others are refused before they are understood. */
#define PROTOCOL 12u

static void fact_add(void *out, const char *what, const char *value) { fprintf(out, "%s\t%s\n", what, value); }

static void number_add(FILE *out, const char *what, const char *format, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, format, value);
    fact_add(out, what, text);
}

static status facts_put(FILE *out, const struct facts_options *o)
{
    number_add(out, "the protocol of nodes", "%" PRIu64, PROTOCOL);
    fact_add(out, "the version of the program", HETERPS_VERSION);
    fact_add(out, "the verb", o->verb);
    number_add(out, "the number of nodes", "%" PRIu64, o->node_count);
    if (o->graph == NULL) return ST_OK;
    fact_add(out, "the instruction set (--isa)", o->isa);
    TRY(recipe_tell(o->graph, fact_add, out));
    number_add(out, "the hash of the model", "%016" PRIx64, o->graph->header->model_hash);
    fact_add(out, "cluster.slices", o->slices);
    fact_add(out, "cluster.rows", o->rows);
    number_add(out, "cluster.bucket", "%" PRIu64, o->bucket_bytes);
    number_add(out, "train.progressive", "%" PRIu64, o->progressive);
    if (o->stages) fact_add(out, "the stages of the plan (--plan)", o->stages);
    if (o->stages) number_add(out, "train.in_flight", "%" PRIu64, o->in_flight);
    if (o->cards) fact_add(out, "the layers on cards (--plan)", o->cards);
    fact_add(out, "a directory for saves (--out)", o->saves ? "given" : "missing");
    return ST_OK;
}

status facts_make(struct facts *facts, const struct facts_options *o)
{
    *facts = (struct facts){0};
    FILE *out = open_memstream(&facts->text, &facts->bytes);
    if (out == NULL) FAIL(MEMORY, "no memory for what nodes have in common");
    status st = facts_put(out, o);
    if (fclose(out) != 0 && st == ST_OK)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for what nodes have in common");
    if (st == ST_OK && facts->bytes > FACTS_BYTES_MAX)
        st = status_fail(ST_INVALID, __FILE__, __LINE__,
                         "the graph's settings have %zu bytes; nodes compare up to %u of them", facts->bytes,
                         FACTS_BYTES_MAX);
    if (st != ST_OK)
        facts_free(facts);
    else
        facts->hash = XXH3_64bits(facts->text, facts->bytes);
    return st;
}

void facts_free(struct facts *facts)
{
    free(facts->text);
    *facts = (struct facts){0};
}

/* --- comparison ---------------------------------------------------------------------------------- */

struct line {
    const char *what, *value;
    int what_bytes, value_bytes;
};

/* The next line of a text, which may be anybody's; false: there is none. */
static bool line_next(const char **at, const char *end, struct line *line)
{
    if (*at >= end) return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    if (stop == NULL) stop = end;
    const char *tab = memchr(*at, '\t', (size_t)(stop - *at));
    if (tab == NULL) tab = stop;
    *line = (struct line){
        .what = *at, .what_bytes = (int)(tab - *at), .value = tab < stop ? tab + 1 : stop, .value_bytes = 0};
    line->value_bytes = (int)(stop - line->value);
    *at = stop < end ? stop + 1 : end;
    return true;
}

static bool same(const char *a, int a_bytes, const char *b, int b_bytes)
{
    return a_bytes == b_bytes && memcmp(a, b, (size_t)a_bytes) == 0;
}

static int at_most(int bytes, int most) { return bytes < most ? bytes : most; }

/* For a terminal: leaves of another node's bytes only what can be printed. */
static void tidy(char text[FACTS_WORDS_BYTES])
{
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
}

static void words_put(struct facts_difference *d, const struct line *ours, const struct line *theirs)
{
    const struct line *either = ours ? ours : theirs;
    if (ours == NULL || theirs == NULL || !same(ours->what, ours->what_bytes, theirs->what, theirs->what_bytes)) {
        /* A line that only one node has: of a section, or of a key that the other's section does not give. */
        snprintf(d->ours, FACTS_WORDS_BYTES, "%.*s comes where the node here has %.*s",
                 theirs ? at_most(theirs->what_bytes, 120) : 7, theirs ? theirs->what : "nothing",
                 ours ? at_most(ours->what_bytes, 120) : 7, ours ? ours->what : "nothing");
        snprintf(d->theirs, FACTS_WORDS_BYTES, "%.*s comes where the node there has %.*s",
                 theirs ? at_most(theirs->what_bytes, 120) : 7, theirs ? theirs->what : "nothing",
                 ours ? at_most(ours->what_bytes, 120) : 7, ours ? ours->what : "nothing");
    } else {
        snprintf(d->ours, FACTS_WORDS_BYTES, "%.*s is %.*s there, and %.*s here", at_most(either->what_bytes, 120),
                 either->what, at_most(theirs->value_bytes, 120), theirs->value, at_most(ours->value_bytes, 120),
                 ours->value);
        snprintf(d->theirs, FACTS_WORDS_BYTES, "%.*s is %.*s here, and %.*s there", at_most(either->what_bytes, 120),
                 either->what, at_most(theirs->value_bytes, 120), theirs->value, at_most(ours->value_bytes, 120),
                 ours->value);
    }
    tidy(d->ours);
    tidy(d->theirs);
}

bool facts_differ(const struct facts *facts, const char *text, size_t bytes, struct facts_difference *difference)
{
    const char *ours_at = facts->text, *theirs_at = text;
    for (;;) {
        struct line ours, theirs;
        const bool is_ours = line_next(&ours_at, facts->text + facts->bytes, &ours),
                   is_theirs = line_next(&theirs_at, text + bytes, &theirs);
        if (!is_ours && !is_theirs) return false;
        if (is_ours && is_theirs && same(ours.what, ours.what_bytes, theirs.what, theirs.what_bytes) &&
            same(ours.value, ours.value_bytes, theirs.value, theirs.value_bytes))
            continue;
        words_put(difference, is_ours ? &ours : NULL, is_theirs ? &theirs : NULL);
        return true;
    }
}
