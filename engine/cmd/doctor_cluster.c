/* heterps-run doctor --cluster: nodes meet as they would for a training, over the same links, and measure the
 * links pair by pair; node 0 tells the findings.
 *
 *     all      ──what each is──▶ node 0
 *     node 0   ──go──▶ high  ◀──orders, bytes, echoes──▶ low      of each pair, one after another
 *              ◀─────  what it has found
 *
 * Two nodes that do not reach each other both stay in: their pair gets a line that says so,
 * and all other pairs are measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/base/file.h"
#include "engine/base/isa.h"
#include "engine/base/log.h"
#include "engine/cmd/findings.h"
#include "engine/cmd/run.h"
#include "engine/node/probe.h"
#include "engine/run/doctor_links.h"

#define WAIT_S     20.0
#define TIMEOUT_NS UINT64_C(10000000000)
#define ECHOES_MAX 1000u
#define ECHOES_FEW 20u
#define ECHO_S     0.05 /* for the echoes of a pair */
#define WAY_S      0.1  /* for each way that bytes go, if all pairs' take … */
#define ALL_S      20.0 /* … less than this                                */
#define BYTES_MAX  (UINT64_C(256) << 20)

struct cluster_options {
    struct run_options run;
    double wait;
    const char *links;
    bool cluster;
};
static const struct flag flags[] = {
    {.name = "--cluster",
     .type = FLAG_SWITCH,
     .meaning = "look at links between nodes, not at a training",
     .offset = offsetof(struct cluster_options, cluster)},
    RUN_NODES_FLAGS(struct cluster_options, run.nodes, "the nodes, each of which runs this command", ""),
    {.name = "--wait",
     .type = FLAG_F64,
     .value = "SECONDS",
     .meaning = "wait this long for all nodes, then measure the nodes that have come (default 20)",
     .offset = offsetof(struct cluster_options, wait),
     .min = 0.1,
     .max = 86400},
    {.name = "--links",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "node 0 writes what it has found as [node] and [link] sections of a cluster text, for plan",
     .offset = offsetof(struct cluster_options, links)},
    {.name = "--again",
     .type = FLAG_SWITCH,
     .meaning = "given by `launch` to a node that it starts again",
     .offset = offsetof(struct cluster_options, run.again)},
};

/* What the higher node of a pair orders the lower node to do. */
struct order {
    uint64_t is_last, to_low, to_high; /* bytes */
};

struct record {
    uint64_t linked; /* by rank */
    struct doctor_node node;
};

struct look {
    struct node *node;
    const struct node_place *place;
    uint32_t index, count;
    bool is_gathered;
    uint64_t linked[MEMBER_NODES_MAX];          /* by rank */
    struct doctor_node nodes[MEMBER_NODES_MAX]; /* likewise */
    struct doctor_pair *pairs;
    struct probe_echo echo[ECHOES_MAX];
    uint8_t *out, *in; /* [PROBE_PIECE_BYTES] */
};

/* --- nodes --------------------------------------------------------------------------------------- */

static void place_text(const struct look *l, uint32_t rank, char text[ADDRESS_TEXT_BYTES])
{
    const struct address *at = &l->place->address[rank];
    const bool is_there = at->any.sa_family != AF_UNSPEC && address_port(at) != 0;
    snprintf(text, ADDRESS_TEXT_BYTES, "(not said)");
    if (is_there) (void)address_text(text, at);
}

static struct record record_of_here(const struct look *l)
{
    struct record r = {.node = {.is_in = true}};
    struct utsname name;
    struct rlimit files;
    struct cores cores;
    cores_allowed(&cores);
    r.node.cores = cores.count;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) r.node.files = files.rlim_cur;
    if (uname(&name) == 0) snprintf(r.node.host, sizeof r.node.host, "%.63s", name.nodename);
    snprintf(r.node.version, sizeof r.node.version, "%s", HETERPS_VERSION);
    snprintf(r.node.isa, sizeof r.node.isa, "%s", isa_names[isa_best()]);
    place_text(l, l->place->rank, r.node.place);
    for (uint32_t rank = 0; rank < l->place->count; rank++)
        if (node_path(l->node, rank)) r.linked |= UINT64_C(1) << rank;
    return r;
}

/* Makes a text from another node safe for a terminal. */
static void tidy(char *text, size_t bytes)
{
    text[bytes - 1] = 0;
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
}

static void record_keep(struct look *l, uint32_t rank, struct record *r)
{
    tidy(r->node.place, sizeof r->node.place);
    tidy(r->node.host, sizeof r->node.host);
    tidy(r->node.version, sizeof r->node.version);
    tidy(r->node.isa, sizeof r->node.isa);
    l->linked[rank] = r->linked;
    l->nodes[rank] = r->node;
}

static bool is_linked(const struct look *l, uint32_t low, uint32_t high)
{
    const uint32_t a = node_rank(l->node, low), b = node_rank(l->node, high);
    return l->linked[a] >> b & 1 && l->linked[b] >> a & 1;
}

/* Node 0 gets the facts of all nodes; all nodes get the list of links. */
static status nodes_gather(struct look *l)
{
    struct record r = record_of_here(l);
    for (uint32_t rank = 0; rank < l->place->count; rank++) {
        place_text(l, rank, l->nodes[rank].place);
        snprintf(l->nodes[rank].why, sizeof l->nodes[rank].why, "%.*s", (int)DOCTOR_WHY_BYTES - 1,
                 node_path_why(l->node, rank));
    }
    if (l->index > 0) TRY(node_give(l->node, 0, &r, sizeof r));
    if (l->index == 0) record_keep(l, 0, &r);
    for (uint32_t i = 1; i < l->count && l->index == 0; i++) {
        TRY(node_take(l->node, i, &r, sizeof r));
        record_keep(l, node_rank(l->node, i), &r);
    }
    TRY(node_tell(l->node, l->linked, sizeof l->linked));
    /* For pairs that are not measured because a node is lost first. */
    for (uint32_t high = 1; high < l->count; high++)
        for (uint32_t low = 0; low < high; low++)
            l->pairs[doctor_pair_at(node_rank(l->node, low), node_rank(l->node, high))].is_linked =
                is_linked(l, low, high);
    l->is_gathered = true;
    return ST_OK;
}

/* --- a pair, by the lower one -------------------------------------------------------------------- */

static status pair_serve(struct look *l, uint32_t high)
{
    struct order order = {0};
    const uint64_t done = 1;
    for (;;) {
        TRY(node_take(l->node, high, &order, sizeof order));
        if (order.is_last) return ST_OK;
        TRY(node_swap(l->node, high, l->out, order.to_high, l->in, order.to_low));
        TRY(node_give(l->node, high, &done, sizeof done));
    }
}

/* --- a pair, by the higher one ------------------------------------------------------------------- */

static int order_by_ns(const void *a, const void *b)
{
    const uint64_t x = ((const struct probe_echo *)a)->ns, y = ((const struct probe_echo *)b)->ns;
    return (x > y) - (x < y);
}

static status echoes_look(struct look *l, uint32_t low, struct doctor_pair *p)
{
    uint32_t count = ECHOES_FEW;
    TRY(node_echo(l->node, low, l->echo, count));
    qsort(l->echo, count, sizeof *l->echo, order_by_ns);
    const double more = ECHO_S * 1e9 / (double)(l->echo[count / 2].ns + 1);
    if (more > count) {
        count = more < ECHOES_MAX ? (uint32_t)more : ECHOES_MAX;
        TRY(node_echo(l->node, low, l->echo, count));
        qsort(l->echo, count, sizeof *l->echo, order_by_ns);
    }
    p->echo_ns = l->echo[count / 2].ns;
    p->echo_least_ns = l->echo[0].ns; /* the echo that was delayed least */
    p->ahead_ns = l->echo[0].ahead_ns;
    return ST_OK;
}

/* Moves bytes, to_low and to_high; *a_s: bytes a second of each way, without the time
 * of a message there and back. */
static status bytes_move(struct look *l, uint32_t low, const struct doctor_pair *p, uint64_t to_low, uint64_t to_high,
                         double *a_s)
{
    const struct order order = {.to_low = to_low, .to_high = to_high};
    const uint64_t begin_ns = clock_ns(), bytes = to_low > to_high ? to_low : to_high;
    uint64_t done;
    TRY(node_give(l->node, low, &order, sizeof order));
    TRY(node_swap(l->node, low, l->out, to_low, l->in, to_high));
    TRY(node_take(l->node, low, &done, sizeof done));
    const uint64_t ns = clock_ns() - begin_ns, left_ns = ns > 2 * p->echo_ns ? ns - p->echo_ns : ns / 2 + 1;
    *a_s = (double)bytes * 1e9 / (double)left_ns;
    return ST_OK;
}

static status rates_look(struct look *l, uint32_t low, struct doctor_pair *p)
{
    const double pairs = l->count * (l->count - 1) / 2.0, all = ALL_S / (DOCTOR_WAY_COUNT * pairs),
                 seconds = all < WAY_S ? all : WAY_S;
    double a_s;
    for (enum doctor_way way = 0; way < DOCTOR_WAY_COUNT; way++) {
        const uint64_t is_to_low = way != DOCTOR_TO_HIGH, is_to_high = way != DOCTOR_TO_LOW;
        /* The first round lets windows and buffers grow, and says how many bytes the second one needs. */
        uint64_t bytes = PROBE_PIECE_BYTES;
        for (uint32_t i = 0; i < 2; i++) TRY(bytes_move(l, low, p, is_to_low * bytes, is_to_high * bytes, &a_s));
        bytes = (uint64_t)(a_s * seconds);
        if (bytes > BYTES_MAX) bytes = BYTES_MAX;
        if (bytes < PROBE_PIECE_BYTES) bytes = PROBE_PIECE_BYTES;
        TRY(bytes_move(l, low, p, is_to_low * bytes, is_to_high * bytes, &p->bytes_a_s[way]));
    }
    return ST_OK;
}

/* Measures the link between this node and a lower one. */
static status pair_find(struct look *l, uint32_t low, struct doctor_pair *p)
{
    const uint32_t rank = node_rank(l->node, low);
    const struct link_path *path = node_path(l->node, rank);
    const struct order last = {.is_last = 1};
    memset(p, 0, sizeof *p);
    snprintf(p->why, sizeof p->why, "%.*s", (int)sizeof p->why - 1, node_path_why(l->node, rank));
    p->is_linked = path && l->linked[rank] >> l->place->rank & 1;
    if (!p->is_linked) return ST_OK;
    p->path = *path;
    TRY(echoes_look(l, low, p));
    TRY(rates_look(l, low, p));
    p->is_measured = true;
    return node_give(l->node, low, &last, sizeof last);
}

/* --- all pairs ------------------------------------------------------------------------------------ */

/* Called by all nodes in the same order; node 0 lets one pair at a time begin. */
static status pair_look(struct look *l, uint32_t low, uint32_t high)
{
    uint64_t go = 1;
    struct doctor_pair found;
    if (l->index == 0) TRY(node_give(l->node, high, &go, sizeof go));
    if (l->index == high) {
        TRY(node_take(l->node, 0, &go, sizeof go));
        TRY(pair_find(l, low, &found));
        return node_give(l->node, 0, &found, sizeof found);
    }
    if (l->index == low && is_linked(l, low, high)) TRY(pair_serve(l, high));
    if (l->index > 0) return ST_OK;
    TRY(node_take(l->node, high, &found, sizeof found));
    tidy(found.why, sizeof found.why);
    if (found.path.seal >= FRAME_SEAL_COUNT) found.path.seal = FRAME_PLAIN;
    l->pairs[doctor_pair_at(node_rank(l->node, low), node_rank(l->node, high))] = found;
    return ST_OK;
}

static status all_look(struct look *l)
{
    TRY(nodes_gather(l));
    for (uint32_t high = 1; high < l->count; high++)
        for (uint32_t low = 0; low < high; low++) TRY(pair_look(l, low, high));
    /* Node 0 ends the job after all are done: a node of the last pair may still be listening to the other. */
    uint64_t done = 1;
    if (l->index > 0) return node_give(l->node, 0, &done, sizeof done);
    for (uint32_t i = 1; i < l->count; i++) TRY(node_take(l->node, i, &done, sizeof done));
    return ST_OK;
}

/* --- telling ------------------------------------------------------------------------------------- */

struct lines {
    struct doctor_line *line;
    uint32_t count;
};

static void line_keep(void *context, const struct doctor_line *line)
{
    struct lines *lines = context;
    lines->line[lines->count++] = *line;
}

static void pair_event(const struct look *l, uint32_t low, uint32_t high)
{
    const struct doctor_pair *p = &l->pairs[doctor_pair_at(low, high)];
    char text[ADDRESS_TEXT_BYTES];
    if (!p->is_measured) return;
    log_event_begin("link");
    log_event_u64("from", high);
    log_event_u64("to", low);
    log_event_text("from_address", address_text(text, &p->path.own));
    log_event_text("to_address", address_text(text, &p->path.peer));
    log_event_u64("is_sealed", p->path.seal != FRAME_PLAIN);
    log_event_u64("mtu_bytes", p->path.mtu_bytes);
    log_event_u64("segment_bytes", p->path.segment_bytes);
    log_event_f64("round_trip_seconds", (double)p->echo_ns * 1e-9);
    log_event_f64("bytes_a_second", p->bytes_a_s[DOCTOR_TO_LOW]);
    log_event_f64("bytes_a_second_back", p->bytes_a_s[DOCTOR_TO_HIGH]);
    log_event_f64("bytes_a_second_both", p->bytes_a_s[DOCTOR_BOTH]);
    log_event_f64("clock_ahead_seconds", (double)-p->ahead_ns * 1e-9);
    log_event_f64("clock_within_seconds", (double)p->echo_least_ns * 0.5e-9);
    log_event_end();
}

/* Writes nodes and measured pairs as sections of a cluster text: nodes are ranks, a message's latency is half
 * of the median echo. */
static status links_write(const struct look *l, const char *path)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) FAIL(MEMORY, "no memory for the text of links");
    fprintf(out, "; measured by heterps-run doctor --cluster: nodes are ranks\n");
    for (uint32_t rank = 0; rank < l->place->count; rank++)
        if (l->nodes[rank].is_in)
            fprintf(out, "\n[node %u]\ncores = %u\n", rank, l->nodes[rank].cores);
        else
            fprintf(out, "\n[node %u]\n", rank);
    for (uint32_t high = 1; high < l->place->count; high++)
        for (uint32_t low = 0; low < high; low++) {
            const struct doctor_pair *p = &l->pairs[doctor_pair_at(low, high)];
            if (p->is_measured)
                fprintf(out, "\n[link %u..%u]\nbandwidth = %.6g\nbandwidth_back = %.6g\nlatency = %.6g\n", low, high,
                        p->bytes_a_s[DOCTOR_TO_HIGH], p->bytes_a_s[DOCTOR_TO_LOW], (double)p->echo_ns * 0.5e-9);
            else
                fprintf(out, "\n; [link %u..%u]: not measured\n", low, high);
        }
    status st = fclose(out) == 0 ? file_write(path, text, bytes)
                                 : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for the text of links");
    free(text);
    return st;
}

/* Tells what has been found; `st`: the failure that has cut it short, or ST_OK. */
static status tell(const struct look *l, double wait_s, status st)
{
    char nodes[DOCTOR_HEADER_BYTES], links[DOCTOR_HEADER_BYTES];
    const uint32_t n = l->place->count;
    const struct doctor_links all = {.node_count = n, .wait_s = wait_s, .nodes = l->nodes, .pairs = l->pairs};
    struct lines lines = {.line = malloc((n + n * (n - 1) / 2 + 1) * sizeof *lines.line)};
    struct failure failure;
    failure_keep(&failure, st);
    if (lines.line == NULL) FAIL(MEMORY, "no memory to tell what is found");
    doctor_links_look(&all, line_keep, &lines);
    doctor_links_headers(nodes, links);
    for (uint32_t high = 1; high < n; high++)
        for (uint32_t low = 0; low < high; low++) pair_event(l, low, high);
    st = findings_tell(lines.line, lines.count,
                       &(struct findings_words){.of = "these nodes",
                                                .good = "these nodes can train together",
                                                .header = {[DOCTOR_nodes] = nodes, [DOCTOR_links] = links}});
    free(lines.line);
    return failure_is(&failure) ? failure_adopt(&failure) : st;
}

/* --- the verb ------------------------------------------------------------------------------------ */

static status nodes_meet(struct look *l, const struct run_place *run, const struct facts *facts, double wait_s)
{
    const struct node_options options = {.place = l->place,
                                         .key = run->nodes.key,
                                         .facts = facts,
                                         .min = 1,
                                         .timeout_ns = TIMEOUT_NS,
                                         .connect_ns = (uint64_t)(wait_s * 1e9),
                                         .is_partial = true};
    TRY(node_open(&l->node, &options));
    l->index = node_index(l->node);
    l->count = node_count(l->node);
    return ST_OK;
}

static status look_run(struct look *l, const struct run_place *run, double wait_s, const char *links)
{
    const uint32_t n = l->place->count;
    struct facts facts;
    l->pairs = calloc((size_t)n * n, sizeof *l->pairs);
    l->out = malloc(2 * (size_t)PROBE_PIECE_BYTES);
    if (l->pairs == NULL || l->out == NULL) FAIL(MEMORY, "no memory to look at links");
    l->in = l->out + PROBE_PIECE_BYTES;
    memset(l->out, 0x55, 2 * (size_t)PROBE_PIECE_BYTES);
    TRY(facts_make(&facts, &(struct facts_options){.node_count = n, .verb = "doctor --cluster"}));
    status st = nodes_meet(l, run, &facts, wait_s);
    if (st == ST_OK && l->count > 0) {
        st = all_look(l);
        if (l->index == 0 && l->is_gathered) st = tell(l, wait_s, st);
        if (l->index == 0 && links && st == ST_OK) st = links_write(l, links);
        st = node_end(l->node, st);
    } else if (st == ST_OK) {
        log_warning("this node has come too late: the others have measured their links without it");
    }
    node_close(l->node);
    facts_free(&facts);
    return st;
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct cluster_options *o = options_pointer;
    struct run_place run;
    (void)positionals;
    TRY(run_place_take(&run, &o->run));
    if (run.nodes.place.count == 0)
        FAIL(USAGE, "expected the flags by which a training finds its nodes: --nodes, --rank, --key-file; "
                    "or, for one machine, heterps-run launch --local 2 -- doctor --cluster");
    /* Node 0 speaks for all; the others print only warnings and errors. */
    if (run.nodes.place.rank > 0) log_open(LOG_TEXT, log_verbosity() > 0 ? 1 : -1);
    struct look *l = calloc(1, sizeof *l);
    if (l == NULL) FAIL(MEMORY, "no memory to look at links");
    l->place = &run.nodes.place;
    const status st = look_run(l, &run, o->wait, o->links);
    free(l->pairs);
    free(l->out);
    free(l);
    return st;
}

static const struct cluster_options none_given = {.run = {RUN_OPTIONS}, .wait = WAIT_S};
const struct command command_doctor_cluster = {
    .name = "doctor --cluster",
    .positionals = "",
    .summary = "look at the links between the nodes of a training: who meets whom, how fast, and what is wrong",
    .help = "heterps-run launch --local 4 -- doctor --cluster\n"
            "heterps-run doctor --cluster --nodes 10.0.0.1:4711,10.0.0.2:4711 --rank 0 --key-file cluster.key\n\n"
            "Start it on every node, with the flags by which a training finds its nodes. "
            "Nodes meet as for training, over the same sealed\n"
            "links; node 0 prints a line a node and a line a pair: the route, the key, the path's MTU, "
            "the median of small messages\n"
            "there and back, bytes a second each way and both at once, and how far the clocks are apart; "
            "and below a line what is\n"
            "wrong or slow. Each node says by itself whom it waits for after two seconds. "
            "Exit status is 1 if anything fails, and 75 if node 0 is not found or a node is lost.\n"
            "--log json writes the events `link`, `doctor` and `verdict`; "
            "--links FILE the [node] and [link] sections by which `plan` knows nodes' cores and what a cut costs.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct cluster_options),
    .defaults = &none_given,
    .run = run};
