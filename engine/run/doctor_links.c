/* Judges each node and each link by itself, and compared with the others. */
#include "engine/run/doctor_links.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/isa.h"
#include "engine/base/words.h"

#define MTU_LEAST   1500u
#define RATE_LEAST  (100.0 * (1 << 20)) /* bytes a second: what a network of 1 Gbit/s gives, less a little */
#define ECHO_MOST   UINT64_C(2000000)   /* nanoseconds */
#define CLOCK_MOST  INT64_C(1000000000) /* nanoseconds */
#define OTHERS_FEW  2u                  /* pairs: a median of fewer says little */
#define FILES_OWN   64u                 /* files that a node has open beside its links */
#define LINKS_OWN   24u                 /* connections that have not greeted yet, and some more */
#define PAIRS_MAX   (MEMBER_NODES_MAX * (MEMBER_NODES_MAX - 1) / 2)
#define ROUTE_WIDTH 46

struct look {
    const struct doctor_links *links;
    doctor_say *say;
    void *context;
};

/* A line that is being put together. */
struct line {
    enum doctor_state state;
    char what[80], found[512], todo[2048];
};

/* Appends a column; a character of several bytes is one wide. */
static void cell(char *text, size_t bytes, const char *value, int width)
{
    const size_t used = strlen(text);
    const int pad = width - (int)words_width(value);
    snprintf(text + used, bytes - used, "%s%*s", value, pad > 0 ? pad : 0, "");
}

PRINTF_LIKE(3, 4) static void todo(struct line *l, enum doctor_state state, const char *format, ...)
{
    const size_t used = strlen(l->todo);
    va_list arguments;
    if (state > l->state) l->state = state;
    snprintf(l->todo + used, sizeof l->todo - used, "%s", used ? "; " : "");
    va_start(arguments, format);
    vsnprintf(l->todo + strlen(l->todo), sizeof l->todo - strlen(l->todo), format, arguments);
    va_end(arguments);
}

static void line_say(const struct look *look, enum doctor_section section, const struct line *l)
{
    doctor_tell(look->say, look->context, section, l->state, l->what, "", l->found, *l->todo ? l->todo : NULL);
}

/* --- nodes -------------------------------------------------------------------------------------- */

static const int node_widths[] = {22, 14, 10, 14, 7};
static void node_cells(char *text, size_t bytes, const char *const values[6])
{
    *text = 0;
    for (uint32_t i = 0; i < 6; i++) cell(text, bytes, values[i], i < 5 ? node_widths[i] : 0);
}

/* The instruction set that all nodes can take. */
static enum isa isa_common(const struct doctor_links *links)
{
    enum isa least = ISA_COUNT - 1, one;
    for (uint32_t r = 0; r < links->node_count; r++)
        if (links->nodes[r].is_in && isa_find(links->nodes[r].isa, &one) && one < least) least = one;
    return least;
}

static void node_look(const struct look *look, uint32_t rank)
{
    const struct doctor_node *n = &look->links->nodes[rank];
    const uint64_t needed = 2 * look->links->node_count + LINKS_OWN + FILES_OWN;
    struct line l = {.state = DOCTOR_OK};
    char cores[16], files[24];
    enum isa own;
    snprintf(l.what, sizeof l.what, "node %u", rank);
    if (!n->is_in) {
        snprintf(l.found, sizeof l.found, "%s", n->place);
        todo(&l, DOCTOR_FAIL, "has not come within %g s%s%s; is it started, with --rank %u, and does it reach node 0?",
             look->links->wait_s, *n->why ? ": " : "", n->why, rank);
        line_say(look, DOCTOR_nodes, &l);
        return;
    }
    snprintf(cores, sizeof cores, "%u", n->cores);
    snprintf(files, sizeof files, "%" PRIu64, n->files);
    node_cells(l.found, sizeof l.found, (const char *const[]){n->place, n->host, n->version, n->isa, cores, files});
    if (n->files < needed)
        todo(&l, DOCTOR_FAIL, "may have too few files open: links take up to %" PRIu64 "; raise the limit (ulimit -n)",
             needed);
    const enum isa common = isa_common(look->links);
    if (isa_find(n->isa, &own) && own != common)
        todo(&l, DOCTOR_WARN,
             "all nodes of a training take the same instruction set, and others have no more than %s: "
             "give --isa %s to all nodes",
             isa_names[common], isa_names[common]);
    line_say(look, DOCTOR_nodes, &l);
}

/* --- links -------------------------------------------------------------------------------------- */

static const int link_widths[] = {ROUTE_WIDTH, 12, 8, 16, 13, 13, 14};
static void link_cells(char *text, size_t bytes, const char *const values[8])
{
    *text = 0;
    for (uint32_t i = 0; i < 8; i++) cell(text, bytes, values[i], i < 7 ? link_widths[i] : 0);
}

void doctor_links_headers(char nodes[DOCTOR_HEADER_BYTES], char links[DOCTOR_HEADER_BYTES])
{
    node_cells(nodes, DOCTOR_HEADER_BYTES,
               (const char *const[]){"place", "host", "version", "instructions", "cores", "open files"});
    link_cells(links, DOCTOR_HEADER_BYTES,
               (const char *const[]){"route", "key agrees", "MTU", "there and back", "1st to 2nd", "2nd to 1st",
                                     "both at once", "clock of 1st"});
}

static const char *const seal_names[FRAME_SEAL_COUNT] = {
    [FRAME_PLAIN] = "(no key)", [FRAME_CHACHA] = "ChaCha20", [FRAME_AESGCM] = "AES-GCM"};

static const char *rate_text(char text[WORDS_BYTES + 2], double bytes_a_s)
{
    words_bytes(text, bytes_a_s);
    return strcat(text, "/s");
}

static void pair_cells(const struct doctor_pair *p, char *text, size_t bytes)
{
    char route[2 * ADDRESS_TEXT_BYTES + 4], own[ADDRESS_TEXT_BYTES], peer[ADDRESS_TEXT_BYTES], mtu[16], clock[128];
    char rates[DOCTOR_WAY_COUNT][WORDS_BYTES + 2];
    const int64_t ahead = -p->ahead_ns;
    snprintf(route, sizeof route, "%s > %s", address_text(own, &p->path.own), address_text(peer, &p->path.peer));
    snprintf(mtu, sizeof mtu, "%u", p->path.mtu_bytes);
    for (uint32_t w = 0; w < DOCTOR_WAY_COUNT; w++) rate_text(rates[w], p->bytes_a_s[w]);
    snprintf(clock, sizeof clock, "%s%s ± %s", ahead < 0 ? "-" : "+",
             words_seconds(WORDS, (double)(ahead < 0 ? -ahead : ahead) * 1e-9),
             words_seconds(WORDS, (double)p->echo_least_ns * 0.5e-9));
    link_cells(text, bytes,
               (const char *const[]){route, seal_names[p->path.seal], p->path.mtu_bytes ? mtu : "?",
                                     words_seconds(WORDS, (double)p->echo_ns * 1e-9), rates[DOCTOR_TO_LOW],
                                     rates[DOCTOR_TO_HIGH], rates[DOCTOR_BOTH], clock});
}

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The slower way of a pair. */
static double least_rate(const struct doctor_pair *p)
{
    const double *rate = p->bytes_a_s;
    return rate[DOCTOR_TO_LOW] < rate[DOCTOR_TO_HIGH] ? rate[DOCTOR_TO_LOW] : rate[DOCTOR_TO_HIGH];
}

/* The median of the other pairs' slower ways; 0: fewer than OTHERS_FEW. */
static double others_rate(const struct doctor_links *links, const struct doctor_pair *but)
{
    static double rates[PAIRS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < links->node_count * (links->node_count - 1) / 2; i++)
        if (links->pairs[i].is_measured && &links->pairs[i] != but) rates[count++] = least_rate(&links->pairs[i]);
    if (count < OTHERS_FEW) return 0;
    qsort(rates, count, sizeof *rates, order);
    return rates[(count - 1) / 2];
}

/* Says what is slow or odd about a pair. */
static void pair_judge(const struct doctor_links *links, const struct doctor_pair *p, struct line *l, uint32_t low,
                       uint32_t high)
{
    char a[WORDS_BYTES + 2], b[WORDS_BYTES + 2];
    const double to_low = p->bytes_a_s[DOCTOR_TO_LOW], to_high = p->bytes_a_s[DOCTOR_TO_HIGH],
                 others = others_rate(links, p), least = least_rate(p);
    const bool is_odd = to_low < to_high / 2 || to_high < to_low / 2;
    if (p->path.mtu_bytes && p->path.mtu_bytes < MTU_LEAST)
        todo(l, DOCTOR_WARN,
             "packets of at most %u bytes pass, fewer than the %u of plain Ethernet: a tunnel, or a wrong setting?",
             p->path.mtu_bytes, MTU_LEAST);
    if (is_odd)
        todo(l, DOCTOR_WARN,
             "node %u gets %s from node %u, and the other way goes %s: look at that direction's cable, port and load",
             to_low < to_high ? low : high, rate_text(a, to_low < to_high ? to_low : to_high),
             to_low < to_high ? high : low, rate_text(b, to_low < to_high ? to_high : to_low));
    if (others > 0 && least < others / 2)
        todo(l, DOCTOR_WARN,
             "slow: %s, where half of the other links have %s or more, and a step waits for the slowest",
             rate_text(a, least), rate_text(b, others));
    else if (least < RATE_LEAST)
        todo(l, DOCTOR_WARN,
             "slow: %s is less than a network of 1 Gbit/s gives; "
             "each node sends and gets up to twice the bytes of the parameters a step",
             rate_text(a, least));
    if (p->echo_ns > ECHO_MOST)
        todo(l, DOCTOR_WARN, "far: a step waits for this time there and back at least twice, for sums and for values");
    const int64_t apart = (p->ahead_ns < 0 ? -p->ahead_ns : p->ahead_ns) - (int64_t)(p->echo_least_ns / 2);
    if (apart > CLOCK_MOST)
        todo(l, DOCTOR_WARN,
             "the clock of node %u is %s behind: training does not mind, but times in logs and saves do not compare; "
             "let NTP set both",
             p->ahead_ns > 0 ? high : low, words_seconds(WORDS, (double)apart * 1e-9));
}

static void pair_look(const struct look *look, uint32_t low, uint32_t high)
{
    const struct doctor_links *links = look->links;
    const struct doctor_pair *p = &links->pairs[doctor_pair_at(low, high)];
    struct line l = {.state = DOCTOR_OK};
    if (!links->nodes[low].is_in || !links->nodes[high].is_in) return; /* the node's line says so */
    snprintf(l.what, sizeof l.what, "node %u - node %u", high, low);
    if (!p->is_linked) {
        snprintf(l.found, sizeof l.found, "no link");
        todo(&l, DOCTOR_FAIL,
             "node %u does not reach node %u%s%s; is that the address and the port of node %u as seen from node %u, "
             "and does a firewall block it?",
             high, low, *p->why ? ": " : "", p->why, low, high);
    } else if (!p->is_measured) {
        snprintf(l.found, sizeof l.found, "linked");
        todo(&l, DOCTOR_FAIL, "not measured: measuring ended before this pair's turn");
    } else {
        pair_cells(p, l.found, sizeof l.found);
        pair_judge(links, p, &l, low, high);
    }
    line_say(look, DOCTOR_links, &l);
}

void doctor_links_look(const struct doctor_links *links, doctor_say *say, void *context)
{
    const struct look look = {links, say, context};
    for (uint32_t r = 0; r < links->node_count; r++) node_look(&look, r);
    for (uint32_t high = 1; high < links->node_count; high++)
        for (uint32_t low = 0; low < high; low++) pair_look(&look, low, high);
}
