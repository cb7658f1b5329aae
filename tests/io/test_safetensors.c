/* The safetensors writer and reader: what is written is read back, and whatever the bytes,
 * what is read lies within them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "tests/fault_alloc.h"

static char directory[] = "/tmp/test_safetensors_XXXXXX";
static char path[sizeof directory + 16];

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL) return -1;
    snprintf(path, sizeof path, "%s/file", directory);
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != ST_OK) fail_msg("%s: %s", #call, status_message());                                              \
    } while (0)
#define assert_message(part)                                                                                           \
    do {                                                                                                               \
        if (strstr(status_message(), part) == NULL) fail_msg("\"%s\" is not in: %s", part, status_message());          \
    } while (0)

/* Three arrays, one of them empty, of unlike types. */
static const float weight[6] = {1, -2.5f, 3e-30f, 4, 5, 6};
static const uint64_t keys[2] = {0, UINT64_MAX};
static const struct safetensors_tensor three[] = {
    {.name = "keys", .type = SAFETENSORS_U64, .rank = 1, .shape = {2}},
    {.name = "nothing", .type = SAFETENSORS_F64, .rank = 2, .shape = {0, 7}},
    {.name = "h1.weight \"\xc3\xa4\"", .type = SAFETENSORS_F32, .rank = 2, .shape = {2, 3}},
};

static void three_write(void)
{
    struct file_writer writer;
    uint64_t file_bytes;
    assert_ok(file_writer_open(&writer, path));
    assert_ok(safetensors_header_put(&writer, three, 3, &file_bytes));
    assert_int_equal(writer.written_bytes % 64, 0);
    assert_ok(file_writer_put(&writer, keys, sizeof keys));
    assert_ok(file_writer_put(&writer, weight, sizeof weight));
    assert_int_equal(writer.written_bytes, file_bytes);
    assert_ok(file_writer_commit(&writer));
}

static void safetensors_open__written_file__gives_the_same_arrays(void **state)
{
    (void)state;
    struct file_map map;
    struct safetensors file;
    three_write();
    assert_ok(file_map_open(&map, path));
    assert_ok(safetensors_open(&file, path, map.data, map.bytes));
    assert_int_equal(file.tensor_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(file.tensors[i].name, three[i].name);
        assert_int_equal(file.tensors[i].type, three[i].type);
        assert_int_equal(file.tensors[i].rank, three[i].rank);
        assert_memory_equal(file.tensors[i].shape, three[i].shape, three[i].rank * sizeof(uint64_t));
    }
    assert_memory_equal(file.tensors[0].data, keys, sizeof keys);
    assert_int_equal(file.tensors[1].bytes, 0);
    assert_memory_equal(file.tensors[2].data, weight, sizeof weight);
    assert_int_equal((file.tensors[0].data - map.data) % 64, 0);
    safetensors_close(&file);
    file_map_close(&map);
}

static void safetensors_header_put__same_arrays__same_bytes_golden(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"heterps\"},"
        "\"keys\":{\"dtype\":\"U64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"nothing\":{\"dtype\":\"F64\",\"shape\":[0,7],\"data_offsets\":[16,16]},"
        "\"h1.weight \\\"\\u00E4\\\"\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[16,40]}}";
    struct file_map map;
    three_write();
    assert_ok(file_map_open(&map, path));
    uint64_t header_bytes;
    memcpy(&header_bytes, map.data, 8);
    assert_int_equal((8 + header_bytes) % 64, 0);
    assert_in_range(header_bytes, sizeof header - 1, sizeof header - 1 + 63);
    assert_memory_equal(map.data + 8, header, sizeof header - 1);
    for (size_t i = 8 + sizeof header - 1; i < 8 + header_bytes; i++) assert_int_equal(map.data[i], ' ');
    assert_int_equal(map.bytes, 8 + header_bytes + 40);
    file_map_close(&map);
}

/* However long the header is, data begins at the next multiple of 64. */
static void safetensors_header_put__names_of_all_lengths__data_is_aligned(void **state)
{
    (void)state;
    static const char rest[] = "{\"__metadata__\":{\"format\":\"heterps\"},"
                               "\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    char name[80] = "";
    for (uint32_t bytes = 1; bytes < sizeof name; bytes++) {
        const struct safetensors_tensor tensor = {.name = name, .type = SAFETENSORS_U8, .rank = 1, .shape = {1}};
        struct file_writer writer;
        uint64_t file_bytes;
        name[bytes - 1] = 'n';
        assert_ok(file_writer_open(&writer, path));
        assert_ok(safetensors_header_put(&writer, &tensor, 1, &file_bytes));
        assert_int_equal(writer.written_bytes, (8 + strlen(rest) + bytes + 63) / 64 * 64);
        assert_int_equal(file_bytes, writer.written_bytes + 1);
        file_writer_abort(&writer);
    }
}

static void safetensors_header_put__no_arrays__is_a_file(void **state)
{
    (void)state;
    struct file_writer writer;
    struct file_map map;
    struct safetensors file;
    uint64_t file_bytes;
    assert_ok(file_writer_open(&writer, path));
    assert_ok(safetensors_header_put(&writer, NULL, 0, &file_bytes));
    assert_ok(file_writer_commit(&writer));
    assert_ok(file_map_open(&map, path));
    assert_int_equal(map.bytes, file_bytes);
    assert_ok(safetensors_open(&file, path, map.data, map.bytes));
    assert_int_equal(file.tensor_count, 0);
    safetensors_close(&file);
    file_map_close(&map);
}

static void safetensors_header_put__what_cannot_be__is_refused(void **state)
{
    (void)state;
    static const struct safetensors_tensor wrong[][2] = {
        {{.name = "a", .rank = 1, .shape = {1}}, {.name = "a", .rank = 1, .shape = {1}}},
        {{.name = "__metadata__"}, {.name = "b"}},
        {{.name = "bad \xff"}, {.name = "b"}},
        {{.name = "large", .type = SAFETENSORS_F32, .rank = 2, .shape = {UINT64_C(1) << 32, UINT64_C(1) << 32}},
         {.name = "b"}},
        {{.name = "a", .type = SAFETENSORS_U8, .rank = 1, .shape = {INT64_MAX}},
         {.name = "b", .type = SAFETENSORS_U8, .rank = 0}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct file_writer writer;
        uint64_t file_bytes;
        assert_ok(file_writer_open(&writer, path));
        assert_int_equal(safetensors_header_put(&writer, wrong[i], 2, &file_bytes), ST_INVALID);
        file_writer_abort(&writer);
    }
}

/* Opens a file made of a header and `data_bytes` of data. */
static status open_text(const char *header, size_t data_bytes, struct safetensors *file, uint8_t **bytes)
{
    uint64_t header_bytes = strlen(header);
    *bytes = calloc(1, 8 + header_bytes + data_bytes);
    memcpy(*bytes, &header_bytes, 8);
    memcpy(*bytes + 8, header, header_bytes);
    return safetensors_open(file, "FILE", *bytes, 8 + header_bytes + data_bytes);
}

static void safetensors_open__any_order__sorted_by_data(void **state)
{
    (void)state;
    struct safetensors file;
    uint8_t *bytes;
    assert_ok(open_text("{\"z\":{\"data_offsets\":[4,7],\"shape\":[3],\"dtype\":\"U8\"},"
                        "\"empty\":{\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[4,4]},"
                        "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}  ",
                        7, &file, &bytes));
    assert_int_equal(file.tensor_count, 3);
    assert_string_equal(file.tensors[0].name, "a");
    assert_int_equal(file.tensors[0].rank, 0);
    assert_string_equal(file.tensors[1].name, "empty");
    assert_string_equal(file.tensors[2].name, "z");
    assert_int_equal(file.tensors[2].bytes, 3);
    safetensors_close(&file);
    free(bytes);
}

static void safetensors_open__malformed_header__says_what(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *message;
    } cases[] = {
        {"", 0, "byte 8"},
        {"{", 0, "byte 9"},
        {"[]", 0, "expected an object"},
        {"{} x", 0, "byte 1"},
        {"{\"a\":1}", 0, "\"a\" is not described"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "\"a\" is not described"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":0}}", 4, "\"a\" is not described"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[0,4]}}",
         4, "duplicate"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "unknown dtype \"F33\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "dimension 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1, 1.0],\"data_offsets\":[0,4]}}", 4, "dimension 1"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4, "too big"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "9 dimensions"},
        /* 2^62 elements of 4 bytes and 4611686018427387905 * 4: products that wrap around to 0 and 4. */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "its shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4, "its shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "its shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "data_offsets do not lie"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets do not lie"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "data_offsets do not lie"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,9223372036854775807]}}", 8,
         "data_offsets do not lie"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "the data has 5 bytes, its tensors 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}", 5, "begins at byte 1"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
         "\"data_offsets\":[4,12]}}",
         12, "\"b\" begins at byte 4"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
         "offsets\":[0,2]}}",
         2, "\"b\" begins at byte 0"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
         "offsets\":[2,3]}}",
         3, "\"b\" begins at byte 2"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"step\":1}}", 0, "\"step\" is not a text"},
        {"{\"\xff\":1}", 0, "unable to decode byte 0xff"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct safetensors file;
        uint8_t *bytes;
        if (open_text(cases[i].header, cases[i].data_bytes, &file, &bytes) != ST_INVALID)
            fail_msg("accepted: %s", cases[i].header);
        assert_message(cases[i].message);
        assert_message("FILE");
        assert_int_equal(file.tensor_count, 0);
        free(bytes);
    }
}

static void safetensors_open__wrong_length__is_refused(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {3,         1 << 20,    SAFETENSORS_HEADER_BYTES_MAX + 1,
                                       INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
    struct safetensors file;
    uint8_t bytes[10] = {[8] = '{', [9] = '}'};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(bytes, &lengths[i], 8);
        assert_int_equal(safetensors_open(&file, "FILE", bytes, sizeof bytes), ST_INVALID);
        assert_message("FILE: byte 0");
    }
    for (size_t length = 0; length < 8; length++)
        assert_int_equal(safetensors_open(&file, "FILE", bytes, length), ST_INVALID);
}

static void safetensors_open__cut_at_any_length__is_refused(void **state)
{
    (void)state;
    struct file_map map;
    struct safetensors file;
    three_write();
    assert_ok(file_map_open(&map, path));
    for (size_t bytes = 0; bytes < map.bytes; bytes++) {
        uint8_t *cut = malloc(bytes + 1);
        memcpy(cut, map.data, bytes);
        assert_int_equal(safetensors_open(&file, path, cut, bytes), ST_INVALID);
        free(cut);
    }
    file_map_close(&map);
}

static void safetensors_open__every_byte_flipped__error_or_arrays_within(void **state)
{
    (void)state;
    struct file_map map;
    struct safetensors file;
    three_write();
    assert_ok(file_map_open(&map, path));
    uint8_t *bytes = malloc(map.bytes);
    memcpy(bytes, map.data, map.bytes);
    for (size_t i = 0; i < map.bytes; i++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            bytes[i] = map.data[i] ^ (uint8_t)flip;
            status st = safetensors_open(&file, path, bytes, map.bytes);
            if (st != ST_OK) {
                assert_int_equal(st, ST_INVALID);
                continue;
            }
            for (uint32_t t = 0; t < file.tensor_count; t++) {
                assert_true(file.tensors[t].data >= bytes);
                assert_true(file.tensors[t].bytes <= (size_t)(bytes + map.bytes - file.tensors[t].data));
            }
            safetensors_close(&file);
        }
        bytes[i] = map.data[i];
    }
    free(bytes);
    file_map_close(&map);
}

static void safetensors_open__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct file_map map;
    struct safetensors file;
    three_write();
    assert_ok(file_map_open(&map, path));
    EACH_ALLOCATION_FAILS(safetensors_open(&file, path, map.data, map.bytes), safetensors_close(&file));
    file_map_close(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_open__written_file__gives_the_same_arrays),
        cmocka_unit_test(safetensors_header_put__same_arrays__same_bytes_golden),
        cmocka_unit_test(safetensors_header_put__names_of_all_lengths__data_is_aligned),
        cmocka_unit_test(safetensors_header_put__no_arrays__is_a_file),
        cmocka_unit_test(safetensors_header_put__what_cannot_be__is_refused),
        cmocka_unit_test(safetensors_open__no_memory__says_so_fault),
        cmocka_unit_test(safetensors_open__any_order__sorted_by_data),
        cmocka_unit_test(safetensors_open__malformed_header__says_what),
        cmocka_unit_test(safetensors_open__wrong_length__is_refused),
        cmocka_unit_test(safetensors_open__cut_at_any_length__is_refused),
        cmocka_unit_test(safetensors_open__every_byte_flipped__error_or_arrays_within),
    };
    return cmocka_run_group_tests(tests, setup, teardown) ? 1 : 0;
}
