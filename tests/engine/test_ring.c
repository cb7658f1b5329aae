/* The ring: items arrive once, in order, with what their producer wrote before; sleepers wake; closing lets nobody
 * sleep on. Also run under ThreadSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/pipe/ring.h"

#define SLOTS 8u

struct pair {
    struct ring full, empty; /* slots travel one way full and the other way empty */
    uint32_t slot[SLOTS];    /* plain memory: the rings' orderings make it right  */
    uint32_t item_count, pause_mask;
    struct arena arena;
};

static void pair_open(struct pair *p, uint32_t cell_count)
{
    assert_int_equal(arena_open(&p->arena, "test", 2 * ring_bytes(cell_count)), ST_OK);
    ring_place(&p->full, &p->arena, cell_count);
    ring_place(&p->empty, &p->arena, cell_count);
}

/* Now and then longer than the spin. */
static void pause_sometimes(uint32_t i, uint32_t mask)
{
    if (mask != 0 && (i * 2654435761u >> 16 & mask) == 0) nanosleep(&(struct timespec){.tv_nsec = 60000}, NULL);
}

static void *producer_main(void *argument)
{
    struct pair *p = argument;
    for (uint32_t i = 0; i < p->item_count; i++) {
        uint32_t slot;
        if (!ring_pop(&p->empty, &slot)) return NULL;
        p->slot[slot] = i * 7 + 1;
        pause_sometimes(i, p->pause_mask);
        if (!ring_push(&p->full, slot)) return NULL;
    }
    ring_close(&p->full);
    return p;
}

static void ring__two_threads__items_arrive_once_and_in_order(void **state)
{
    (void)state;
    static const uint32_t masks[] = {0, 1023, 63, 7};
    for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++)
        for (uint32_t slots = 1; slots <= SLOTS; slots *= 2) {
            static struct pair p;
            pthread_t producer;
            uint32_t received = 0, slot;
            void *result;
            pair_open(&p, slots);
            p.item_count = masks[m] == 0 ? 20000 : masks[m] == 7 ? 1000 : 4000;
            p.pause_mask = masks[m];
            for (uint32_t s = 0; s < slots; s++) assert_true(ring_try_push(&p.empty, s));
            assert_int_equal(pthread_create(&producer, NULL, producer_main, &p), 0);
            while (ring_pop(&p.full, &slot)) {
                assert_int_equal(p.slot[slot], received * 7 + 1);
                received++;
                pause_sometimes(received * 3, p.pause_mask);
                assert_true(ring_push(&p.empty, slot));
            }
            pthread_join(producer, &result);
            assert_non_null(result);
            assert_int_equal(received, p.item_count);
            arena_close(&p.arena);
        }
}

static void ring_try_push__full__is_refused_until_a_pop(void **state)
{
    (void)state;
    struct pair p;
    uint32_t item;
    pair_open(&p, 3); /* rounded up to 4 */
    assert_int_equal(p.full.cell_count, 4);
    assert_false(ring_try_pop(&p.full, &item));
    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < 4; i++) assert_true(ring_try_push(&p.full, round + i));
        assert_false(ring_try_push(&p.full, 99));
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(ring_try_pop(&p.full, &item));
            assert_int_equal(item, round + i);
        }
        assert_false(ring_try_pop(&p.full, &item));
    }
    arena_close(&p.arena);
}

static void ring__indices_wrap__order_stands(void **state)
{
    (void)state;
    struct pair p;
    uint32_t item;
    pair_open(&p, 4);
    p.full.shared_head = p.full.shared_tail = p.full.head_seen = p.full.tail_seen = UINT32_MAX - 2;
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(ring_push(&p.full, i));
        assert_true(ring_push(&p.full, i + 100));
        assert_true(ring_pop(&p.full, &item));
        assert_int_equal(item, i);
        assert_true(ring_pop(&p.full, &item));
        assert_int_equal(item, i + 100);
    }
    arena_close(&p.arena);
}

static void ring_close__items_left__are_drained_and_pushes_fail(void **state)
{
    (void)state;
    struct pair p;
    uint32_t item;
    pair_open(&p, 4);
    assert_true(ring_push(&p.full, 5));
    assert_true(ring_push(&p.full, 6));
    ring_close(&p.full);
    assert_false(ring_push(&p.full, 7));
    assert_true(ring_pop(&p.full, &item) && item == 5);
    assert_true(ring_pop(&p.full, &item) && item == 6);
    assert_false(ring_pop(&p.full, &item));
    arena_close(&p.arena);
}

static void *pop_main(void *ring)
{
    uint32_t item;
    return ring_pop(ring, &item) ? ring : NULL;
}
static void *push_main(void *ring) { return ring_push(ring, 1) ? ring : NULL; }

/* A third thread closes at any moment: while the other end looks, spins, is about to sleep, sleeps. */
static void ring_close__other_end_waits__wakes_it(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        static struct pair p;
        pthread_t consumer, producer;
        void *popped, *pushed;
        pair_open(&p, 1);
        assert_true(ring_push(&p.empty, 0));
        assert_int_equal(pthread_create(&consumer, NULL, pop_main, &p.full), 0);
        assert_int_equal(pthread_create(&producer, NULL, push_main, &p.empty), 0);
        uint64_t end_ns = clock_ns() + round * 1000;
        while (clock_ns() < end_ns) continue;
        ring_close(&p.full);
        ring_close(&p.empty);
        pthread_join(consumer, &popped);
        pthread_join(producer, &pushed);
        assert_null(popped);
        assert_null(pushed);
        arena_close(&p.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring__two_threads__items_arrive_once_and_in_order),
        cmocka_unit_test(ring_try_push__full__is_refused_until_a_pop),
        cmocka_unit_test(ring__indices_wrap__order_stands),
        cmocka_unit_test(ring_close__items_left__are_drained_and_pushes_fail),
        cmocka_unit_test(ring_close__other_end_waits__wakes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
