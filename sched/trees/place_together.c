/* The time of a placement whose units are computed together: batch by batch, a launch for each device with
 * units of the batch, a message for each pair of devices between which its values go. */
#include <math.h>

#include "sched/trees/tree_place.h"

#define COMES (-2.0) /* in `there`: comes in a message of this batch */

double place_seconds(const struct place_machine *m, uint32_t device, uint32_t kind, uint32_t count)
{
    const double *seconds = m->seconds[device][kind];
    if (count == 0) return 0;
    uint32_t size = 31 - (uint32_t)__builtin_clz(count);
    if (size > PLACE_SIZES - 2) size = PLACE_SIZES - 2;
    const double share = (double)count / (double)(UINT32_C(1) << size) - 1;
    return seconds[size] + share * (seconds[size + 1] - seconds[size]);
}

/* The bytes from one device to another; when all are ready to be sent, and when they have come. */
struct message {
    double bytes, begin, end;
};
struct batch_run {
    struct message from[PLACE_DEVICES_MAX][PLACE_DEVICES_MAX]; /* from, to */
    double ready[PLACE_DEVICES_MAX];                           /* when all inputs are there */
    uint32_t count[PLACE_DEVICES_MAX];
};

static void message_add(struct message *message, double bytes, double begin)
{
    message->bytes += bytes;
    message->begin = fmax(message->begin, begin);
}

static void message_send(struct place_clock *c, const struct place_machine *m, struct message *message, uint32_t from,
                         uint32_t to)
{
    if (message->bytes <= 0) return;
    double *busy_until = &c->link_busy_until[from][to];
    const double begin = m->is_synchronous ? c->result.seconds : fmax(message->begin, *busy_until);
    message->end = *busy_until = begin + m->link[from][to].latency + message->bytes * m->link[from][to].a_byte;
    c->result.transfers++;
    c->result.transfer_bytes += message->bytes;
    c->result.seconds = fmax(c->result.seconds, message->end);
}

static void inputs_gather(struct batch_run *run, struct place_clock *c, const struct place_units *u,
                          const struct place_machine *m, uint32_t unit)
{
    const uint32_t d = c->device[unit];
    run->count[d]++;
    if (d != 0) message_add(&run->from[0][d], m->input_bytes[u->kind[unit]], 0);
    for (uint32_t e = u->child_begin[unit]; e < u->child_begin[unit + 1]; e++) {
        double *there = c->there[u->child[e]];
        const uint32_t from = c->device[u->child[e]];
        if (there[d] >= 0) run->ready[d] = fmax(run->ready[d], there[d]);
        if (there[d] >= 0 || there[d] == COMES) continue;
        message_add(&run->from[from][d], m->bytes[u->kind[u->child[e]]], there[from]);
        there[d] = COMES;
    }
}

/* Notes when inputs come, after messages were sent. */
static void inputs_note(const struct batch_run *run, struct place_clock *c, const struct place_units *u, uint32_t unit)
{
    const uint32_t d = c->device[unit];
    for (uint32_t e = u->child_begin[unit]; e < u->child_begin[unit + 1]; e++) {
        double *there = &c->there[u->child[e]][d];
        if (*there == COMES) *there = run->from[c->device[u->child[e]]][d].end;
    }
}

void place_clock_add_batch(struct place_clock *c, const struct place_units *u, const struct place_machine *m,
                           uint32_t batch, const uint8_t *device)
{
    struct batch_run run = {0};
    const uint32_t *order = u->it.order, begin = u->it.batch_begin[batch], end = u->it.batch_begin[batch + 1];
    for (uint32_t i = begin; i < end; i++) {
        c->device[order[i]] = device[order[i]];
        inputs_gather(&run, c, u, m, order[i]);
    }
    for (uint32_t d = 0; d < m->device_count; d++)
        for (uint32_t from = 0; from < m->device_count; from++) {
            message_send(c, m, &run.from[from][d], from, d);
            run.ready[d] = fmax(run.ready[d], run.from[from][d].end);
        }
    for (uint32_t d = 0; d < m->device_count; d++) {
        if (run.count[d] == 0) continue;
        const double at = m->is_synchronous ? c->result.seconds : fmax(c->busy_until[d], run.ready[d]);
        c->busy_until[d] = at + place_seconds(m, d, u->it.batch_kind[batch], run.count[d]);
        c->result.seconds = fmax(c->result.seconds, c->busy_until[d]);
        c->result.launches++;
    }
    for (uint32_t i = begin; i < end; i++) {
        inputs_note(&run, c, u, order[i]);
        for (uint32_t d = 0; d < m->device_count; d++) c->there[order[i]][d] = PLACE_NEVER;
        c->there[order[i]][device[order[i]]] = c->busy_until[device[order[i]]];
    }
}

void place_clock_end(struct place_clock *c, const struct place_units *u, const struct place_machine *m)
{
    struct message message[PLACE_DEVICES_MAX] = {0};
    for (uint32_t i = 0; i < u->count && m->root_bytes > 0; i++)
        if (u->is_root[i] && c->device[i] != 0)
            message_add(&message[c->device[i]], m->root_bytes, c->there[i][c->device[i]]);
    for (uint32_t d = 1; d < m->device_count; d++) message_send(c, m, &message[d], d, 0);
}
