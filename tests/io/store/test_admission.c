/* Admission of keys: counts against a plain array, steps that are taken back and given again, and what a file
 * brings back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "io/store/admission.h"
#include "io/store/shard.h"

#define KEYS      3000u
#define STEP      500u
#define IN_FLIGHT 4u

static uint64_t drawn;
static uint32_t draw(uint32_t below)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(drawn >> 33) % below;
}
static uint64_t key_of(uint32_t i) { return i * UINT64_C(0x9e3779b97f4a7c15); } /* of 0 too */

static struct admission opened(uint32_t admit, uint32_t by, uint64_t keys)
{
    struct admission a;
    const struct admission_options o = {.table = "emb",
                                        .life = {.admit = admit, .admit_by = by, .admit_keys = keys},
                                        .addition_max = STEP * IN_FLIGHT,
                                        .ticket_max = IN_FLIGHT};
    assert_int_equal(admission_open(&a, &o), ST_OK);
    return a;
}

static char *file_of(const struct admission *a, size_t *bytes)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/admission.%d", getpid());
    struct file_writer writer;
    struct file_map map;
    assert_int_equal(file_writer_open(&writer, path), ST_OK);
    assert_int_equal(admission_put(a, &writer), ST_OK);
    assert_int_equal(file_writer_commit(&writer), ST_OK);
    assert_int_equal(file_map_open(&map, path), ST_OK);
    char *copy = malloc(map.bytes);
    memcpy(copy, map.data, *bytes = map.bytes);
    file_map_close(&map);
    unlink(path);
    return copy;
}

/* Steps of zipf-like keys, up to IN_FLIGHT of them not released; at each one the state some steps
 * ago is taken back, saved, loaded. */
static void steps_check(uint32_t admit, uint32_t by)
{
    struct admission a = opened(admit, by, KEYS);
    static uint32_t count[KEYS], before[IN_FLIGHT + 1][KEYS];
    char *file[IN_FLIGHT + 1] = {0};
    size_t file_bytes[IN_FLIGHT + 1];
    memset(count, 0, sizeof count);
    drawn = 1;
    for (uint32_t ticket = 1; ticket <= 40; ticket++) {
        if (ticket > IN_FLIGHT) admission_release(&a, ticket - IN_FLIGHT);
        for (uint32_t i = 0; i < STEP; i++) {
            uint32_t k = draw(1 + draw(KEYS));
            assert_int_equal(admission_add(&a, key_of(k)), ST_OK);
            count[k]++;
        }
        admission_step_end(&a, ticket);
        const uint32_t at = ticket % (IN_FLIGHT + 1);
        memcpy(before[at], count, sizeof count);
        free(file[at]);
        file[at] = file_of(&a, &file_bytes[at]);
        const uint32_t back = draw(IN_FLIGHT < ticket ? IN_FLIGHT : ticket), to = (ticket - back) % (IN_FLIGHT + 1);
        size_t bytes;
        admission_turn_back(&a, ticket - back);
        char *saved = file_of(&a, &bytes);
        for (uint32_t k = 0; k < KEYS && by == ADMIT_EXACT; k++)
            assert_int_equal(admission_has(&a, key_of(k)), before[to][k] >= admit - 1);
        admission_turn_forth(&a);
        assert_int_equal(bytes, file_bytes[to]);
        assert_memory_equal(saved, file[to], bytes);
        struct admission loaded = opened(admit, by, KEYS);
        assert_int_equal(admission_read(&loaded, "FILE", (const uint8_t *)saved, bytes), ST_OK);
        free(saved);
        saved = file_of(&loaded, &bytes);
        assert_int_equal(bytes, file_bytes[to]);
        assert_memory_equal(saved, file[to], bytes);
        free(saved);
        admission_close(&loaded);
        saved = file_of(&a, &bytes);
        assert_int_equal(bytes, file_bytes[at]);
        assert_memory_equal(saved, file[at], bytes);
        free(saved);
        uint32_t wrong = 0;
        for (uint32_t k = 0; k < KEYS; k++) {
            const bool is_earned = count[k] >= admit - 1;
            if (is_earned) assert_true(admission_has(&a, key_of(k)));
            wrong += !is_earned && admission_has(&a, key_of(k));
        }
        assert_true(by == ADMIT_EXACT ? wrong == 0 : wrong < KEYS / 20);
    }
    for (uint32_t i = 0; i <= IN_FLIGHT; i++) free(file[i]);
    admission_close(&a);
}

static void admission__steps_taken_back_and_saved__equals_plain_counts(void **state)
{
    (void)state;
    const uint32_t admits[] = {2, 3, 5, 16, 17, 256};
    for (size_t i = 0; i < sizeof admits / sizeof *admits; i++) {
        steps_check(admits[i], ADMIT_EXACT);
        steps_check(admits[i], ADMIT_BLOOM);
        if (i % 4 == 1) steps_check(admits[i], ADMIT_BLOOM_SHARDS); /* files of 256 KiB at least */
    }
}

static void admission_bloom__as_many_keys_as_it_is_for__takes_few_others(void **state)
{
    (void)state;
    const uint32_t keys = 100000;
    struct admission a = opened(2, ADMIT_BLOOM, keys);
    for (uint32_t i = 0; i < keys; i++) {
        if (i % STEP == 0) admission_step_end(&a, i / STEP + 1), admission_release(&a, i / STEP + 1);
        assert_int_equal(admission_add(&a, key_of(i)), ST_OK);
    }
    uint32_t wrong = 0;
    for (uint32_t i = keys; i < 2 * keys; i++) wrong += admission_has(&a, key_of(i));
    print_message("# %u of %u other keys are taken for known\n", wrong, keys);
    assert_true(wrong < keys / 50 && wrong > 0);
    admission_close(&a);
}

/* Twelve counters a key, of as few bits as hold admit - 1, in lines of 64 bytes:
 * a file's size says how many. */
static void admission_bloom__counters__have_as_few_bits_as_count_so_far(void **state)
{
    (void)state;
    static const struct {
        uint32_t admit, bits;
    } cases[] = {{2, 1}, {3, 2}, {4, 2}, {5, 4}, {16, 4}, {17, 8}, {256, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct admission a = opened(cases[i].admit, ADMIT_BLOOM, 1000);
        size_t bytes;
        free(file_of(&a, &bytes));
        assert_int_equal(bytes, 64 + 64 * (1000 * 12 * cases[i].bits / 512 + 1) + 8);
        admission_close(&a);
        a = opened(cases[i].admit, ADMIT_BLOOM_SHARDS, 400000);
        free(file_of(&a, &bytes));
        const uint64_t lines = 400000 * 12 * cases[i].bits / 512 + 1;
        assert_int_equal(bytes, 64 + 64 * 4096 * ((lines + 4095) / 4096) + 8);
        assert_int_equal(admission_has_order(&a), cases[i].bits > 1);
        admission_close(&a);
    }
}

/* Owners of shards count their keys, and the first takes over the others' lines: it
 * has what one has that counts all. */
static void admission_lines__counts_of_owners__those_of_one(void **state)
{
    (void)state;
    static const uint32_t owners[] = {1, 2, 3, 7, 64};
    for (size_t c = 0; c < sizeof owners / sizeof *owners; c++) {
        struct admission one = opened(6, ADMIT_BLOOM_SHARDS, 1000), first = opened(6, ADMIT_BLOOM_SHARDS, 1000),
                         other = opened(6, ADMIT_BLOOM_SHARDS, 1000);
        uint32_t known = 0, begin, end;
        uint8_t owner_of[SHARD_COUNT];
        uint16_t even[64];
        for (uint32_t owner = 0; owner < 64; owner++) even[owner] = 1;
        shards_share(owner_of, even, owners[c]);
        drawn = 5;
        for (uint32_t step = 1; step <= 20; step++) {
            for (uint32_t i = 0; i < 900; i++) {
                const uint64_t key = key_of(draw(1 + draw(3000)));
                struct admission *owner = owner_of[shard_of(key)] == 0 ? &first : &other;
                assert_int_equal(admission_add(&one, key), ST_OK);
                assert_int_equal(admission_add(owner, key), ST_OK);
            }
            struct admission *all[] = {&one, &first, &other};
            for (int i = 0; i < 3; i++) admission_step_end(all[i], step), admission_release(all[i], step);
        }
        size_t bytes, other_bytes, sum = 0;
        for (uint32_t owner = 0; owner < owners[c]; owner++) {
            shards_of(owner_of, owner, &begin, &end);
            uint8_t *lines = admission_lines(&first, begin, end, &bytes);
            const uint8_t *theirs = admission_lines(&other, begin, end, &other_bytes);
            assert_int_equal(bytes, other_bytes);
            if (owner > 0) memcpy(lines, theirs, bytes);
            sum += bytes;
        }
        assert_int_equal(sum, 64 * 4096);
        for (uint32_t k = 0; k < 6000; k++) {
            assert_int_equal(admission_has(&first, key_of(k)), admission_has(&one, key_of(k)));
            known += admission_has(&one, key_of(k));
        }
        assert_true(known > 500 && known < 5000);
        char *of_one = file_of(&one, &bytes), *of_first = file_of(&first, &bytes);
        assert_memory_equal(of_one, of_first, bytes);
        free(of_one);
        free(of_first);
        for (uint32_t shift = 0; shift < 8; shift += 4) { /* of admit = 6 counters of four bits, up to 5 */
            uint8_t lines[64] = {[63] = (uint8_t)(5 << shift)};
            assert_true(admission_lines_check(&one, lines, sizeof lines));
            lines[63] = (uint8_t)(6 << shift);
            assert_false(admission_lines_check(&one, lines, sizeof lines));
        }
        admission_close(&one);
        admission_close(&first);
        admission_close(&other);
    }
}

static void admission_exact__one_key_more__says_so(void **state)
{
    (void)state;
    struct admission a = opened(3, ADMIT_EXACT, 10);
    for (uint32_t i = 0; i < 10; i++) assert_int_equal(admission_add(&a, key_of(i)), ST_OK);
    assert_int_equal(admission_add(&a, key_of(3)), ST_OK);
    assert_int_equal(admission_add(&a, key_of(10)), ST_FULL);
    assert_non_null(strstr(status_message(), "table \"emb\": 10 keys"));
    assert_non_null(strstr(status_message(), "admit_by = bloom"));
    assert_true(admission_has(&a, key_of(3)) && !admission_has(&a, key_of(4)));
    admission_close(&a);
}

/* Two that have counted different keys, merged: what one has that has counted all, which goes on as one. */
static void admission_merge__counts_of_two__those_of_one(void **state)
{
    (void)state;
    struct admission one = opened(5, ADMIT_EXACT, 300),
                     half[2] = {opened(5, ADMIT_EXACT, 300), opened(5, ADMIT_EXACT, 300)},
                     all = opened(5, ADMIT_EXACT, 300);
    for (uint32_t i = 0; i < 200; i++) {
        const uint32_t k = draw(90);
        assert_int_equal(admission_add(&one, key_of(k)), ST_OK);
        assert_int_equal(admission_add(&half[k % 2], key_of(k)), ST_OK);
    }
    uint64_t key, keys = 0;
    uint32_t count;
    for (int h = 0; h < 2; h++)
        for (uint64_t at = 0; admission_next(&half[h], &at, &key, &count); keys++)
            assert_int_equal(admission_merge(&all, key, count), ST_OK);
    assert_int_equal(keys, one.used_count);
    for (int more = 0; more < 5; more++)
        for (uint32_t k = 0; k < 90; k++) {
            assert_int_equal(admission_has(&all, key_of(k)), admission_has(&one, key_of(k)));
            if (more % 2) assert_int_equal(admission_add(&one, key_of(k)), ST_OK);
            if (more % 2) assert_int_equal(admission_add(&all, key_of(k)), ST_OK);
        }
    struct admission small = opened(5, ADMIT_EXACT, 2);
    assert_int_equal(admission_merge(&small, 1, 4), ST_OK);
    assert_int_equal(admission_merge(&small, 2, 1), ST_OK);
    assert_int_equal(admission_merge(&small, 3, 1), ST_FULL);
    admission_close(&small);
    admission_close(&one);
    admission_close(&half[0]);
    admission_close(&half[1]);
    admission_close(&all);
}

static void admission_grant__a_key_with_a_row__is_admitted(void **state)
{
    (void)state;
    for (uint32_t by = ADMIT_EXACT; by <= ADMIT_BLOOM_SHARDS; by++) {
        struct admission a = opened(9, by, 100);
        assert_int_equal(admission_grant(&a, key_of(7)), ST_OK);
        assert_true(admission_has(&a, key_of(7)));
        admission_close(&a);
    }
}

/* Saved exact counts go on with more keys, with fewer that suffice, and as bloom. */
static void admission_read__exact_counts_into_another__counts_on(void **state)
{
    (void)state;
    const struct {
        uint32_t by;
        uint64_t keys;
    } into[] = {{ADMIT_EXACT, KEYS}, {ADMIT_EXACT, 700},  {ADMIT_EXACT, 500},
                {ADMIT_BLOOM, 1000}, {ADMIT_BLOOM, KEYS}, {ADMIT_BLOOM_SHARDS, KEYS}};
    struct admission a = opened(4, ADMIT_EXACT, 600);
    for (uint32_t i = 0; i < 500; i++) {
        for (uint32_t n = 0; n <= i % 3; n++) assert_int_equal(admission_add(&a, key_of(i)), ST_OK);
        admission_step_end(&a, i + 1);
        admission_release(&a, i + 1);
    }
    size_t bytes;
    char *file = file_of(&a, &bytes);
    for (size_t w = 0; w < sizeof into / sizeof *into; w++) {
        struct admission b = opened(4, into[w].by, into[w].keys);
        assert_int_equal(admission_read(&b, "FILE", (const uint8_t *)file, bytes), ST_OK);
        for (uint32_t i = 0; i < 500; i++) {
            /* Of exact counts one occurrence more is one more, and none is lost of bloom's. */
            if (into[w].by == ADMIT_EXACT || i % 3 == 2) assert_int_equal(admission_has(&b, key_of(i)), i % 3 == 2);
            if (i % 3 == 1) assert_int_equal(admission_add(&b, key_of(i)), ST_OK);
            if (i % 3 == 1) assert_true(admission_has(&b, key_of(i)));
        }
        if (into[w].by == ADMIT_EXACT)
            assert_int_equal(admission_add(&b, key_of(500)), into[w].keys > 500 ? ST_OK : ST_FULL);
        admission_close(&b);
    }
    struct admission few = opened(4, ADMIT_EXACT, 499);
    assert_int_equal(admission_read(&few, "FILE", (const uint8_t *)file, bytes), ST_MISMATCH);
    assert_non_null(strstr(status_message(), "500 keys"));
    assert_non_null(strstr(status_message(), "raise admit_keys"));
    admission_close(&few);
    free(file);
    struct admission bloom = opened(4, ADMIT_BLOOM, 600), exact = opened(4, ADMIT_EXACT, 600),
                     more = opened(4, ADMIT_BLOOM, 700);
    file = file_of(&bloom, &bytes);
    assert_int_equal(admission_read(&exact, "FILE", (const uint8_t *)file, bytes), ST_MISMATCH);
    assert_int_equal(admission_read(&more, "FILE", (const uint8_t *)file, bytes), ST_MISMATCH);
    free(file);
    admission_close(&more);
    admission_close(&exact);
    admission_close(&bloom);
    admission_close(&a);
}

/* Who was admitted stays so; who was not has as many occurrences as before. */
static void admission_read__another_admit__keeps_whom_it_has_admitted(void **state)
{
    (void)state;
    static const struct {
        uint32_t from, to, by, into;
    } cases[] = {{6, 4, ADMIT_EXACT, ADMIT_EXACT},
                 {4, 6, ADMIT_EXACT, ADMIT_EXACT},
                 {2, 200, ADMIT_EXACT, ADMIT_EXACT},
                 {200, 2, ADMIT_EXACT, ADMIT_EXACT},
                 {6, 3, ADMIT_EXACT, ADMIT_BLOOM},
                 {12, 5, ADMIT_BLOOM, ADMIT_BLOOM},
                 {5, 12, ADMIT_BLOOM, ADMIT_BLOOM},
                 {4, 3, ADMIT_BLOOM, ADMIT_BLOOM},
                 {6, 3, ADMIT_EXACT, ADMIT_BLOOM_SHARDS},
                 {12, 5, ADMIT_BLOOM_SHARDS, ADMIT_BLOOM_SHARDS},
                 {3, 4, ADMIT_BLOOM_SHARDS, ADMIT_BLOOM_SHARDS}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const uint32_t from = cases[c].from, to = cases[c].to;
        struct admission a = opened(from, cases[c].by, 2000), b = opened(to, cases[c].into, 2000);
        for (uint32_t i = 0; i < 80; i++) {
            for (uint32_t n = 0; n < i % 8; n++) assert_int_equal(admission_add(&a, key_of(i)), ST_OK);
            admission_step_end(&a, i + 1);
            admission_release(&a, i + 1);
        }
        size_t bytes;
        char *file = file_of(&a, &bytes);
        assert_int_equal(admission_read(&b, "FILE", (const uint8_t *)file, bytes), ST_OK);
        for (uint32_t i = 0; i < 80; i++) {
            const bool was_admitted = i % 8 >= from - 1;
            uint32_t left = was_admitted || i % 8 >= to - 1 ? 0 : to - 1 - i % 8;
            assert_int_equal(admission_has(&a, key_of(i)), was_admitted);
            for (; left > 0; left--) {
                if (admission_has(&b, key_of(i)))
                    fail_msg("case %zu: key %u of %u occurrences lacks %u, and is admitted", c, i, i % 8, left);
                assert_int_equal(admission_add(&b, key_of(i)), ST_OK);
                admission_step_end(&b, 1);
                admission_release(&b, 1);
            }
            assert_true(admission_has(&b, key_of(i)));
        }
        free(file);
        admission_close(&a);
        admission_close(&b);
    }
}

static void admission_read__other_settings_or_damage__is_refused(void **state)
{
    (void)state;
    struct admission a = opened(3, ADMIT_BLOOM, 10), b = opened(5, ADMIT_BLOOM, 10);
    assert_int_equal(admission_add(&a, 5), ST_OK);
    size_t bytes;
    char *file = file_of(&a, &bytes);
    assert_int_equal(admission_read(&b, "FILE", (const uint8_t *)file, bytes), ST_MISMATCH);
    assert_non_null(strstr(status_message(), "admit = 3, admit_by = bloom (of rules before 10), admit_keys = 10"));
    assert_non_null(strstr(status_message(), "any from 3 to 4"));
    struct admission by_shards = opened(3, ADMIT_BLOOM_SHARDS, 10);
    assert_int_equal(admission_read(&by_shards, "FILE", (const uint8_t *)file, bytes), ST_MISMATCH);
    assert_non_null(strstr(status_message(), "and table \"emb\" has 3, bloom, 10"));
    admission_close(&by_shards);
    for (size_t i = 0; i < bytes; i++) {
        file[i] = (char)(file[i] ^ 4);
        struct admission damaged = opened(3, ADMIT_BLOOM, 10);
        assert_int_not_equal(admission_read(&damaged, "FILE", (const uint8_t *)file, bytes), ST_OK);
        assert_int_not_equal(admission_file_check("FILE", (const uint8_t *)file, bytes), ST_OK);
        admission_close(&damaged);
        file[i] = (char)(file[i] ^ 4);
    }
    assert_int_equal(admission_file_check("FILE", (const uint8_t *)file, bytes), ST_OK);
    free(file);
    admission_close(&a);
    admission_close(&b);
}

/* Reads the file with 8 bytes changed, under a checksum that holds. */
static void refused(uint32_t admit, uint32_t admit_by, char *file, size_t bytes, size_t at, uint64_t value,
                    const char *message)
{
    uint64_t before, hash;
    struct admission a = opened(admit, admit_by, 10);
    memcpy(&before, file + at, sizeof before);
    memcpy(file + at, &value, sizeof value);
    hash = XXH3_64bits(file, bytes - sizeof hash);
    memcpy(file + bytes - sizeof hash, &hash, sizeof hash);
    assert_int_equal(admission_read(&a, "FILE", (const uint8_t *)file, bytes), ST_INVALID);
    if (strstr(status_message(), message) == NULL) fail_msg("\"%s\" is not in: %s", message, status_message());
    memcpy(file + at, &before, sizeof before);
    admission_close(&a);
}

/* Header: magic, version and admit, kind and zero, keys, records, name, bytes, reserved;
 * then records of key and place. */
static void admission_read__numbers_that_cannot_be__are_refused_under_a_checksum_that_holds(void **state)
{
    (void)state;
    struct admission a = opened(3, ADMIT_EXACT, 10);
    assert_int_equal(admission_add(&a, 5), ST_OK);
    assert_int_equal(admission_add(&a, 6), ST_OK);
    admission_step_end(&a, 1);
    admission_release(&a, 1);
    size_t bytes;
    char *file = file_of(&a, &bytes);
    uint64_t key, place, second;
    memcpy(&key, file + 64, 8);
    memcpy(&place, file + 72, 8);
    memcpy(&second, file + 88, 8);
    assert_int_equal(bytes, 64 + 2 * 16 + 8);
    refused(3, ADMIT_EXACT, file, bytes, 0, 1, "byte 0: not a file of admission");
    refused(3, ADMIT_EXACT, file, bytes, 8, UINT64_C(3) << 32 | 2, "byte 8: version 2, where this program reads 1");
    refused(3, ADMIT_EXACT, file, bytes, 8, UINT64_C(1) << 32 | 1, "the header's numbers are impossible (admit 1");
    refused(3, ADMIT_EXACT, file, bytes, 8, UINT64_C(257) << 32 | 1, "the header's numbers are impossible (admit 257");
    refused(3, ADMIT_EXACT, file, bytes, 16, 2, "the header's numbers are impossible");
    refused(3, ADMIT_EXACT, file, bytes, 16, UINT64_C(1) << 32, "the header's numbers are impossible");
    refused(3, ADMIT_EXACT, file, bytes, 24, 1, "2 keys, where at most 1 can be");
    refused(3, ADMIT_EXACT, file, bytes, 32, 3, "the header's numbers are impossible");
    refused(3, ADMIT_EXACT, file, bytes, 32, UINT64_C(1) << 60, "the header's numbers are impossible");
    refused(3, ADMIT_EXACT, file, bytes, 48, bytes - 1, "the header's numbers are impossible");
    refused(3, ADMIT_EXACT, file, bytes, 56, 1, "the header's numbers are impossible");
    refused(3, ADMIT_EXACT, file, bytes, 64, key + 1000003, "byte 64: key");
    refused(3, ADMIT_EXACT, file, bytes, 72, place & ~UINT64_C(255), " 0 times");
    refused(3, ADMIT_EXACT, file, bytes, 72, place + 2, " 3 times");
    refused(3, ADMIT_EXACT, file, bytes, 72, UINT64_MAX - 254, "cannot be in cell");
    refused(3, ADMIT_EXACT, file, bytes, 88, place, "byte 80: key");
    /* Counted anew: a key twice, and times that cannot be. */
    refused(3, ADMIT_BLOOM, file, bytes, 72, place & ~UINT64_C(255), "cannot be there 0 times");
    refused(3, ADMIT_BLOOM, file, bytes, 88, second + 2, "cannot be there 3 times");
    free(file);
    admission_close(&a);
    a = opened(3, ADMIT_BLOOM, 10);
    file = file_of(&a, &bytes);
    refused(3, ADMIT_BLOOM, file, bytes, 64, 3, "byte 64: a counter of 3, where at most 2 can be");
    free(file);
    admission_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admission__steps_taken_back_and_saved__equals_plain_counts),
        cmocka_unit_test(admission_bloom__as_many_keys_as_it_is_for__takes_few_others),
        cmocka_unit_test(admission_bloom__counters__have_as_few_bits_as_count_so_far),
        cmocka_unit_test(admission_lines__counts_of_owners__those_of_one),
        cmocka_unit_test(admission_exact__one_key_more__says_so),
        cmocka_unit_test(admission_merge__counts_of_two__those_of_one),
        cmocka_unit_test(admission_grant__a_key_with_a_row__is_admitted),
        cmocka_unit_test(admission_read__exact_counts_into_another__counts_on),
        cmocka_unit_test(admission_read__another_admit__keeps_whom_it_has_admitted),
        cmocka_unit_test(admission_read__other_settings_or_damage__is_refused),
        cmocka_unit_test(admission_read__numbers_that_cannot_be__are_refused_under_a_checksum_that_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
