/* Runs a graph of tasks: a queue for each place, a heap of the tasks that spend seconds, and a list of tasks
 * with bytes on links, whose rates are set anew whenever a task joins or leaves the list. */
#include "sched/flow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"
#include "engine/base/memory.h"

/* --- building ---------------------------------------------------------------------------------- */

/* Makes room for `more` items behind `count`; arrays have room for a power of two. */
static bool room(struct flow *f, void *items, uint32_t count, uint32_t more, size_t item_bytes)
{
    size_t now = 0, then = 8;
    if (count > 0)
        for (now = 8; now < count;) now *= 2;
    while (then < (size_t)count + more) then *= 2;
    if (!f->is_too_long && then > now) f->is_too_long = heap_room(items, then, item_bytes, "of a flow") != ST_OK;
    return !f->is_too_long;
}

uint32_t flow_place_add(struct flow *f)
{
    if (!room(f, &f->places, f->place_count, 1, sizeof *f->places)) return 0;
    f->places[f->place_count] = (struct flow_place){0};
    return f->place_count++;
}

uint32_t flow_link_add(struct flow *f, double rate)
{
    CHECK(rate > 0);
    if (!room(f, &f->links, f->link_count, 1, sizeof *f->links)) return 0;
    f->links[f->link_count] = (struct flow_link){.rate = rate};
    return f->link_count++;
}

uint32_t flow_task_add(struct flow *f, uint32_t place, double seconds)
{
    CHECK(seconds >= 0);
    if (!room(f, &f->tasks, f->task_count, 1, sizeof *f->tasks)) return 0;
    f->tasks[f->task_count] = (struct flow_task){.place = place, .seconds = seconds, .link_first = f->task_link_count};
    return f->task_count++;
}

uint32_t flow_transfer_add(struct flow *f, uint32_t place, double bytes, const uint32_t *links, uint32_t link_count)
{
    CHECK(bytes >= 0);
    const uint32_t task = flow_task_add(f, place, 0);
    if (!room(f, &f->task_links, f->task_link_count, link_count, sizeof *f->task_links)) return 0;
    if (link_count > 0) memcpy(&f->task_links[f->task_link_count], links, link_count * sizeof *links);
    f->task_link_count += link_count;
    f->tasks[task].bytes = bytes;
    f->tasks[task].link_count = link_count;
    return task;
}

void flow_first(struct flow *f, uint32_t task)
{
    if (!f->is_too_long) f->tasks[task].is_first = true;
}

void flow_after(struct flow *f, uint32_t task, uint32_t before)
{
    if (task == FLOW_NONE || before == FLOW_NONE) return;
    if (!room(f, &f->edges, f->edge_count, 1, sizeof *f->edges)) return;
    f->edges[f->edge_count++] = (struct flow_edge){before, task};
}

void flow_free(struct flow *f)
{
    free(f->tasks);
    free(f->places);
    free(f->links);
    free(f->edges);
    free(f->task_links);
    *f = (struct flow){0};
}

/* --- running ----------------------------------------------------------------------------------- */

struct run {
    struct flow *f;
    double now;
    uint32_t *wait;                       /* [task]: number of tasks that it waits for             */
    uint32_t *after_begin, *after;        /* [task + 1], [edge]: tasks that wait for it            */
    uint32_t *next, *head, *tail;         /* [task], [place], [place]: queues; FLOW_NONE: the end  */
    bool *is_held;                        /* [place]                                               */
    uint32_t *fresh, *done, *timer;       /* [task]: ready now; done now; a heap by end            */
    uint32_t *moving;                     /* [task]: on links                                      */
    double *left, *rate, *since, *finish; /* [task], of tasks on links                             */
    double *link_room;                    /* [link]                                                */
    uint32_t *link_users;                 /* [link]: tasks whose rate is not set yet               */
    uint32_t fresh_count, done_count, timer_count, moving_count, finished_count;
    bool is_moving_new; /* tasks joined or left moving[] */
};

static void run_layout(struct run *r, struct layout *layout)
{
    const struct flow *f = r->f;
    LAYOUT_TAKE(layout, r->wait, f->task_count);
    LAYOUT_TAKE(layout, r->after_begin, f->task_count + 2);
    LAYOUT_TAKE(layout, r->after, f->edge_count);
    LAYOUT_TAKE(layout, r->next, f->task_count);
    LAYOUT_TAKE(layout, r->head, f->place_count);
    LAYOUT_TAKE(layout, r->tail, f->place_count);
    LAYOUT_TAKE(layout, r->is_held, f->place_count);
    LAYOUT_TAKE(layout, r->fresh, f->task_count);
    LAYOUT_TAKE(layout, r->done, f->task_count);
    LAYOUT_TAKE(layout, r->timer, f->task_count);
    LAYOUT_TAKE(layout, r->moving, f->task_count);
    LAYOUT_TAKE(layout, r->left, f->task_count);
    LAYOUT_TAKE(layout, r->rate, f->task_count);
    LAYOUT_TAKE(layout, r->since, f->task_count);
    LAYOUT_TAKE(layout, r->finish, f->task_count);
    LAYOUT_TAKE(layout, r->link_room, f->link_count);
    LAYOUT_TAKE(layout, r->link_users, f->link_count);
}

/* Finds which tasks wait for which, and which wait for none. */
static void run_begin(struct run *r)
{
    const struct flow *f = r->f;
    memset(r->wait, 0, f->task_count * sizeof *r->wait);
    memset(r->after_begin, 0, (f->task_count + 2) * sizeof *r->after_begin);
    for (uint32_t e = 0; e < f->edge_count; e++) {
        r->wait[f->edges[e].after]++;
        r->after_begin[f->edges[e].before + 2]++;
    }
    for (uint32_t task = 0; task < f->task_count; task++) r->after_begin[task + 2] += r->after_begin[task + 1];
    for (uint32_t e = 0; e < f->edge_count; e++) r->after[r->after_begin[f->edges[e].before + 1]++] = f->edges[e].after;
    for (uint32_t p = 0; p < f->place_count; p++) {
        r->head[p] = r->tail[p] = FLOW_NONE;
        r->is_held[p] = false;
    }
    for (uint32_t task = 0; task < f->task_count; task++)
        if (r->wait[task] == 0) r->fresh[r->fresh_count++] = task;
}

/* The order of the heap: by end, and among equals by number. */
static bool ends_before(const struct run *r, uint32_t a, uint32_t b)
{
    const double end_a = r->f->tasks[a].end, end_b = r->f->tasks[b].end;
    return end_a < end_b || (end_a == end_b && a < b);
}

static void timer_push(struct run *r, uint32_t task)
{
    uint32_t i = r->timer_count++;
    for (; i > 0 && ends_before(r, task, r->timer[(i - 1) / 2]); i = (i - 1) / 2) r->timer[i] = r->timer[(i - 1) / 2];
    r->timer[i] = task;
}

static uint32_t timer_pop(struct run *r)
{
    const uint32_t top = r->timer[0], last = r->timer[--r->timer_count];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < r->timer_count; i = child) {
        if (child + 1 < r->timer_count && ends_before(r, r->timer[child + 1], r->timer[child])) child++;
        if (!ends_before(r, r->timer[child], last)) break;
        r->timer[i] = r->timer[child];
    }
    r->timer[i] = last;
    return top;
}

/* Whether a task of a queue is served before one that is ready now. */
static bool is_before(const struct run *r, uint32_t queued, uint32_t task)
{
    const struct flow_task *tasks = r->f->tasks;
    if (tasks[queued].is_first != tasks[task].is_first) return tasks[queued].is_first;
    return tasks[queued].ready < r->now || queued < task;
}

/* Puts a task into its place's queue, behind tasks that were ready earlier,
 * or are ready now with a lower number. */
static void queue_put(struct run *r, uint32_t task)
{
    const uint32_t place = r->f->tasks[task].place, tail = r->tail[place];
    uint32_t *link = &r->head[place];
    if (tail != FLOW_NONE && is_before(r, tail, task))
        link = &r->next[tail];
    else
        while (*link != FLOW_NONE && is_before(r, *link, task)) link = &r->next[*link];
    r->next[task] = *link;
    *link = task;
    if (r->next[task] == FLOW_NONE) r->tail[place] = task;
}

/* The task's seconds are over: puts its bytes on its links. */
static void task_move(struct run *r, uint32_t task)
{
    const struct flow_task *t = &r->f->tasks[task];
    if (t->bytes == 0 || t->link_count == 0) {
        r->done[r->done_count++] = task;
        return;
    }
    r->left[task] = t->bytes;
    r->rate[task] = 0;
    r->since[task] = r->now;
    r->moving[r->moving_count++] = task;
    r->is_moving_new = true;
}

static void task_begin(struct run *r, uint32_t task)
{
    struct flow_task *t = &r->f->tasks[task];
    t->begin = r->now;
    if (t->seconds == 0) {
        task_move(r, task);
        return;
    }
    t->end = r->now + t->seconds;
    timer_push(r, task);
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Puts ready tasks into their place's queue; tasks without a place begin. */
static void fresh_take(struct run *r)
{
    const uint32_t count = r->fresh_count;
    qsort(r->fresh, count, sizeof *r->fresh, by_number);
    r->fresh_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        r->f->tasks[r->fresh[i]].ready = r->now;
        if (r->f->tasks[r->fresh[i]].place == FLOW_NONE)
            task_begin(r, r->fresh[i]);
        else
            queue_put(r, r->fresh[i]);
    }
}

static void done_take(struct run *r)
{
    const uint32_t count = r->done_count;
    r->done_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t task = r->done[i];
        struct flow_task *t = &r->f->tasks[task];
        t->end = r->f->seconds = r->now;
        if (t->place != FLOW_NONE) {
            r->is_held[t->place] = false;
            r->f->places[t->place].busy += t->end - t->begin;
        }
        r->finished_count++;
        for (uint32_t e = r->after_begin[task]; e < r->after_begin[task + 1]; e++)
            if (--r->wait[r->after[e]] == 0) r->fresh[r->fresh_count++] = r->after[e];
    }
}

static void places_take(struct run *r)
{
    for (uint32_t p = 0; p < r->f->place_count; p++) {
        const uint32_t task = r->head[p];
        if (task == FLOW_NONE || r->is_held[p]) continue;
        r->head[p] = r->next[task];
        if (r->head[p] == FLOW_NONE) r->tail[p] = FLOW_NONE;
        r->is_held[p] = true;
        task_begin(r, task);
    }
}

/* The link that is full first when all rates that are not set yet rise together; they rise by *share. */
static uint32_t link_narrowest(const struct run *r, double *share)
{
    uint32_t narrowest = FLOW_NONE;
    *share = INFINITY;
    for (uint32_t l = 0; l < r->f->link_count; l++)
        if (r->link_users[l] > 0 && r->link_room[l] / r->link_users[l] < *share) {
            *share = r->link_room[l] / r->link_users[l];
            narrowest = l;
        }
    return narrowest;
}

static bool is_on(const struct flow *f, const struct flow_task *t, uint32_t link)
{
    for (uint32_t i = 0; i < t->link_count; i++)
        if (f->task_links[t->link_first + i] == link) return true;
    return false;
}

static void rates_set(struct run *r)
{
    const struct flow *f = r->f;
    for (uint32_t l = 0; l < f->link_count; l++) {
        r->link_room[l] = f->links[l].rate;
        r->link_users[l] = 0;
    }
    for (uint32_t i = 0; i < r->moving_count; i++) {
        const uint32_t task = r->moving[i];
        const struct flow_task *t = &f->tasks[task];
        r->left[task] = fmax(0, r->left[task] - r->rate[task] * (r->now - r->since[task]));
        r->since[task] = r->now;
        r->rate[task] = 0;
        for (uint32_t k = 0; k < t->link_count; k++) r->link_users[f->task_links[t->link_first + k]]++;
    }
    double share;
    for (uint32_t link; (link = link_narrowest(r, &share)) != FLOW_NONE;)
        for (uint32_t i = 0; i < r->moving_count; i++) {
            const uint32_t task = r->moving[i];
            const struct flow_task *t = &f->tasks[task];
            if (r->rate[task] > 0 || !is_on(f, t, link)) continue;
            r->rate[task] = share;
            r->finish[task] = r->now + r->left[task] / share;
            for (uint32_t k = 0; k < t->link_count; k++) {
                const uint32_t l = f->task_links[t->link_first + k];
                r->link_users[l]--;
                r->link_room[l] = fmax(r->link_room[l] - share, f->links[l].rate * 1e-12);
            }
        }
    r->is_moving_new = false;
}

/* Passes the time until the next event; false: there is none. */
static bool time_pass(struct run *r)
{
    double next = INFINITY;
    if (r->is_moving_new) rates_set(r);
    if (r->timer_count > 0) next = r->f->tasks[r->timer[0]].end;
    for (uint32_t i = 0; i < r->moving_count; i++) next = fmin(next, r->finish[r->moving[i]]);
    if (next == INFINITY) return false;
    r->now = next;
    while (r->timer_count > 0 && r->f->tasks[r->timer[0]].end <= next) task_move(r, timer_pop(r));
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->moving_count; i++) {
        const uint32_t task = r->moving[i];
        if (r->rate[task] > 0 && r->finish[task] <= next) {
            const struct flow_task *t = &r->f->tasks[task];
            for (uint32_t k = 0; k < t->link_count; k++)
                r->f->links[r->f->task_links[t->link_first + k]].bytes += t->bytes;
            r->done[r->done_count++] = task;
            r->is_moving_new = true;
        } else {
            r->moving[kept++] = task;
        }
    }
    r->moving_count = kept;
    return true;
}

status flow_run(struct flow *f)
{
    if (f->is_too_long) FAIL(MEMORY, "no memory for a flow of %u tasks and %u edges", f->task_count, f->edge_count);
    struct run r = {.f = f};
    struct layout sum = {.align = 8};
    run_layout(&r, &sum);
    uint8_t *memory = NULL;
    TRY(heap_room(&memory, sum.bytes + 1, 1, "of a flow's run"));
    run_layout(&r, &(struct layout){.base = memory, .align = 8});
    run_begin(&r);
    do {
        /* Tasks that end or become ready are handled before a place is given: they are served by number. */
        do {
            done_take(&r);
            fresh_take(&r);
            if (r.done_count == 0 && r.fresh_count == 0) places_take(&r);
        } while (r.done_count > 0 || r.fresh_count > 0);
    } while (time_pass(&r));
    uint32_t stuck = 0;
    while (stuck < f->task_count && r.wait[stuck] == 0) stuck++;
    const bool is_done = r.finished_count == f->task_count;
    free(memory);
    if (!is_done) FAIL(INVALID, "task %u of %u waits for itself: a ring of tasks", stuck, f->task_count);
    return ST_OK;
}
