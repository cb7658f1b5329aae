/* Frames of membership: bytes by the table, back as they were, and refused where anything is wrong. */
#include "tests/io/io_test.h"

#include "engine/node/member_frame.h"

static struct member_frame some(enum member_frame_kind kind, uint32_t nodes)
{
    struct member_frame f = {.kind = kind,
                             .rank = nodes - 1,
                             .incarnation = 2,
                             .generation = 3,
                             .nonce = 4,
                             .facts = 5,
                             .value = 6,
                             .mask = 1};
    if (kind != FRAME_ROSTER) return f;
    f.roster = (struct member_roster){
        .incarnation = 7, .generation = 8, .mask = 1, .barred = UINT64_C(1) << (nodes - 1), .losses = 9};
    for (uint32_t i = 0; i < nodes; i++) f.roster.nonce[i] = 100 + i, f.roster.says[i] = 200 + i + ((uint64_t)i << 40);
    return f;
}

static void member_frame__every_kind__comes_back(void **state)
{
    (void)state;
    static const uint32_t nodes[] = {1, 2, 63, 64};
    for (enum member_frame_kind kind = FRAME_HELLO; kind <= FRAME_STOP; kind++)
        for (size_t n = 0; n < 4; n++) {
            uint8_t out[MEMBER_FRAME_BYTES_MAX];
            struct member_frame f = some(kind, nodes[n]), back;
            const size_t bytes = member_frame_put(out, &f, nodes[n]);
            assert_int_equal(bytes, kind == FRAME_ROSTER ? 96 + 16 * nodes[n] : 56);
            assert_ok(member_frame_get(&back, out, bytes, nodes[n]));
            assert_memory_equal(&back, &f, sizeof f);
            assert_fails(INVALID, "bytes, found", member_frame_get(&back, out, bytes - 1, nodes[n]));
            assert_fails(INVALID, "bytes, found", member_frame_get(&back, out, bytes + 1, nodes[n]));
            if (n) assert_int_not_equal(member_frame_get(&back, out, bytes, nodes[n - 1]), ST_OK);
        }
}

static void member_frame__bytes__are_those_of_the_table(void **state)
{
    (void)state;
    uint8_t out[MEMBER_FRAME_BYTES_MAX];
    const struct member_frame f = some(FRAME_ROSTER, 2);
    assert_int_equal(member_frame_put(out, &f, 2), 128);
    static const struct {
        uint32_t offset, value;
    } expected[] = {{0, FRAME_ROSTER}, {4, 1},     {8, 2},     {16, 3},    {24, 4}, {32, 5}, {40, 6},
                    {48, 1},           {56, 7},    {64, 8},    {72, 1},    {80, 2}, {88, 9}, {92, 2},
                    {96, 100},         {104, 101}, {112, 200}, {120, 201}, {125, 1}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(out[expected[i].offset], expected[i].value);
}

static void member_frame__wrong_bytes__are_named(void **state)
{
    (void)state;
    static const struct {
        uint32_t offset;
        uint8_t value;
        const char *words;
    } cases[] = {{0, FRAME_STOP + 1, "no kind is 10"},
                 {1, 1, "no kind is"},
                 {4, 2, "a rank below 2, found 2"},
                 {48, 4, "byte 48"},
                 {72, 5, "byte 72"},
                 {72, 2, "expected rank 0 in the roster"},
                 {80, 8, "byte 80"},
                 {92, 3, "expected 2 nodes, found 3"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t out[MEMBER_FRAME_BYTES_MAX];
        struct member_frame f = some(FRAME_ROSTER, 2), back;
        const size_t bytes = member_frame_put(out, &f, 2);
        out[cases[i].offset] = cases[i].value;
        assert_fails(INVALID, cases[i].words, member_frame_get(&back, out, bytes, 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(member_frame__every_kind__comes_back),
        cmocka_unit_test(member_frame__bytes__are_those_of_the_table),
        cmocka_unit_test(member_frame__wrong_bytes__are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
