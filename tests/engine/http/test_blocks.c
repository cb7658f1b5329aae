/* Blocks: what is kept, how much, by whom, and that contents stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/http/blocks.h"

/* AddressSanitizer sees every block: nothing is kept. */
#ifdef __SANITIZE_ADDRESS__
#define SKIP_IF_SEEN() skip()
#else
#define SKIP_IF_SEEN() (void)0
#endif

#define MANY 20000u
static void *held[MANY], *before[MANY];

/* Gives back more of a class than are kept: the first of them are, and come again, the last first. */
static void kept_check(size_t bytes, uint32_t most)
{
    blocks_keep();
    for (uint32_t i = 0; i < MANY; i++) assert_non_null(held[i] = blocks_take(bytes));
    memcpy(before, held, sizeof held);
    for (uint32_t i = 0; i < MANY; i++) blocks_give(held[i]);
    for (uint32_t i = 0; i < most; i++) assert_ptr_equal(blocks_take(bytes), before[most - 1 - i]);
    blocks_drop();
    for (uint32_t i = 0; i < most; i++) blocks_give(before[i]);
}

static void blocks_give__of_a_thread_that_keeps__are_taken_next(void **state)
{
    (void)state;
    SKIP_IF_SEEN();
    blocks_keep();
    char *one = blocks_take(40), *other = blocks_take(64), *larger = blocks_take(65);
    assert_true((uintptr_t)one % 16 == 0 && (uintptr_t)other % 16 == 0 && one != other);
    memset(one, 1, 40);
    memset(other, 2, 64);
    memset(larger, 3, 65);
    blocks_give(one);
    blocks_give(other);
    blocks_give(NULL);
    assert_ptr_equal(blocks_take(33), other); /* of one class, the last first */
    assert_ptr_equal(blocks_take(64), one);
    blocks_give(larger);
    assert_ptr_equal(blocks_take(96), larger);
    assert_null(blocks_take(SIZE_MAX));
    assert_null(blocks_take(SIZE_MAX - 40));
    blocks_give(one), blocks_give(other), blocks_give(larger);
    blocks_drop();
}

static void blocks_give__more_than_are_kept__are_freed(void **state)
{
    (void)state;
    SKIP_IF_SEEN();
    kept_check(1, BLOCKS_CLASS_BYTES / 48);
    kept_check(1024, BLOCKS_CLASS_BYTES / 1040);
}

static void blocks_retake__keeps_what_is_in_it(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (int keeps = 0; keeps < 2; keeps++) {
        if (keeps) blocks_keep();
        size_t bytes = 0;
        unsigned char *block = NULL;
        for (int i = 0; i < 2000; i++) {
            const size_t next = (size_t)rand_r(&seed) % (i % 2 ? 200 : 5000), stays = next < bytes ? next : bytes;
            assert_non_null(block = blocks_retake(block, next));
            for (size_t k = 0; k < stays; k++) assert_int_equal(block[k], (unsigned char)(k * 7));
            for (size_t k = stays; k < next; k++) block[k] = (unsigned char)(k * 7);
            bytes = next;
        }
        blocks_give(block);
        blocks_drop();
    }
}

static void *other_main(void *blocks)
{
    for (uint32_t i = 0; i < 100; i++) blocks_give(((void **)blocks)[i]);
    return NULL;
}

static void blocks_give__on_another_thread__leaves_nothing_there(void **state)
{
    (void)state;
    pthread_t thread;
    blocks_keep();
    for (uint32_t i = 0; i < 100; i++) held[i] = blocks_take(i * 30);
    assert_int_equal(thread_start(&thread, other_main, held), 0);
    pthread_join(thread, NULL);
    blocks_drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_give__of_a_thread_that_keeps__are_taken_next),
        cmocka_unit_test(blocks_give__more_than_are_kept__are_freed),
        cmocka_unit_test(blocks_retake__keeps_what_is_in_it),
        cmocka_unit_test(blocks_give__on_another_thread__leaves_nothing_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
