/* The .npy reader and writer: files as NumPy writes them, byte by byte by hand, what is refused and where,
 * and that what is written is read back. */
#include "tests/io/io_test.h"

#include "io/npy.h"

static uint8_t file[4096];
static size_t file_bytes;

/* A file of some version with this header, as it stands, and `data_bytes` of the bytes 1, 2, 3, … */
static void make(uint8_t major, const char *header, size_t data_bytes)
{
    size_t header_bytes = strlen(header), start = major == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = major, file[7] = 0;
    for (size_t i = 8; i < start; i++) file[i] = (uint8_t)(header_bytes >> 8 * (i - 8));
    memcpy(file + start, header, header_bytes);
    file_bytes = start + header_bytes;
    for (size_t i = 0; i < data_bytes; i++) file[file_bytes++] = (uint8_t)(i + 1);
    assert_true(file_bytes <= sizeof file);
}

static status opened(struct npy *npy) { return npy_open(npy, "a.npy", file, file_bytes); }

static void npy_open__as_numpy_writes_it__type_shape_and_data(void **state)
{
    (void)state;
    /* What numpy.save gives for numpy.ones((2, 3), "f4"), in each version. */
    static const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n";
    for (uint8_t major = 1; major <= 3; major++) {
        struct npy npy;
        make(major, header, 24);
        assert_ok(opened(&npy));
        assert_int_equal(npy.array.type, SAFETENSORS_F32);
        assert_int_equal(npy.array.rank, 2);
        assert_int_equal(npy.array.shape[0], 2);
        assert_int_equal(npy.array.shape[1], 3);
        assert_int_equal(npy.array.bytes, 24);
        assert_false(npy.is_fortran);
        assert_ptr_equal(npy.array.data, file + file_bytes - 24);
        assert_int_equal(npy.array.data[0], 1);
    }
}

static void npy_open__each_type__is_named(void **state)
{
    (void)state;
    static const struct {
        const char *descr;
        enum safetensors_type type;
        uint32_t bytes;
    } cases[] = {{"|b1", SAFETENSORS_BOOL, 1}, {"|u1", SAFETENSORS_U8, 1},  {"|i1", SAFETENSORS_I8, 1},
                 {"<u2", SAFETENSORS_U16, 2},  {"<i2", SAFETENSORS_I16, 2}, {"<f2", SAFETENSORS_F16, 2},
                 {"<V2", SAFETENSORS_BF16, 2}, {"<u4", SAFETENSORS_U32, 4}, {"<i4", SAFETENSORS_I32, 4},
                 {"<f4", SAFETENSORS_F32, 4},  {"<u8", SAFETENSORS_U64, 8}, {"<i8", SAFETENSORS_I64, 8},
                 {"<f8", SAFETENSORS_F64, 8}};
    assert_int_equal(sizeof cases / sizeof *cases, SAFETENSORS_TYPE_COUNT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct npy npy;
        char header[128];
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (5,), }\n", cases[i].descr);
        make(1, header, 5 * cases[i].bytes);
        assert_ok(opened(&npy));
        assert_int_equal(npy.array.type, cases[i].type);
        assert_int_equal(npy.array.rank, 1);
        assert_int_equal(npy.array.bytes, 5 * cases[i].bytes);
    }
}

static void npy_open__other_ways_to_write_the_dictionary__are_the_same(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 3)}",
        "{\"shape\":(2,3,),\"fortran_order\":True,\"descr\":\"<u2\"}",
        " { 'shape' : ( 2L , 3L ) , 'descr' : '<u2' , 'fortran_order' : True , } \n\n",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        struct npy npy;
        make(1, headers[i], 12);
        assert_ok(opened(&npy));
        assert_int_equal(npy.array.type, SAFETENSORS_U16);
        assert_int_equal(npy.array.rank, 2);
        assert_int_equal(npy.array.shape[1], 3);
        assert_true(npy.is_fortran);
    }
}

static void npy_open__shapes_of_other_ranks__number_row_and_nothing(void **state)
{
    (void)state;
    struct npy npy;
    make(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", 8);
    assert_ok(opened(&npy));
    assert_int_equal(npy.array.rank, 0);
    make(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (2,), }\n", 16);
    assert_ok(opened(&npy));
    assert_false(npy.is_fortran); /* one dimension has one order */
    make(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 7), }\n", 0);
    assert_ok(opened(&npy));
    assert_int_equal(npy.array.bytes, 0);
    make(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 2), }\n", 2);
    assert_ok(opened(&npy));
    assert_int_equal(npy.array.rank, SAFETENSORS_RANK_MAX);
}

static void npy_open__what_is_not_taken__is_refused_at_its_byte(void **state)
{
    (void)state;
#define REST ", 'fortran_order': False, 'shape': (2,), }\n"
    static const struct {
        const char *header, *words;
    } cases[] = {
        {"{'descr': '>f4'" REST, "a.npy: byte 20: expected little-endian elements, found the big-endian type '>f4'"},
        {"{'descr': '<U7'" REST, "byte 20: expected an element type from"},
        {"{'descr': '|O'" REST, "found '|O'"},
        {"{'descr': '<c8'" REST, "found '<c8'"},
        {"{'descr': [('x', '<f4')]" REST,
         "byte 20: expected an element type such as '<f4', not a structured one, found \"[\""},
        {"{'descr': '<f4" REST, "expected"},
        {"{'descr': '<f\\x34'" REST, "expected the end of a text"},
        {"{'fortran_order': True", "expected \",\" or \"}\", found the end"},
        {"{'fortran_order': False", "expected \",\" or \"}\", found the end"},
        {"{'fortran_order': Tru", "byte 28: expected True or False, found \"T\""},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }\n", "byte 44: expected True or False, found \"0\""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }\n", "expected \",\", found \")\""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }\n", "expected \",\", found \"3\""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3 4), }\n", "expected \",\" or \")\", found \"4\""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }\n", "expected a dimension, found \"-\""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }\n", "expected a shape such as (3, 4), found \"2\""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }\n", "a number beyond 64 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n",
         "a shape that a file can hold"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2), }\n", "at most 8 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False}\n", "expected the key shape before the header ends"},
        {"{'descr': '<f4', 'descr': '<f4'" REST, "each once, found \"descr\""},
        {"{'order': 'C'" REST, "found \"order\""},
        {"{'descr' '<f4'" REST, "expected \":\""},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (2,), }\n", "expected \",\" or \"}\", found \"'\""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x\n",
         "expected spaces up to the end of the header"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", "found the end"},
        {"", "byte 10: expected \"{\", found the end"},
        {"\x01", "found byte 0x01"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct npy npy;
        make(1, cases[i].header, 8);
        if (opened(&npy) != ST_INVALID) fail_msg("%s: is read", cases[i].header);
        assert_fails(INVALID, cases[i].words, opened(&npy));
    }
}

static void npy_open__cut_anywhere__is_refused(void **state)
{
    (void)state;
    struct npy npy;
    for (uint8_t major = 1; major <= 2; major++) {
        make(major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24);
        size_t whole = file_bytes;
        for (file_bytes = 0; file_bytes < whole; file_bytes++) assert_int_equal(opened(&npy), ST_INVALID);
        assert_ok(opened(&npy));
        file_bytes = whole - 1;
        assert_fails(INVALID, "expected the 24 bytes of its shape, found 23", opened(&npy));
        file[whole] = 0;
        file_bytes = whole + 1;
        assert_fails(INVALID, "expected the 24 bytes of its shape, found 25", opened(&npy));
    }
    file[6] = 4;
    assert_fails(INVALID, "byte 6: expected version 1.0, 2.0 or 3.0, found 4.0", opened(&npy));
    file[0] = 0x94;
    assert_fails(INVALID, "byte 0: expected the mark of a .npy file", opened(&npy));
    make(2, "{", 0);
    file[11] = 0xff;
    assert_fails(INVALID, "byte 8: expected a header within the 13 bytes of the file", opened(&npy));
}

static void npy_header_put__what_is_written__is_read_back_aligned(void **state)
{
    (void)state;
    static const struct safetensors_tensor cases[] = {
        {.type = SAFETENSORS_F32, .rank = 2, .shape = {3, 5}},
        {.type = SAFETENSORS_U64, .rank = 1, .shape = {4}},
        {.type = SAFETENSORS_F64, .rank = 0},
        {.type = SAFETENSORS_U8, .rank = 2, .shape = {0, UINT64_C(1) << 62}},
        {.type = SAFETENSORS_U8, .rank = 8, .shape = {1, 1, 1, 1, 1, 1, 1, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct safetensors_tensor *a = &cases[i];
        struct file_writer writer;
        struct file_map map;
        struct npy npy;
        uint64_t bytes;
        const char *path = test_path("written.npy");
        assert_ok(file_writer_open(&writer, path));
        assert_ok(npy_header_put(&writer, a, &bytes));
        assert_int_equal(writer.written_bytes % 64, 0);
        for (uint8_t next = 1; writer.written_bytes < bytes; next++) assert_ok(file_writer_put(&writer, &next, 1));
        assert_ok(file_writer_commit(&writer));
        assert_ok(file_map_open(&map, path));
        assert_ok(npy_open(&npy, path, map.data, map.bytes));
        assert_int_equal(npy.array.type, a->type);
        assert_int_equal(npy.array.rank, a->rank);
        assert_memory_equal(npy.array.shape, a->shape, sizeof a->shape);
        assert_true(npy.array.data[-1] == '\n' && !npy.is_fortran);
        file_map_close(&map);
    }
    struct file_writer writer;
    uint64_t bytes;
    const struct safetensors_tensor huge = {.type = SAFETENSORS_F32, .rank = 2, .shape = {UINT64_C(1) << 40, 1 << 30}};
    assert_ok(file_writer_open(&writer, test_path("huge.npy")));
    assert_fails(INVALID, "larger than a file can be", npy_header_put(&writer, &huge, &bytes));
    file_writer_abort(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_open__as_numpy_writes_it__type_shape_and_data),
        cmocka_unit_test(npy_open__each_type__is_named),
        cmocka_unit_test(npy_open__other_ways_to_write_the_dictionary__are_the_same),
        cmocka_unit_test(npy_open__shapes_of_other_ranks__number_row_and_nothing),
        cmocka_unit_test(npy_open__what_is_not_taken__is_refused_at_its_byte),
        cmocka_unit_test(npy_open__cut_anywhere__is_refused),
        cmocka_unit_test(npy_header_put__what_is_written__is_read_back_aligned),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
