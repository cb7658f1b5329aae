/* Lays out steps of training as tasks, and reads speeds off them (sched/nets/data_parallel.h). */
#include "sched/nets/data_parallel.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/heap.h"
#include "sched/flow.h"
#include "sched/nets/net_build.h"

#define REDUCE_CYCLE     5e-3
#define REDUCE_BYTES_MAX 67108864.0
/* The share of the forward pass in both passes. */
#define FORWARD_SHARE (1.0 / 3)

/* A layer with parameters and the following layers without: they are pulled, computed and pushed together. */
struct parallel_part {
    double bytes, seconds; /* forwards */
    uint32_t last;         /* layer    */
    uint32_t server;       /* where its parameters lie */
};

/* A job while it is laid out. */
struct layout_of_job {
    struct flow *f;
    const struct parallel_job *job;
    const struct parallel_machines *machines;
    const uint32_t *out, *in; /* links: [machine] */
    struct parallel_part parts[NET_LAYERS_MAX];
    uint32_t part_count, front_count; /* front: the parts that workers compute */
    double out_bytes, back_seconds;   /* RALP: of a worker's batch         */
    uint32_t card[PARALLEL_CARDS_MAX];
    uint32_t process[PARALLEL_CARDS_MAX], process_machine[PARALLEL_CARDS_MAX], process_count;
    uint32_t process_in[PARALLEL_CARDS_MAX], process_out[PARALLEL_CARDS_MAX]; /* links */
    uint32_t ring_place, ring_link;
    /* places of streams, [process, server] */
    uint32_t pull_stream[PARALLEL_CARDS_MAX][PARALLEL_CARDS_MAX], push_stream[PARALLEL_CARDS_MAX][PARALLEL_CARDS_MAX];
    /* tasks of the step under way */
    uint32_t pull[PARALLEL_CARDS_MAX][NET_LAYERS_MAX], push[PARALLEL_CARDS_MAX][NET_LAYERS_MAX];
    uint32_t pulled[PARALLEL_CARDS_MAX], computed[PARALLEL_CARDS_MAX]; /* of a process; FLOW_NONE: overlapped */
    uint32_t reduce[NET_LAYERS_MAX];
    uint32_t step_end; /* FLOW_NONE: none yet */
};

static uint32_t server_machine(const struct layout_of_job *b, uint32_t server)
{
    return b->job->machine[b->job->worker_count + server];
}

/* Adds a transfer between a process and a server; `process_link` is the process's link in this direction. */
static uint32_t transfer_add(struct layout_of_job *b, uint32_t place, double bytes, uint32_t process_link,
                             uint32_t from, uint32_t to)
{
    const uint32_t links[] = {process_link, b->out[from], b->in[to]};
    return flow_transfer_add(b->f, place, bytes, links, from == to ? 1 : 3);
}

/* --- what a job is made of --------------------------------------------------------------------- */

static void parts_make(struct layout_of_job *b)
{
    const struct parallel_job *job = b->job;
    const bool has_back = job->way == PARALLEL_RALP;
    for (uint32_t l = 0; l < job->net->layer_count; l++) {
        const struct net_layer *layer = &job->net->layers[l];
        if (l == 0 || layer->params > 0 || (has_back && l == job->front_last + 1))
            b->parts[b->part_count++] = (struct parallel_part){0};
        struct parallel_part *part = &b->parts[b->part_count - 1];
        part->bytes += (double)layer->params * sizeof(float);
        part->seconds += layer->flops * job->flop_seconds * job->batch * FORWARD_SHARE;
        part->last = l;
    }
    b->front_count = b->part_count;
    if (!has_back) return;
    while (b->parts[b->front_count - 1].last > job->front_last) {
        b->front_count--;
        b->back_seconds += b->parts[b->front_count].seconds / FORWARD_SHARE;
    }
    b->out_bytes = (double)job->net->layers[job->front_last].cut_elems * job->batch * sizeof(float);
}

/* Puts each part on the server with the fewest bytes. */
static void servers_fill(struct layout_of_job *b)
{
    double bytes[PARALLEL_CARDS_MAX] = {0};
    for (uint32_t p = 0; p < b->front_count; p++) {
        uint32_t least = 0;
        for (uint32_t s = 1; s < b->job->server_count; s++)
            if (bytes[s] < bytes[least]) least = s;
        b->parts[p].server = least;
        bytes[least] += b->parts[p].bytes;
    }
}

static void places_make(struct layout_of_job *b)
{
    const struct parallel_job *job = b->job;
    for (uint32_t c = 0; c < job->worker_count + job->server_count; c++) b->card[c] = flow_place_add(b->f);
    for (uint32_t w = 0; w < job->worker_count; w++) {
        uint32_t p = 0;
        while (p < b->process_count && b->process_machine[p] != job->machine[w]) p++;
        if (p == b->process_count) b->process_machine[b->process_count++] = job->machine[w];
        b->process[w] = p;
    }
    b->ring_place = flow_place_add(b->f);
    b->ring_link = flow_link_add(b->f, b->machines->process_rate);
    for (uint32_t p = 0; p < b->process_count; p++) {
        b->process_in[p] = flow_link_add(b->f, b->machines->process_rate);
        b->process_out[p] = flow_link_add(b->f, b->machines->process_rate);
        for (uint32_t s = 0; s < job->server_count; s++) {
            b->pull_stream[p][s] = flow_place_add(b->f);
            b->push_stream[p][s] = flow_place_add(b->f);
        }
    }
}

/* --- a step ------------------------------------------------------------------------------------ */

static void pulls_add(struct layout_of_job *b)
{
    for (uint32_t p = 0; p < b->process_count; p++) {
        b->pulled[p] = b->machines->overlaps ? FLOW_NONE : flow_task_add(b->f, FLOW_NONE, 0);
        for (uint32_t q = 0; q < b->front_count; q++) {
            const struct parallel_part *part = &b->parts[q];
            b->pull[p][q] = FLOW_NONE;
            if (b->job->way == PARALLEL_ALL_REDUCE || part->bytes == 0) continue;
            b->pull[p][q] = transfer_add(b, b->pull_stream[p][part->server], part->bytes, b->process_in[p],
                                         server_machine(b, part->server), b->process_machine[p]);
            flow_after(b->f, b->pull[p][q], b->step_end);
            flow_after(b->f, b->pulled[p], b->pull[p][q]);
        }
    }
}

/* Adds the pushes of all parts' gradients; a push waits for all workers of its process. */
static void pushes_add(struct layout_of_job *b, uint32_t end)
{
    for (uint32_t p = 0; p < b->process_count; p++)
        for (uint32_t q = b->front_count; q-- > 0;) {
            const struct parallel_part *part = &b->parts[q];
            b->push[p][q] = part->bytes > 0
                                ? transfer_add(b, b->push_stream[p][part->server], part->bytes, b->process_out[p],
                                               b->process_machine[p], server_machine(b, part->server))
                                : flow_task_add(b->f, FLOW_NONE, 0);
            flow_after(b->f, end, b->push[p][q]);
            flow_after(b->f, b->push[p][q], b->computed[p]);
        }
}

/* A ring goes over every card, and leaves each machine once. */
static uint32_t reduce_add(struct layout_of_job *b, double bytes)
{
    uint32_t links[2 * PARALLEL_CARDS_MAX + 1] = {b->ring_link}, count = 1;
    const double workers = b->job->worker_count;
    for (uint32_t p = 0; p < b->process_count && b->process_count > 1; p++) {
        links[count++] = b->out[b->process_machine[p]];
        links[count++] = b->in[b->process_machine[p]];
    }
    const uint32_t reduce = flow_transfer_add(b->f, b->ring_place, 2 * bytes * (workers - 1) / workers, links, count);
    for (uint32_t p = 0; p < b->process_count; p++) flow_after(b->f, reduce, b->computed[p]);
    return reduce;
}

static void reduces_add(struct layout_of_job *b, uint32_t end)
{
    double bytes = 0, seconds = 0;
    uint64_t cycle = UINT64_MAX;
    uint32_t first = b->part_count;
    for (uint32_t q = b->part_count; q-- > 0;) {
        seconds += b->parts[q].seconds * (1 / FORWARD_SHARE - 1);
        const uint64_t now = (uint64_t)(seconds / REDUCE_CYCLE);
        if (first < b->part_count && (now != cycle || bytes + b->parts[q].bytes > REDUCE_BYTES_MAX)) {
            const uint32_t task = reduce_add(b, bytes);
            for (uint32_t i = q + 1; i <= first; i++) b->reduce[i] = task;
            flow_after(b->f, end, task);
            first = b->part_count;
        }
        if (first == b->part_count) {
            first = q;
            bytes = 0;
        }
        cycle = now;
        bytes += b->parts[q].bytes;
    }
    const uint32_t task = reduce_add(b, bytes);
    for (uint32_t i = 0; i <= first; i++) b->reduce[i] = task;
    flow_after(b->f, end, task);
}

/* Adds a worker's batch in the back, after its task `before`;
 * returns the task that its backward pass waits for. */
static uint32_t back_add(struct layout_of_job *b, uint32_t worker, uint32_t before, uint32_t end)
{
    const struct parallel_job *job = b->job;
    const uint32_t process = b->process[worker], returned = flow_task_add(b->f, FLOW_NONE, 0);
    for (uint32_t s = 0; s < job->server_count; s++) {
        const uint32_t there = transfer_add(b, FLOW_NONE, b->out_bytes, b->process_out[process], job->machine[worker],
                                            server_machine(b, s));
        const uint32_t back = flow_task_add(b->f, b->card[job->worker_count + s], b->back_seconds / job->server_count);
        const uint32_t here = transfer_add(b, FLOW_NONE, b->out_bytes, b->process_in[process], server_machine(b, s),
                                           job->machine[worker]);
        flow_after(b->f, there, before);
        flow_after(b->f, back, there);
        flow_after(b->f, here, back);
        flow_after(b->f, returned, here);
        flow_after(b->f, end, back);
    }
    return returned;
}

static void worker_add(struct layout_of_job *b, uint32_t worker, uint32_t end)
{
    const uint32_t process = b->process[worker];
    uint32_t before = b->step_end;
    for (uint32_t q = 0; q < b->front_count; q++) {
        const uint32_t forward = flow_task_add(b->f, b->card[worker], b->parts[q].seconds);
        flow_after(b->f, forward, before);
        flow_after(b->f, forward, b->pull[process][q]);
        flow_after(b->f, forward, b->pulled[process]);
        before = forward;
    }
    if (b->job->way == PARALLEL_RALP) before = back_add(b, worker, before, end);
    for (uint32_t q = b->front_count; q-- > 0;) {
        const uint32_t backward = flow_task_add(b->f, b->card[worker], b->parts[q].seconds * (1 / FORWARD_SHARE - 1));
        flow_after(b->f, backward, before);
        flow_after(b->f, b->job->way == PARALLEL_ALL_REDUCE ? b->reduce[q] : b->push[process][q], backward);
        before = backward;
    }
    flow_after(b->f, b->computed[process], before);
}

static void step_add(struct layout_of_job *b)
{
    const uint32_t end = flow_task_add(b->f, FLOW_NONE, 0);
    for (uint32_t p = 0; p < b->process_count; p++)
        b->computed[p] = b->machines->overlaps ? FLOW_NONE : flow_task_add(b->f, FLOW_NONE, 0);
    pulls_add(b);
    if (b->job->way == PARALLEL_ALL_REDUCE)
        reduces_add(b, end);
    else
        pushes_add(b, end);
    for (uint32_t w = 0; w < b->job->worker_count; w++) worker_add(b, w, end);
    b->step_end = end;
}

/* --- jobs -------------------------------------------------------------------------------------- */

/* Adds `steps` steps of the job, which begins at `begin`; ends[steps]: the tasks that end them. */
static status job_add(struct flow *f, const uint32_t *links, const struct parallel_machines *machines,
                      struct parallel_job *job, double begin, uint32_t steps, uint32_t *ends)
{
    struct layout_of_job *b = NULL;
    CHECK(job->worker_count > 0 && job->worker_count + job->server_count <= PARALLEL_CARDS_MAX);
    CHECK((job->server_count == 0) == (job->way == PARALLEL_ALL_REDUCE));
    CHECK(job->way != PARALLEL_RALP || job->front_last + 1 < job->net->layer_count);
    TRY(heap_room(&b, 1, sizeof *b, "layouts of a job"));
    *b = (struct layout_of_job){.f = f, .job = job, .machines = machines, .out = links, .in = links + machines->count};
    parts_make(b);
    if (job->server_count > 0) servers_fill(b);
    places_make(b);
    b->step_end = flow_task_add(f, FLOW_NONE, begin);
    for (uint32_t s = 0; s < steps; s++) {
        step_add(b);
        ends[s] = b->step_end;
    }
    job->compute_seconds = 0;
    for (uint32_t q = 0; q < b->front_count; q++) job->compute_seconds += b->parts[q].seconds / FORWARD_SHARE;
    free(b);
    return ST_OK;
}

struct jobs_run {
    uint32_t steps[PARALLEL_JOBS_MAX], *ends[PARALLEL_JOBS_MAX];
    double begin[PARALLEL_JOBS_MAX];
};

/* Sets the job's speed while all jobs run: over its steps that end from `from` to `to`. */
static void job_measure(const struct flow *f, const struct jobs_run *r, struct parallel_job *job, uint32_t index,
                        double from, double to)
{
    uint32_t first = 0, last = r->steps[index] - 1;
    while (first < last && f->tasks[r->ends[index][first]].end < from) first++;
    while (last > first + 1 && f->tasks[r->ends[index][last]].end > to) last--;
    if (first == last) first--;
    job->step_seconds = (f->tasks[r->ends[index][last]].end - f->tasks[r->ends[index][first]].end) / (last - first);
    job->images_per_second = (double)job->worker_count * job->batch / job->step_seconds;
}

static status jobs_run(const struct parallel_machines *machines, struct parallel_job *jobs, uint32_t count,
                       struct jobs_run *r)
{
    struct flow f = {0};
    uint32_t links[2 * PARALLEL_MACHINES_MAX];
    double from = 0, to = INFINITY;
    status st = ST_OK;
    for (uint32_t l = 0; l < 2 * machines->count; l++) links[l] = flow_link_add(&f, machines->link_rate);
    for (uint32_t j = 0; j < count; j++) {
        TRY_GOTO(heap_room(&r->ends[j], r->steps[j], sizeof *r->ends[j], "steps of a job"), done);
        TRY_GOTO(job_add(&f, links, machines, &jobs[j], r->begin[j], r->steps[j], r->ends[j]), done);
    }
    TRY_GOTO(flow_run(&f), done);
    for (uint32_t j = 0; j < count; j++) {
        from = fmax(from, f.tasks[r->ends[j][0]].end);
        to = fmin(to, f.tasks[r->ends[j][r->steps[j] - 1]].end);
    }
    for (uint32_t j = 0; j < count; j++) job_measure(&f, r, &jobs[j], j, from, to);
done:
    flow_free(&f);
    return st;
}

status parallel_run(const struct parallel_machines *machines, struct parallel_job *jobs, uint32_t count, uint32_t steps)
{
    CHECK(machines->count <= PARALLEL_MACHINES_MAX && count > 0 && count <= PARALLEL_JOBS_MAX && steps >= 2);
    struct jobs_run r = {0};
    status st = ST_OK;
    for (uint32_t j = 0; j < count; j++) r.steps[j] = count > 1 ? 4 : steps + 1;
    if (count > 1) {
        /* The first job alone gives the begins of the others, and a short run of all the
         * steps of each beside the slowest. */
        double slowest = 0;
        TRY_GOTO(jobs_run(machines, jobs, 1, &r), done);
        for (uint32_t j = 0; j < count; j++) r.begin[j] = jobs[0].step_seconds * j / count;
        TRY_GOTO(jobs_run(machines, jobs, count, &r), done);
        for (uint32_t j = 0; j < count; j++) slowest = fmax(slowest, jobs[j].step_seconds);
        for (uint32_t j = 0; j < count; j++)
            r.steps[j] = (uint32_t)ceil((steps + 1) * slowest / jobs[j].step_seconds) + 1;
    }
    st = jobs_run(machines, jobs, count, &r);
done:
    for (uint32_t j = 0; j < count; j++) free(r.ends[j]);
    return st;
}
