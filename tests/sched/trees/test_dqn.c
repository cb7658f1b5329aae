/* DynPartition's agent: that it learns which device suits each node, is a function of its seed, and ends
 * where the paper's ended: with all nodes on the processor, unless what it is rewarded with is noise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/trees/dqn.h"
#include "tests/sched/trees/trees_fixture.h"

#define TREES 100u
/* Sanitizers' builds take five times as long, and see no more in a longer course. */
#ifdef __SANITIZE_ADDRESS__
#define IS_SHORT true
#else
#define IS_SHORT false
#endif

static struct trees_fixture trees;
static struct place_units units[TREES];
static const struct place_units *list[TREES];
static struct place_clock place_clock;
static void *memory;

static int group_open(void **state)
{
    (void)state;
    fixture_open(&trees, DQN_NODES_MAX, DQN_NODES_MAX);
    memory = units_open(units, TREES, DQN_NODES_MAX, &place_clock);
    struct draw d = draw_make(1, DRAW_TREES);
    for (uint32_t i = 0; i < TREES; i++) {
        fixture_clear(&trees);
        random_binary_add(&trees.nodes, i == 0 ? 64 : 5 + draw_below(&d, 10), &d);
        place_units_of_nodes(&units[i], &trees.nodes, TREE_NONE);
        list[i] = &units[i];
    }
    return 0;
}

static int group_close(void **state)
{
    (void)state;
    fixture_close(&trees);
    free(memory);
    return 0;
}

static struct dqn *open_seeing(uint32_t devices, enum dqn_state state, uint64_t seed)
{
    struct dqn *agent;
    assert_int_equal(dqn_open(&agent, devices, state, seed), ST_OK);
    return agent;
}
static struct dqn *open_agent(uint32_t devices, uint64_t seed) { return open_seeing(devices, DQN_AVERAGED, seed); }

static void dqn_place__epsilon__is_the_share_of_nodes_that_go_anywhere(void **state)
{
    (void)state;
    struct dqn *agent = open_agent(4, 1);
    const uint32_t count = units[0].count;
    uint8_t best[DQN_NODES_MAX], device[DQN_NODES_MAX];
    uint32_t on[4] = {0}, moved = 0;
    assert_int_equal(count, 127);
    dqn_place(agent, &units[0], 0, best);
    dqn_place(agent, &units[0], 0, device);
    assert_memory_equal(best, device, count);
    for (int i = 0; i < 100; i++) {
        dqn_place(agent, &units[0], 1, device);
        for (uint32_t n = 0; n < count; n++) on[device[n]]++;
        dqn_place(agent, &units[0], 0.2, device);
        for (uint32_t n = 0; n < count; n++) moved += device[n] != best[n];
    }
    for (int place = 0; place < 4; place++) assert_true(on[place] > 2930 && on[place] < 3420); /* of 12,700 */
    assert_true(moved > 1700 && moved < 2110);                                                 /* 0.2 * 3 / 4 */
    dqn_close(agent);
}

/* A node's own device costs nothing, the others 1. */
static uint32_t own_device(const struct place_units *u, uint32_t node)
{
    return u->child_begin[node] == u->child_begin[node + 1] ? 2 : u->is_root[node] ? 0 : 1;
}

static void dqn_learn__every_node_has_a_device_of_its_own__finds_it(void **state)
{
    (void)state;
    if (IS_SHORT) skip();
    struct dqn *agent = open_agent(3, 5);
    struct draw d = draw_make(2, DRAW_TREES);
    uint8_t device[DQN_NODES_MAX];
    uint32_t right = 0, all = 0;
    for (int i = 0; i < 6000; i++) {
        const struct place_units *u = &units[1 + draw_below(&d, 4)];
        double cost = 0;
        dqn_place(agent, u, 0.3, device);
        for (uint32_t n = 0; n < u->count; n++) cost += device[n] != own_device(u, n);
        dqn_remember(agent, u, device, -cost);
        dqn_learn(agent);
    }
    for (uint32_t i = 1; i <= 4; i++) {
        dqn_place(agent, &units[i], 0, device);
        for (uint32_t n = 0; n < units[i].count; n++) right += device[n] == own_device(&units[i], n);
        all += units[i].count;
    }
    print_message("# %u of %u nodes on their own device\n", right, all);
    assert_true(right * 10 >= all * 9);
    dqn_close(agent);
}

/* One device: nothing to choose, and a loss that is known but for the weights. */
static void dqn_learn__constant_reward__loss_vanishes(void **state)
{
    (void)state;
    struct dqn *agent = open_agent(1, 3);
    const uint8_t device[DQN_NODES_MAX] = {0};
    double loss = 0;
    for (uint32_t i = 0; i < DQN_BATCH; i++) {
        assert_float_equal(dqn_learn(agent), 0, 0); /* too few */
        dqn_remember(agent, &units[1], device, 5);
    }
    const double first = dqn_learn(agent);
    for (int i = 0; i < 40; i++) loss = dqn_learn(agent);
    print_message("# loss %.4f, then %.4f\n", first, loss);
    assert_float_equal(first, 32.457, 0.01);
    assert_float_equal(loss, 0.548, 0.01);
    for (int i = 0; i < 1000; i++) loss = dqn_learn(agent);
    assert_true(loss < 1e-6);
    dqn_close(agent);
}

static void dqn_reward_of__each_kind__is_as_said(void **state)
{
    (void)state;
    assert_float_equal(dqn_reward_of(DQN_MILLISECONDS, 0.004, 0.002), -4, 1e-12);
    assert_float_equal(dqn_reward_of(DQN_ROOT, 0.004, 0.002), -2, 1e-12);
    assert_float_equal(dqn_reward_of(DQN_RELATIVE, 0.004, 0.002), -2, 1e-12);
    assert_float_equal(dqn_reward_of(DQN_RELATIVE, 0.003, 0.002), -1.5, 1e-12);
}

struct course {
    double begin, end; /* what the first 200 episodes and the last 200 took, of what all on the first device take */
    double sum[2][2];
    uint32_t episodes;
};

static void told(void *context, uint32_t episode, double seconds, double seconds_first)
{
    struct course *c = context;
    assert_true(episode < c->episodes);
    if (episode >= 200 && episode < c->episodes - 200) return;
    c->sum[episode >= 200][0] += seconds;
    c->sum[episode >= 200][1] += seconds_first;
}

/* Nodes take 1 ms on the first device, 2 on the second, and 0.3 between them. */
static struct course learned_seeing(enum dqn_state state, enum dqn_reward reward, double noise, uint32_t episodes,
                                    uint64_t seed)
{
    struct place_machine m = {.device_count = 2, .is_synchronous = true};
    for (int k = 0; k < BINARY_KINDS; k++) m.seconds[0][k][0] = 1e-3, m.seconds[1][k][0] = 2e-3;
    m.link[0][1].latency = m.link[1][0].latency = 0.3e-3;
    struct course c = {.episodes = episodes};
    struct dqn *agent = open_seeing(2, state, seed);
    dqn_train(agent, &(struct dqn_training){.trees = list + 1,
                                            .tree_count = TREES - 1,
                                            .machine = &m,
                                            .seed = seed,
                                            .episodes = episodes,
                                            .reward = reward,
                                            .noise = noise,
                                            .passes = noise > 10 ? 1 : 10,
                                            .clock = &place_clock,
                                            .told = told,
                                            .context = &c});
    dqn_close(agent);
    c.begin = c.sum[0][0] / c.sum[0][1];
    c.end = c.sum[1][0] / c.sum[1][1];
    return c;
}

static struct course learned(enum dqn_reward reward, double noise, uint32_t episodes, uint64_t seed)
{
    return learned_seeing(DQN_AVERAGED, reward, noise, episodes, seed);
}

/* Nodes of a depth share a device, whatever else an agent does; it places few rows,
 * and learns soon which is best. */
static void dqn_train__levels__share_a_device_and_learn_sooner(void **state)
{
    (void)state;
    struct dqn *agent = open_seeing(4, DQN_PER_LEVEL, 3);
    const struct place_units *u = &units[0];
    uint8_t device[DQN_NODES_MAX];
    uint32_t depth[DQN_NODES_MAX] = {0}, moved = 0;
    for (uint32_t i = u->count; i-- > 0;)
        for (uint32_t e = u->child_begin[i]; e < u->child_begin[i + 1]; e++) depth[u->child[e]] = depth[i] + 1;
    for (int round = 0; round < 20; round++) {
        int of_depth[DQN_NODES_MAX];
        memset(of_depth, 0xff, sizeof of_depth);
        dqn_place(agent, u, 0.5, device);
        for (uint32_t i = 0; i < u->count; i++) {
            if (of_depth[depth[i]] < 0) of_depth[depth[i]] = device[i];
            assert_int_equal(of_depth[depth[i]], device[i]);
            moved += device[i] != device[0];
        }
    }
    assert_true(moved > 0);
    dqn_close(agent);
    const struct course levels = learned_seeing(DQN_PER_LEVEL, DQN_MILLISECONDS, 0, 1500, 1);
    print_message("# levels: %.3f, then %.3f\n", levels.begin, levels.end);
    assert_true(levels.begin > levels.end && levels.end < 1.15);
}

static void dqn_train__numbers_as_they_are__learns_too(void **state)
{
    (void)state;
    if (IS_SHORT) skip();
    const struct course raw = learned_seeing(DQN_RAW, DQN_MILLISECONDS, 0, 3000, 1);
    print_message("# raw: %.3f, then %.3f\n", raw.begin, raw.end);
    assert_true(raw.begin > 1.3 && raw.end < raw.begin - 0.1);
}

static void dqn_train__processor_is_faster__ends_there_unless_it_hears_noise(void **state)
{
    (void)state;
    if (IS_SHORT) skip();
    const uint32_t episodes = 4000;
    for (int reward = 0; reward < DQN_REWARDS; reward++) {
        const struct course c = learned(reward, 0, episodes, 1);
        print_message("# reward %d: %.3f, then %.3f\n", reward, c.begin, c.end);
        assert_true(c.begin > 1.4);
        assert_true(c.end < 1.15);
    }
    const struct course noisy = learned(DQN_MILLISECONDS, 20, episodes, 1);
    print_message("# noise: %.3f, then %.3f\n", noisy.begin, noisy.end);
    assert_true(noisy.end > 1.25);
}

static void dqn_train__same_seed__same_course(void **state)
{
    (void)state;
    const struct course a = learned(DQN_MILLISECONDS, 1, 500, 7), b = learned(DQN_MILLISECONDS, 1, 500, 7),
                        other = learned(DQN_MILLISECONDS, 1, 500, 8);
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(a.end != other.end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dqn_place__epsilon__is_the_share_of_nodes_that_go_anywhere),
        cmocka_unit_test(dqn_learn__every_node_has_a_device_of_its_own__finds_it),
        cmocka_unit_test(dqn_learn__constant_reward__loss_vanishes),
        cmocka_unit_test(dqn_reward_of__each_kind__is_as_said),
        cmocka_unit_test(dqn_train__processor_is_faster__ends_there_unless_it_hears_noise),
        cmocka_unit_test(dqn_train__same_seed__same_course),
        cmocka_unit_test(dqn_train__levels__share_a_device_and_learn_sooner),
        cmocka_unit_test(dqn_train__numbers_as_they_are__learns_too),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}
