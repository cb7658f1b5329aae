/* How nodes divide a load by the bandwidths of their links: cases worked out by hand, random ones beside
 * drawn shares, and whole parts whose sum is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/node/share.h"
#include "io/store/shard.h"

_Static_assert(SHARE_PARTS == SHARD_COUNT, "a part is a shard");

static uint64_t seed = 7;
static uint32_t draw_below(uint32_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((seed >> 32) * bound >> 32);
}

static double seconds_of(const struct share_load *load, uint32_t count, const double *share)
{
    double most = 0;
    for (uint32_t n = 0; n < count; n++)
        for (int i = 0; i < 2; i++)
            most = fmax(most, (load[n].line[i].base + load[n].line[i].slope * share[n]) / load[n].bandwidth);
    return most;
}

/* A load of one line; of one bucket, of three nodes that compute. */
#define LINE(base, slope, bandwidth)                                                                                   \
    {                                                                                                                  \
        {{base, slope}, {base, slope}}, bandwidth                                                                      \
    }
#define ONE_BUCKET(bandwidth)                                                                                          \
    {                                                                                                                  \
        {{2, -2}, {0, 4}}, bandwidth                                                                                   \
    }

static void share_find__by_hand__shares_and_seconds(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        struct share_load load[4];
        double seconds, share[4];
    } cases[] = {
        {1, {LINE(1, -1, 5)}, 0, {1}},
        {3, {LINE(1, 1, 1), LINE(1, 1, 1), LINE(1, 1, 1)}, 4 / 3.0, {1 / 3.0, 1 / 3.0, 1 / 3.0}},
        /* one of half the rate gets nothing: what it has to send anyway takes 2 */
        {3, {LINE(1, 1, 1), LINE(1, 1, 1), LINE(1, 1, .5)}, 2, {.5, .5, 0}},
        /* one of 0.9 of it gets less: T - 1 + T - 1 + .9 T - 1 = 1 */
        {3, {LINE(1, 1, 1), LINE(1, 1, 1), LINE(1, 1, .9)}, 4 / 2.9, {1.1 / 2.9, 1.1 / 2.9, .7 / 2.9}},
        /* two that compute: whoever has a slice, they send as much */
        {2, {LINE(1, 0, 1), LINE(1, 0, .1)}, 10, {.5, .5}},
        /* servers alone, of two nodes that compute: by their rates */
        {2, {LINE(0, 2, 3), LINE(0, 2, 1)}, .5, {.75, .25}},
        /* who has most of the lanes sends less with more of the rows */
        {2, {LINE(.75, -.5, 1), LINE(.25, .5, .5)}, .5, {1, 0}},
        {3, {LINE(.6, -.2, 1), LINE(.2, .6, 2), LINE(.2, .6, 2)}, .4, {1, 0, 0}},
        {3, {LINE(.6, -.2, 2), LINE(.2, .6, .5), LINE(.2, .6, 1)}, .4, {.75, 0, .25}},
        /* sums and values in turn: a slow one is done soonest with a third, and the others share the rest */
        {3, {ONE_BUCKET(1), ONE_BUCKET(1), ONE_BUCKET(.5)}, 8 / 3.0, {1 / 3.0, 1 / 3.0, 1 / 3.0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double share[4], sum = 0;
        const double seconds = share_find(cases[i].load, cases[i].count, share);
        for (uint32_t n = 0; n < cases[i].count; n++) {
            sum += share[n];
            if (fabs(share[n] - cases[i].share[n]) > 1e-9)
                fail_msg("case %zu, node %u: %g, expected %g", i, n, share[n], cases[i].share[n]);
        }
        assert_true(fabs(sum - 1) < 1e-9);
        assert_true(fabs(seconds - cases[i].seconds) < 1e-9);
        assert_true(fabs(seconds_of(cases[i].load, cases[i].count, share) - seconds) < 1e-9);
    }
}

/* No drawn shares are better, and the shares that are found take as long as is said. */
static void share_find__random_loads__the_least(void **state)
{
    (void)state;
    uint32_t near = 0;
    for (uint32_t round = 0; round < 300; round++) {
        struct share_load load[5];
        double share[5], other[5], sum = 0;
        const uint32_t count = 1 + draw_below(5);
        for (uint32_t n = 0; n < count; n++) {
            load[n].bandwidth = 1 + draw_below(4);
            for (int i = 0; i < 2; i++) {
                struct share_line *line = &load[n].line[i];
                *line = (struct share_line){draw_below(5) / 4.0, draw_below(13) / 4.0 - 1};
                if (line->base + line->slope < 0) line->slope = -line->base;
            }
        }
        const double seconds = share_find(load, count, share);
        for (uint32_t n = 0; n < count; n++) {
            assert_true(share[n] >= 0 && share[n] <= 1 + 1e-12);
            sum += share[n];
        }
        assert_true(fabs(sum - 1) < 1e-9 && seconds_of(load, count, share) <= seconds + 1e-9);
        for (uint32_t i = 0; i < 300; i++) {
            double all = 0;
            for (uint32_t n = 0; n < count; n++) all += other[n] = draw_below(3) ? draw_below(1000) + 1e-3 : 1e-9;
            for (uint32_t n = 0; n < count; n++) other[n] /= all;
            const double theirs = seconds_of(load, count, other);
            if (theirs < seconds - 1e-9) fail_msg("round %u: %g s, and drawn shares take %g s", round, seconds, theirs);
            near += theirs < seconds * 1.02;
        }
    }
    assert_in_range(near, 3000, 90000); /* the search comes near */
}

static void share_round__any_shares__parts_that_sum_up(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        double share[4];
        uint16_t parts[4];
    } cases[] = {
        {1, {1}, {4096}},
        {2, {.5, .5}, {2048, 2048}},
        {3, {1 / 3.0, 1 / 3.0, 1 / 3.0}, {1366, 1365, 1365}}, /* of equal ones the first */
        {3, {.5, .5, 0}, {2048, 2048, 0}},
        {3, {100.2 / 4096, 100.7 / 4096, 3895.1 / 4096}, {100, 101, 3895}},
        {4, {100.4 / 4096, 100.5 / 4096, 100.6 / 4096, 3794.5 / 4096}, {100, 101, 101, 3794}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t parts[4];
        share_round(cases[i].share, cases[i].count, parts);
        for (uint32_t n = 0; n < cases[i].count; n++)
            if (parts[n] != cases[i].parts[n])
                fail_msg("case %zu, node %u: %u, expected %u", i, n, parts[n], cases[i].parts[n]);
    }
    for (uint32_t round = 0; round < 1000; round++) {
        double share[SHARE_NODES_MAX], all = 0;
        uint16_t parts[SHARE_NODES_MAX];
        uint32_t sum = 0;
        const uint32_t count = 1 + draw_below(SHARE_NODES_MAX);
        for (uint32_t n = 0; n < count; n++) all += share[n] = draw_below(4) ? 1e-3 + draw_below(1000) : 1e-6;
        for (uint32_t n = 0; n < count; n++) share[n] /= all;
        share_round(share, count, parts);
        for (uint32_t n = 0; n < count; n++) {
            sum += parts[n];
            assert_true(fabs(parts[n] - share[n] * SHARE_PARTS) < 1 + 1e-6);
        }
        assert_int_equal(sum, SHARE_PARTS);
    }
}

#define MANY 1e12 /* buckets */
#define LANES_OF_8(a, b, c, d)                                                                                         \
    {                                                                                                                  \
        0, a, a + b, a + b + c, a + b + c + d                                                                          \
    }

static void share_make__any_nodes__parts(void **state)
{
    (void)state;
    static const struct {
        enum share_what what;
        uint32_t node_count, lane_begin[5];
        uint64_t holders;
        uint32_t bandwidth[4]; /* first 0: not told */
        bool is_uneven;
        uint16_t parts[4];
        double buckets;
    } cases[] = {
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 7, {0}, false, {1, 1, 1}, MANY},
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 7, {9, 9, 9}, false, {1, 1, 1}, MANY},
        {SHARE_ROWS, 3, LANES_OF_8(6, 1, 1, 0), 7, {9, 9, 9}, false, {1, 1, 1}, MANY},
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 5, {0}, false, {1, 0, 1}, MANY},
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 7, {2, 2, 1}, true, {2048, 2048, 0}, MANY},
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 7, {1, 2, 2}, true, {0, 2048, 2048}, MANY}, /* in order of nodes */
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 7, {10, 10, 9}, true, {1554, 1553, 989}, MANY},
        {SHARE_SLICES, 2, LANES_OF_8(6, 2, 0, 0), 3, {9, 1}, false, {1, 1}, MANY}, /* two nodes move as much however */
        {SHARE_ROWS, 2, LANES_OF_8(4, 4, 0, 0), 3, {9, 1}, false, {1, 1}, MANY},
        {SHARE_ROWS, 2, LANES_OF_8(6, 2, 0, 0), 3, {1, 2}, true, {4096, 0}, MANY},
        {SHARE_ROWS, 2, LANES_OF_8(6, 2, 0, 0), 2, {1, 2}, false, {0, 1}, MANY}, /* one holder has all */
        /* servers: a node without lanes moves its share for each that has some */
        {SHARE_SLICES, 4, LANES_OF_8(4, 0, 4, 0), 10, {9, 3, 9, 1}, true, {0, 3072, 0, 1024}, MANY},
        {SHARE_ROWS, 4, LANES_OF_8(4, 0, 4, 0), 10, {9, 3, 9, 1}, true, {0, 3072, 0, 1024}, MANY},
        {SHARE_SLICES,
         4,
         LANES_OF_8(4, 0, 4, 0),
         5,
         {9, 3, 9, 1},
         false,
         {1, 0, 1, 0},
         MANY}, /* of others, no matter */
        /* of two nodes that compute each is done soonest with half, if by little */
        {SHARE_SLICES, 4, LANES_OF_8(4, 0, 4, 0), 15, {9, 3, 9, 1}, true, {2048, 0, 2048, 0}, 16},
        /* in 1 / 18 who has half of the lanes may have any share, the servers 3 / 18 and 1 / 18 */
        {SHARE_ROWS, 4, LANES_OF_8(4, 0, 4, 0), 15, {9, 3, 9, 1}, true, {1843, 307, 1843, 103}, MANY},
        /* few buckets: the slow one is done soonest with an even share, up to (buckets - 1) (3 - 2) = 2 */
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 7, {2, 2, 1}, false, {1, 1, 1}, 1},
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 7, {1, 10, 10}, false, {1, 1, 1}, 1},
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 7, {10, 10, 1}, false, {1, 1, 1}, 2.9},
        {SHARE_SLICES, 3, LANES_OF_8(3, 3, 2, 0), 7, {2, 2, 1}, true, {2048, 2048, 0}, 3.1},
        {SHARE_SLICES, 2, LANES_OF_8(4, 4, 0, 0), 3, {9, 1}, false, {1, 1}, 5},
        {SHARE_SLICES, 4, LANES_OF_8(4, 0, 4, 0), 10, {9, 3, 9, 1}, true, {0, 3072, 0, 1024}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t parts[4];
        const bool is_uneven =
            share_make(parts, &(struct share_options){.what = cases[i].what,
                                                      .node_count = cases[i].node_count,
                                                      .lane_begin = cases[i].lane_begin,
                                                      .holders = cases[i].holders,
                                                      .bandwidth = cases[i].bandwidth[0] ? cases[i].bandwidth : NULL,
                                                      .buckets = cases[i].buckets});
        if (is_uneven != cases[i].is_uneven) fail_msg("case %zu", i);
        for (uint32_t n = 0; n < cases[i].node_count; n++)
            if (parts[n] != cases[i].parts[n])
                fail_msg("case %zu, node %u: %u, expected %u", i, n, parts[n], cases[i].parts[n]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_find__by_hand__shares_and_seconds),
        cmocka_unit_test(share_find__random_loads__the_least),
        cmocka_unit_test(share_round__any_shares__parts_that_sum_up),
        cmocka_unit_test(share_make__any_nodes__parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
