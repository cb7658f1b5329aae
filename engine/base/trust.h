/* Where a run may write, and which servers it may ask. What the user writes on the command line is trusted; a
 * graph carries its text and may be a stranger's. A path that comes from a graph and is to be written must
 * lie below the graph's own folder, unless --trust-paths is given; nor may a path to be read be an address of
 * the web, for whoever made the graph would let this machine ask a server that only this machine reaches.
 *
 *     --set store.path=/data/rows   ──▶ written          [store] path = rows         ──▶ written, beside the graph
 *     --out, -o, --trace …          ──▶ written          [store] path = /home/other  ──▶ refused, with both ways out
 *                                                        [data] path = http://…    ──▶ refused, with both ways out */
#ifndef HETERPS_BASE_TRUST_H
#define HETERPS_BASE_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

/* From here on only these settings ("store.path=rows", [count], borrowed) are trusted; until then, in
 * tests and benchmarks, all are. */
void trust_only(const char *const *set, uint32_t count);

/* --trust-paths, or none of the above. */
bool trust_is_whole(void);

/* USAGE: `path`, which is to be written and comes from the setting `key` ("store.path") of
 * `graph`, is neither trusted nor below the graph's folder, links resolved. */
MUST_USE status trust_check(const char *key, const char *path, const char *graph);
/* USAGE: one of the `paths` to be read ("a.tsv,http://host/b.tsv"), which come from the setting `key`
 * ("data.path") of `graph`, a graph or its text, is an address of the web, and the setting is not trusted. */
MUST_USE status trust_sources_check(const char *key, const char *paths, const char *graph);

#endif
