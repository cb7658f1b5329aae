/* Rings of both kinds: items arrive once, in each pusher's order, with what was written before; a ring is
 * full when it is full and empty when it is empty, whoever is at it. Also run under ThreadSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/ring.h"

#define ENDS_MAX 4u

static const enum ring_kind kinds[] = {RING_ONE, RING_MANY};

static void ring_open(struct ring *ring, struct arena *arena, uint32_t cell_count, enum ring_kind kind)
{
    assert_int_equal(arena_open(arena, "test", ring_bytes(cell_count, kind)), ST_OK);
    ring_place(ring, arena, cell_count, kind);
}

/* --- one thread --------------------------------------------------------------------------------- */

static void ring_try_push__full__is_refused_until_a_pop(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct ring ring;
        struct arena arena;
        uint32_t item;
        ring_open(&ring, &arena, 3, kinds[k]);
        assert_int_equal(ring.cell_count, 4);
        assert_false(ring_try_pop(&ring, &item));
        for (uint32_t round = 0; round < 10; round++) {
            for (uint32_t i = 0; i < 4; i++) {
                assert_int_equal(ring_depth(&ring), i);
                assert_true(ring_try_push(&ring, round + i));
            }
            assert_false(ring_try_push(&ring, 99));
            assert_int_equal(ring_depth(&ring), 4);
            for (uint32_t i = 0; i < 4; i++) {
                assert_true(ring_try_pop(&ring, &item));
                assert_int_equal(item, round + i);
            }
            assert_false(ring_try_pop(&ring, &item));
        }
        arena_close(&arena);
    }
}

static void ring_place__one_cell__holds_one_or_two(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct ring ring;
        struct arena arena;
        uint32_t item;
        ring_open(&ring, &arena, 1, kinds[k]);
        assert_int_equal(ring.cell_count, kinds[k] == RING_ONE ? 1 : 2);
        for (uint32_t round = 0; round < 10; round++) {
            for (uint32_t i = 0; i < ring.cell_count; i++) assert_true(ring_try_push(&ring, UINT32_MAX - i));
            assert_false(ring_try_push(&ring, 1));
            for (uint32_t i = 0; i < ring.cell_count; i++)
                assert_true(ring_try_pop(&ring, &item) && item == UINT32_MAX - i);
            assert_false(ring_try_pop(&ring, &item));
        }
        arena_close(&arena);
    }
}

/* Head and tail as they are after 2^32 - 2 items. */
static void ring__indices_wrap__order_stands(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct ring ring;
        struct arena arena;
        uint32_t item, begin = UINT32_MAX - 2;
        ring_open(&ring, &arena, 4, kinds[k]);
        ring.shared_head = ring.shared_tail = ring.head_seen = ring.tail_seen = begin;
        for (uint32_t i = 0; kinds[k] == RING_MANY && i < 4; i++)
            ring.shared_cell[(begin + i) % 4] = (uint64_t)(begin + i) << 32;
        for (uint32_t i = 0; i < 20; i++) {
            assert_true(ring_try_push(&ring, i));
            assert_true(ring_try_push(&ring, i + 100));
            assert_int_equal(ring_depth(&ring), 2);
            assert_true(ring_try_pop(&ring, &item) && item == i);
            assert_true(ring_try_pop(&ring, &item) && item == i + 100);
            assert_false(ring_try_pop(&ring, &item));
        }
        for (uint32_t i = 0; i < 4; i++) assert_true(ring_try_push(&ring, i));
        assert_false(ring_try_push(&ring, 4));
        arena_close(&arena);
    }
}

/* A thread stopped between filling (emptying) a cell and moving the tail (head) holds up nobody. */
static void ring_many__index_left_behind__is_moved_on_by_others(void **state)
{
    (void)state;
    struct ring ring;
    struct arena arena;
    uint32_t item;
    ring_open(&ring, &arena, 4, RING_MANY);
    for (uint32_t i = 0; i < 3; i++) assert_true(ring_try_push(&ring, i));
    ring.shared_tail = 2; /* the last pusher has not come to it */
    assert_true(ring_try_push(&ring, 3));
    assert_int_equal(ring.shared_tail, 4);
    assert_false(ring_try_push(&ring, 4));
    assert_true(ring_try_pop(&ring, &item) && item == 0);
    ring.shared_head = 0; /* nor has the popper */
    for (uint32_t i = 1; i < 4; i++) assert_true(ring_try_pop(&ring, &item) && item == i);
    assert_int_equal(ring.shared_head, 4);
    assert_false(ring_try_pop(&ring, &item));
    ring.shared_tail = 2; /* a pusher who comes to a cell that has been filled and emptied again */
    assert_true(ring_try_push(&ring, 5));
    assert_true(ring_try_pop(&ring, &item) && item == 5);
    arena_close(&arena);
}

/* --- many threads --------------------------------------------------------------------------------- */

/* Each pusher sends item_count items, (pusher, number) each; every item's payload lies in plain memory, so
 * that what makes it visible is the ring's ordering alone. Payload places are taken from a free ring that the
 * poppers give them back to: with no more places than cells no push may be refused. */
struct stress {
    struct ring full, free;
    struct arena arena, free_arena;
    uint64_t *payload; /* [places]: pusher << 32 | number */
    uint32_t pushers, poppers, item_count, places, pause_mask;
    _Atomic uint32_t shared_popped;
    uint8_t *seen; /* [pushers, item_count]: times popped */
    _Atomic uint32_t shared_failures;
};
struct end {
    struct stress *stress;
    uint32_t index;
    uint32_t number_next[ENDS_MAX]; /* a popper's: of each pusher, in order */
    pthread_t thread;
};

static void pause_sometimes(uint32_t i, uint32_t mask)
{
    if (mask != 0 && (i * 2654435761u >> 16 & mask) == 0) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static void *pusher_main(void *argument)
{
    struct end *e = argument;
    struct stress *s = e->stress;
    for (uint32_t number = 0; number < s->item_count; number++) {
        uint32_t place;
        while (!ring_try_pop(&s->free, &place)) sched_yield();
        s->payload[place] = (uint64_t)e->index << 32 | number;
        pause_sometimes(number + e->index, s->pause_mask);
        if (!ring_try_push(&s->full, place)) s->shared_failures++;
    }
    return NULL;
}

static void *popper_main(void *argument)
{
    struct end *e = argument;
    struct stress *s = e->stress;
    while (s->shared_popped < s->pushers * s->item_count) {
        uint32_t place;
        if (!ring_try_pop(&s->full, &place)) {
            sched_yield();
            continue;
        }
        uint32_t pusher = (uint32_t)(s->payload[place] >> 32), number = (uint32_t)s->payload[place];
        if (number < e->number_next[pusher]) s->shared_failures++; /* a pusher's items in its order */
        e->number_next[pusher] = number + 1;
        s->seen[pusher * s->item_count + number]++; /* plain: seen by nobody else, unless it comes twice */
        if (ring_depth(&s->full) > s->full.cell_count) s->shared_failures++;
        pause_sometimes(number * 3 + e->index, s->pause_mask);
        if (!ring_try_push(&s->free, place)) s->shared_failures++;
        s->shared_popped++;
    }
    return NULL;
}

static void stress_run(enum ring_kind kind, uint32_t pushers, uint32_t poppers, uint32_t places, uint32_t item_count,
                       uint32_t pause_mask)
{
    static struct stress s;
    static struct end end[2 * ENDS_MAX];
    memset(&s, 0, sizeof s);
    memset(end, 0, sizeof end);
    s.pushers = pushers, s.poppers = poppers, s.places = places, s.item_count = item_count, s.pause_mask = pause_mask;
    ring_open(&s.full, &s.arena, places, kind);
    ring_open(&s.free, &s.free_arena, places, kind);
    assert_non_null(s.payload = calloc(places, sizeof *s.payload));
    assert_non_null(s.seen = calloc(pushers, item_count));
    for (uint32_t p = 0; p < places; p++) assert_true(ring_try_push(&s.free, p));
    for (uint32_t i = 0; i < pushers + poppers; i++) {
        bool pushes = i < pushers;
        end[i] = (struct end){.stress = &s, .index = pushes ? i : i - pushers};
        assert_int_equal(pthread_create(&end[i].thread, NULL, pushes ? pusher_main : popper_main, &end[i]), 0);
    }
    for (uint32_t i = 0; i < pushers + poppers; i++) pthread_join(end[i].thread, NULL);
    for (uint32_t i = 0; i < pushers * item_count; i++)
        if (s.seen[i] != 1) fail_msg("item %u of pusher %u came %u times", i % item_count, i / item_count, s.seen[i]);
    assert_int_equal(s.shared_failures, 0);
    uint32_t count = 0;
    for (uint32_t place; ring_try_pop(&s.free, &place); count++) continue;
    assert_int_equal(count, places);
    free(s.payload);
    free(s.seen);
    arena_close(&s.arena);
    arena_close(&s.free_arena);
}

static const uint32_t places_tried[] = {1, 2, 8, 64}, masks_tried[] = {0, 63, 1023};

static void ring_one__two_threads__items_arrive_once_and_in_order(void **state)
{
    (void)state;
    for (size_t m = 0; m < 3; m++)
        for (size_t i = 0; i < 4; i++)
            stress_run(RING_ONE, 1, 1, places_tried[i], masks_tried[m] ? 3000 : 20000, masks_tried[m]);
}

static void ring_many__one_to_four_pushers_and_poppers__items_arrive_once_and_in_order(void **state)
{
    (void)state;
    for (uint32_t pushers = 1; pushers <= ENDS_MAX; pushers++)
        for (uint32_t poppers = 1; poppers <= ENDS_MAX; poppers++)
            for (size_t i = 0; i < 4; i++)
                stress_run(RING_MANY, pushers, poppers, places_tried[i], 2000, masks_tried[i % 3]);
}

/* The bound, seen from outside: pushes that succeeded less pops that have begun never exceed the cells. */
struct bound {
    struct ring ring;
    struct arena arena;
    _Atomic int64_t shared_inside, shared_inside_max;
    _Atomic uint32_t shared_pushed;
    uint32_t item_count;
};
static void *bound_push_main(void *argument)
{
    struct bound *b = argument;
    while (b->shared_pushed < b->item_count) {
        if (!ring_try_push(&b->ring, 1)) {
            sched_yield();
            continue;
        }
        b->shared_pushed++;
        int64_t inside = ++b->shared_inside, most = b->shared_inside_max;
        while (inside > most && !atomic_compare_exchange_weak(&b->shared_inside_max, &most, inside)) continue;
    }
    return NULL;
}
static void ring__pushers_never_wait__holds_no_more_than_its_cells(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (uint32_t cells = 2; cells <= 8; cells *= 4) {
            static struct bound b;
            pthread_t pusher[3];
            uint32_t pushers = kinds[k] == RING_ONE ? 1 : 3, popped = 0, item;
            memset(&b, 0, sizeof b);
            b.item_count = 5000;
            ring_open(&b.ring, &b.arena, cells, kinds[k]);
            for (uint32_t i = 0; i < pushers; i++)
                assert_int_equal(pthread_create(&pusher[i], NULL, bound_push_main, &b), 0);
            while (popped < b.item_count) {
                b.shared_inside--; /* before the pop: a push that it makes room for is not counted too many */
                if (ring_try_pop(&b.ring, &item)) {
                    popped++;
                    continue;
                }
                b.shared_inside++;
                sched_yield();
            }
            for (uint32_t i = 0; i < pushers; i++) pthread_join(pusher[i], NULL);
            assert_in_range(b.shared_inside_max + 1, 1, cells + 1);
            arena_close(&b.arena);
        }
}

/* Both ends of a RING_ONE go from thread to thread; the claim is what orders their private halves. */
struct relay {
    struct ring ring;
    struct arena arena;
    _Atomic uint32_t shared_push_claim, shared_pop_claim;
    uint64_t payload[64];
    uint32_t next_push, next_pop, wrong, item_count; /* under the claims */
};
static bool claim(_Atomic uint32_t *word)
{
    uint32_t free_value = 0;
    return atomic_compare_exchange_strong_explicit(word, &free_value, 1, memory_order_acquire, memory_order_relaxed);
}
static void claim_back(_Atomic uint32_t *word) { atomic_store_explicit(word, 0, memory_order_release); }

static void *relay_main(void *argument)
{
    struct relay *r = argument;
    for (bool is_over = false; !is_over;) {
        if (claim(&r->shared_push_claim)) {
            /* One more place than cells: what is pushed is never one that the popper still reads. */
            for (int burst = 0; burst < 3 && r->next_push < r->item_count; burst++) {
                uint32_t place = r->next_push % 64;
                if (ring_depth(&r->ring) >= 8) break;
                r->payload[place] = r->next_push;
                if (!ring_try_push(&r->ring, place)) break;
                r->next_push++;
            }
            claim_back(&r->shared_push_claim);
        }
        if (claim(&r->shared_pop_claim)) {
            uint32_t place;
            for (int burst = 0; burst < 3 && ring_try_pop(&r->ring, &place); burst++) {
                r->wrong += r->payload[place] != r->next_pop;
                r->next_pop++;
            }
            is_over = r->next_pop >= r->item_count;
            claim_back(&r->shared_pop_claim);
        }
        sched_yield();
    }
    return NULL;
}
static void ring_one__ends_pass_through_claims__items_arrive_once_and_in_order(void **state)
{
    (void)state;
    static struct relay r;
    pthread_t thread[4];
    memset(&r, 0, sizeof r);
    r.item_count = 50000;
    ring_open(&r.ring, &r.arena, 8, RING_ONE);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, relay_main, &r), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    assert_int_equal(r.next_pop, r.item_count);
    assert_int_equal(r.next_push, r.item_count);
    assert_int_equal(r.wrong, 0);
    arena_close(&r.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_try_push__full__is_refused_until_a_pop),
        cmocka_unit_test(ring_place__one_cell__holds_one_or_two),
        cmocka_unit_test(ring__indices_wrap__order_stands),
        cmocka_unit_test(ring_many__index_left_behind__is_moved_on_by_others),
        cmocka_unit_test(ring_one__two_threads__items_arrive_once_and_in_order),
        cmocka_unit_test(ring_many__one_to_four_pushers_and_poppers__items_arrive_once_and_in_order),
        cmocka_unit_test(ring__pushers_never_wait__holds_no_more_than_its_cells),
        cmocka_unit_test(ring_one__ends_pass_through_claims__items_arrive_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
