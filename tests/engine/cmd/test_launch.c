/* How launch starts processes again, with processes that are this program's own children. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* In place of the library's, for what is static in it. */
#include "engine/cmd/verb_launch.c"

#include <stdatomic.h>
#include <sys/mman.h>

/* Shared by all processes: how often each was started. */
static struct shared {
    _Atomic uint32_t starts[2];
} * shared;

static void await_starts(uint32_t rank, uint32_t count)
{
    for (int i = 0; i < 1000 && atomic_load(&shared->starts[rank]) < count; i++) usleep(10000);
}

static status begin(struct launch *l)
{
    (void)l;
    return ST_OK;
}
static status prepare(struct launch *l, uint32_t rank, bool is_again, int *input)
{
    (void)l, (void)rank, (void)is_again;
    *input = -1;
    return ST_OK;
}
/* Node 1 ends well; node 0 is killed afterwards, and needs one more start. */
static void become_late(struct launch *l, uint32_t rank, bool is_again)
{
    (void)l;
    atomic_fetch_add(&shared->starts[rank], 1);
    if (rank == 1) _exit(0);
    if (is_again) {
        await_starts(1, 2);
        _exit(atomic_load(&shared->starts[1]) == 2 ? 0 : 3);
    }
    await_starts(1, 1);
    usleep(200000);
    raise(SIGKILL);
}
/* Node 0 is killed while node 1 goes on, which ends a moment before node 0 does. */
static void become_early(struct launch *l, uint32_t rank, bool is_again)
{
    (void)l;
    atomic_fetch_add(&shared->starts[rank], 1);
    if (rank == 0 && !is_again) raise(SIGKILL);
    await_starts(0, 2);
    usleep(rank == 1 ? 100000 : 400000);
    _exit(0);
}
/* Node 0 fails, and ends behind node 1, which has heard of it. */
static void become_told(struct launch *l, uint32_t rank, bool is_again)
{
    (void)l, (void)is_again;
    if (rank == 0) usleep(300000);
    dprintf(STDERR_FILENO, "heterps-run: error: %sthe disk is full\n", rank == 1 ? "node 0: " : "");
    _exit(1);
}
static void tell(struct launch *l, uint32_t rank, int signal) { (void)kill(l->process[rank].pid, signal); }
static enum launch_end ended(struct launch *l, uint32_t rank, int how, char *text)
{
    (void)l, (void)rank;
    snprintf(text, LAUNCH_HOW_BYTES, "with %d", how);
    if (WIFSIGNALED(how)) return LAUNCH_AGAIN;
    return WEXITSTATUS(how) == 0 ? LAUNCH_WELL : LAUNCH_FAILED;
}
static void name(const struct launch *l, uint32_t rank, char *text)
{
    (void)l;
    snprintf(text, LAUNCH_NAME_BYTES, "node %u", rank);
}

/* Two nodes by a way. */
static struct launch *nodes_of(const struct launch_way *way)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    struct launch *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->way = way;
    l->count = 2;
    for (uint32_t r = 0; r < MEMBER_NODES_MAX; r++)
        l->process[r] = (struct launch_process){.listen_fd = -1, .order_fd = -1, .out.from = -1, .error.from = -1};
    return l;
}

/* They are right; how often they have been started. */
static void nodes_run(void (*become)(struct launch *, uint32_t, bool), uint32_t first_starts, uint32_t other_starts)
{
    const struct launch_way way = {begin, prepare, become, tell, ended, name};
    struct launch *l = nodes_of(&way);
    assert_int_equal(all_run(l), ST_OK);
    assert_true(l->is_complete);
    assert_int_equal(atomic_load(&shared->starts[0]), first_starts);
    assert_int_equal(atomic_load(&shared->starts[1]), other_starts);
    free(l);
}

static void all_run__node_0_lost_behind_the_others_end__all_start_again(void **state)
{
    (void)state;
    nodes_run(become_late, 2, 2);
}

static void all_run__node_0_lost_while_others_go_on__they_are_left_alone(void **state)
{
    (void)state;
    nodes_run(become_early, 2, 1);
}

static void all_run__a_node_tells_of_another_ones_failure__that_one_is_named(void **state)
{
    (void)state;
    const struct launch_way way = {begin, prepare, become_told, tell, ended, name};
    struct launch *l = nodes_of(&way);
    assert_int_equal(all_run(l), ST_SYSTEM);
    assert_string_equal(status_message(), "node 0 has failed, and with it the job");
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_run__node_0_lost_behind_the_others_end__all_start_again),
        cmocka_unit_test(all_run__node_0_lost_while_others_go_on__they_are_left_alone),
        cmocka_unit_test(all_run__a_node_tells_of_another_ones_failure__that_one_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
