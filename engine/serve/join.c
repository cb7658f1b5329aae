/* Keeps texts under ids. */
#include "engine/serve/join.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Texts are listed in the order of their arrival. */
struct waiting {
    const char *id; /* the first member: the tree compares it; lies behind the struct */
    struct waiting *previous, *next;
    char *text;
    size_t bytes, cost;
    uint64_t end_ns;
};

struct join {
    uint64_t wait_ns;
    size_t bytes_max;
    void *tree;
    struct waiting *first, *last;
    struct join_counts counts;
};

static int ids_compare(const void *one, const void *other)
{
    return strcmp(((const struct waiting *)one)->id, ((const struct waiting *)other)->id);
}

status join_open(struct join **out, uint64_t wait_ns, size_t bytes_max)
{
    struct join *j = calloc(1, sizeof *j);
    *out = j;
    if (j == NULL) FAIL(MEMORY, "no memory for lines that wait for labels");
    j->wait_ns = wait_ns;
    j->bytes_max = bytes_max;
    return ST_OK;
}

/* Removes a text, which becomes the caller's. */
static char *waiting_remove(struct join *j, struct waiting *w)
{
    char *text = w->text;
    tdelete(w, &j->tree, ids_compare);
    *(w->previous ? &w->previous->next : &j->first) = w->next;
    *(w->next ? &w->next->previous : &j->last) = w->previous;
    j->counts.count--;
    j->counts.bytes -= w->cost;
    free(w);
    return text;
}

void join_close(struct join *j)
{
    if (j == NULL) return;
    while (j->first) free(waiting_remove(j, j->first));
    free(j);
}

static void expire(struct join *j, uint64_t now_ns)
{
    for (; j->first && j->first->end_ns <= now_ns; j->counts.expired++) free(waiting_remove(j, j->first));
}

static struct waiting *find(const struct join *j, const char *id)
{
    const struct waiting wanted = {.id = id};
    void *found = tfind(&wanted, &j->tree, ids_compare);
    return found ? *(struct waiting **)found : NULL;
}

char *join_put(struct join *j, const char *id, size_t bytes, uint64_t now_ns)
{
    const size_t cost = sizeof(struct waiting) + strlen(id) + 1 + bytes;
    expire(j, now_ns);
    struct waiting *same = find(j, id);
    if (same) free(waiting_remove(j, same));
    if (cost > j->bytes_max) return NULL;
    for (; j->counts.bytes + cost > j->bytes_max; j->counts.crowded++) free(waiting_remove(j, j->first));
    struct waiting *w = calloc(1, sizeof *w + strlen(id) + 1);
    char *text = malloc(bytes ? bytes : 1);
    if (w == NULL || text == NULL) {
        free(w);
        free(text);
        return NULL;
    }
    *w = (struct waiting){.id = strcpy((char *)(w + 1), id),
                          .previous = j->last,
                          .text = text,
                          .bytes = bytes,
                          .cost = cost,
                          .end_ns = now_ns + j->wait_ns};
    if (tsearch(w, &j->tree, ids_compare) == NULL) {
        free(w);
        free(text);
        return NULL;
    }
    *(j->last ? &j->last->next : &j->first) = w;
    j->last = w;
    j->counts.count++;
    j->counts.bytes += cost;
    return text;
}

const char *join_find(struct join *j, const char *id, uint64_t now_ns, size_t *bytes)
{
    expire(j, now_ns);
    const struct waiting *w = find(j, id);
    if (w == NULL) return NULL;
    *bytes = w->bytes;
    return w->text;
}

void join_take(struct join *j, const char *id)
{
    struct waiting *w = find(j, id);
    CHECK(w != NULL);
    j->counts.taken++;
    free(waiting_remove(j, w));
}

struct join_counts join_counts(struct join *j, uint64_t now_ns)
{
    expire(j, now_ns);
    return j->counts;
}
