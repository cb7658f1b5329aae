/* Makes from a training's flags this node's place among several nodes, and the address at
 * which it answers with figures. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/cmd/run.h"
#include "io/net/link_key.h"

static bool has_key_given(const struct run_nodes *n) { return n->key_file || n->key_fd != RUN_NONE; }
static bool has_key(const struct run_nodes *n) { return has_key_given(n) || n->insecure; }

/* Whether nodes have a key; --insecure may be meant for --metrics alone. */
static bool has_nodes_key(const struct run_options *o)
{
    return o->metrics ? has_key_given(&o->nodes) : has_key(&o->nodes);
}

static bool is_any_given(const struct run_options *o)
{
    const struct run_nodes *n = &o->nodes;
    return n->rank != RUN_NONE || n->coordinator || has_nodes_key(o) || n->listen_fd != RUN_NONE ||
           n->roster_fd != RUN_NONE || n->lanes;
}

static const char *variable(const char *name) { return getenv(name); }

status run_place_find(struct node_place *place, const struct run_options *o)
{
    const struct run_nodes *n = &o->nodes;
    *place = (struct node_place){.listen_fd = n->listen_fd == RUN_NONE ? -1 : (int)n->listen_fd};
    if (n->list) return place_parse(place, n->list, n->coordinator, n->rank);
    if (has_nodes_key(o) && n->rank == RUN_NONE) TRY(place_from_environment(place, n->coordinator, variable));
    if (place->count == 0 && is_any_given(o))
        FAIL(USAGE,
             "--rank, --lanes, --coordinator, --key-file, --key-fd, --insecure and --listen-fd are for a training on "
             "several nodes: give --nodes, too, or leave --rank out if a launcher's variables say which node this is");
    return ST_OK;
}

status run_shown_check(const struct run_shown *shown)
{
    const char *given = shown->trace ? "--trace" : shown->metrics ? "--metrics" : shown->token_file;
    if (given == NULL) return ST_OK;
    if (given == shown->token_file) given = "--token-file";
    FAIL(USAGE, "%s is for several nodes here: give --nodes, too, or leave it out", given);
}

static status anew(void *context, const struct node_past *past)
{
    struct run_place *place = context;
    place->anew.past = *past;
    return anew_start(&place->anew);
}

/* Takes the key from an earlier start, a file, or a descriptor, which is read once. */
static status key_take(struct run_place *place, const struct run_options *o)
{
    const struct run_nodes *n = &o->nodes;
    const bool trusts_all = n->insecure && !(o->metrics && has_key_given(n));
    struct secure_key *key = &place->anew.key;
    if ((n->key_file != NULL) + (n->key_fd != RUN_NONE) + trusts_all != 1)
        FAIL(USAGE,
             "nodes prove to each other that they have the same key: give --key-file FILE (heterps-run key -o FILE "
             "makes one), --key-fd N, or, to trust whoever reaches the port, --insecure");
    if (trusts_all) {
        log_warning("--insecure: links are neither encrypted nor authenticated");
        return ST_OK;
    }
    TRY(secure_start());
    if (n->key_file) TRY(key_read(key, n->key_file));
    if (n->key_fd != RUN_NONE && !place->anew.has_key) TRY(key_read_fd(key, (int)n->key_fd));
    place->anew.has_key = n->key_fd != RUN_NONE;
    place->nodes.key = key;
    return ST_OK;
}

status run_place_take(struct run_place *place, const struct run_options *o)
{
    const struct run_nodes *n = &o->nodes;
    memset(place, 0, sizeof *place);
    struct session_nodes *nodes = &place->nodes;
    TRY(run_place_find(&nodes->place, o));
    if (nodes->place.count == 0) return ST_OK;
    if (o->dry_run || o->look) FAIL(USAGE, "--nodes is for training; leave it out to see what one node needs");
    nodes->lanes = n->lanes;
    nodes->verb = o->use ? o->use->verb : "train";
    nodes->saves = o->out || o->resume || o->continued;
    nodes->is_again = o->again;
    nodes->anew = anew;
    nodes->anew_context = place;
    if (n->roster_fd != RUN_NONE) {
        TRY(anew_read(&place->anew, (int)n->roster_fd));
        nodes->past = &place->anew.past;
    }
    return key_take(place, o);
}

status run_metrics_take(struct scrape_options *metrics, const struct run_options *o, const struct node_place *place,
                        bool *is_given)
{
    *is_given = o->metrics != NULL;
    *metrics = (struct scrape_options){.listen = o->metrics,
                                       .rank = place->count ? place->rank : 0,
                                       .token_file = o->token_file,
                                       .insecure = o->nodes.insecure};
    if (o->metrics == NULL && o->token_file) FAIL(USAGE, "--token-file is for --metrics: give --metrics, too");
    if (o->token_file && o->nodes.insecure) FAIL(USAGE, "--token-file and --insecure exclude each other");
    return ST_OK;
}
