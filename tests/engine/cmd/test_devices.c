/* What `devices` tells of a machine that is made up: the page, the object and the cluster text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "engine/base/isa.h"
#include "engine/base/memory.h"
#include "tests/engine/cmd/printed.h"

/* What the process has: 5 MiB may be locked, and `files_max` files be open. */
static rlim_t files_max = 1024;
static int limit_get(int resource, struct rlimit *limit)
{
    limit->rlim_cur = limit->rlim_max = resource == RLIMIT_NOFILE    ? files_max
                                        : resource == RLIMIT_MEMLOCK ? 5 << 20
                                                                     : 0;
    return 0;
}
#define getrlimit(resource, limit) limit_get((int)(resource), limit)
#define memory_available_bytes()   (UINT64_C(6) << 30)
#define isa_best()                 ISA_avx2
#define isa_runs_here(isa)         ((isa) <= ISA_avx2)
#include "engine/cmd/verb_devices.c"

static const struct facts small = {
    .cores = {.count = 1, .is_whole = true, .processor = {3}, .mask_count = 1, .quota = UINT32_MAX},
    .machine = {.core_count = 1, .package_count = 1, .node_count = 1, .huge_pages = "never"},
    .path = "/data",
    .write_refusal = {.code = ST_IO, .message = "it is full"},
    .offers = "none",
    .gpu_why = "there is no driver",
    .blas_why = "it is not installed",
};
static const struct facts large = {
    .cores = {.count = 16, .processor = {0, 1, 5}, .mask_count = 3, .quota = 16, .quota_name = "cpu.max of /a"},
    .machine = {.cpu = "A Processor",
                .core_count = 2,
                .package_count = 3,
                .node_count = 4,
                .l1d_bytes = 32768,
                .l2_bytes = 1 << 20,
                .l3_bytes = 64 << 20,
                .memory_bytes = UINT64_C(8) << 30,
                .huge_pages = "madvise"},
    .limits = {{.name = "memory.max of /a", .limit_bytes = UINT64_C(4) << 30, .left_bytes = UINT64_C(3) << 30},
               {.name = "unbound", .limit_bytes = UINT64_C(1) << 62, .left_bytes = UINT64_C(1) << 62},
               {.name = "memory.high of /b", .limit_bytes = UINT64_C(2) << 30, .left_bytes = UINT64_C(2) << 30}},
    .limit_count = 3,
    .path = "/data",
    .disk = {.file_system = "ext4", .source = "/dev/sda1", .total_bytes = UINT64_C(4) << 40, .free_bytes = 1 << 30},
    .is_direct = true,
    .offers = "a ring",
    .links = {{.name = "eth0", .mbit = 10000}, {.name = "ib0", .mbit = 400000}},
    .link_count = 2,
    .gpus = {{.device = "cuda:0",
              .name = "Card A",
              .link = "PCIe 5.0 x16",
              .major = 9,
              .minor = 1,
              .core_count = 132,
              .memory_bytes = UINT64_C(80) << 30,
              .free_bytes = UINT64_C(79) << 30},
             {.device = "cuda:1", .name = "Card B", .major = 8, .minor = 6, .core_count = 1, .memory_bytes = 1 << 30}},
    .gpu_count = 2,
    .blas = "cublasLt 12.3",
};

static void page_print__much_and_little__a_line_a_fact(void **state)
{
    (void)state;
    print_begin(LOG_TEXT);
    page_print(&large);
    print_end();
    assert_string_equal(printed, "processors    A Processor\n"
                                 "  here        3 threads of 2 cores in 3 packages, 4 NUMA nodes\n"
                                 "  usable      16, by cpu.max of /a\n"
                                 "  kernels     avx2; also here: base\n"
                                 "  caches      L1d 32 KiB, L2 1 MiB, L3 64 MiB\n"
                                 "memory        8 GiB\n"
                                 "  available   6 GiB\n"
                                 "  limits      memory.max of /a: 3 GiB left of 4 GiB\n"
                                 "              memory.high of /b: 2 GiB left\n"
                                 "  huge pages  madvise\n"
                                 "  locked      5 MiB may be locked (RLIMIT_MEMLOCK)\n"
                                 "  files       1024 may be open (RLIMIT_NOFILE)\n"
                                 "disk          /data\n"
                                 "  is          ext4 of /dev/sda1\n"
                                 "  free        1 GiB of 4 TiB\n"
                                 "  O_DIRECT    yes\n"
                                 "  requests    a ring\n"
                                 "network       eth0: 10000 Mbit/s\n"
                                 "              ib0: 400000 Mbit/s\n"
                                 "cards         2\n"
                                 "  cuda:0      Card A, compute capability 9.1, 132 multiprocessors; "
                                 "80 GiB, 79 GiB of it free; PCIe 5.0 x16\n"
                                 "  cuda:1      Card B, compute capability 8.6, 1 multiprocessor; "
                                 "1 GiB, 0 B of it free\n"
                                 "  cuBLASLt    cublasLt 12.3\n");
    files_max = RLIM_INFINITY;
    print_begin(LOG_TEXT);
    page_print(&small);
    print_end();
    files_max = 1024;
    assert_string_equal(printed, "processors    unknown\n"
                                 "  here        1 thread of 1 core in 1 package, 1 NUMA node\n"
                                 "  usable      1\n"
                                 "  kernels     avx2; also here: base\n"
                                 "  caches      L1d 0 B, L2 0 B, L3 0 B\n"
                                 "memory        unknown\n"
                                 "  available   6 GiB\n"
                                 "  huge pages  never\n"
                                 "  locked      5 MiB may be locked (RLIMIT_MEMLOCK)\n"
                                 "  files       any number may be open (RLIMIT_NOFILE)\n"
                                 "disk          /data\n"
                                 "  is          of an unknown kind\n"
                                 "  free        0 B of 0 B\n"
                                 "  O_DIRECT    it is full\n"
                                 "  requests    none\n"
                                 "cards         none: there is no driver\n"
                                 "  cuBLASLt    none: it is not installed\n");
}

static void object_print__much_and_little__each_field(void **state)
{
    (void)state;
    print_begin(LOG_JSON);
    object_print(&large);
    print_end();
    assert_event(
        printed,
        "{\"event\":\"devices\",\"version\":\"" HETERPS_VERSION "\",\"processors\":{\"model\":\"A Processor\","
        "\"usable\":16,\"numbers\":[0,1,5],\"cores\":2,\"packages\":3,\"numa_nodes\":4,\"quota\":16,\"quota_from\":"
        "\"cpu.max of /a\",\"isa\":\"avx2\",\"isas\":[\"base\",\"avx2\"],\"l1d_bytes\":32768,\"l2_bytes\":1048576,"
        "\"l3_bytes\":67108864},\"memory\":{\"bytes\":8589934592,\"available_bytes\":6442450944,\"limits\":[{\"name\":"
        "\"memory.max of /a\",\"bytes\":4294967296,\"left_bytes\":3221225472},{\"name\":\"memory.high of /b\","
        "\"bytes\":2147483648,\"left_bytes\":2147483648}],\"huge_pages\":\"madvise\",\"locked_bytes_max\":5242880,"
        "\"open_files_max\":1024},\"disk\":{\"path\":\"/data\",\"file_system\":\"ext4\",\"source\":\"/dev/sda1\","
        "\"bytes\":4398046511104,\"free_bytes\":1073741824,\"is_writable\":1,\"is_direct\":1,\"requests\":\"a ring\"},"
        "\"network\":[{\"name\":\"eth0\",\"mbit_per_s\":10000},{\"name\":\"ib0\",\"mbit_per_s\":400000}],\"cards\":[{"
        "\"index\":0,\"name\":\"Card A\",\"major\":9,\"minor\":1,\"multiprocessors\":132,\"memory_bytes\":85899345920,"
        "\"free_bytes\":84825604096,\"link\":\"PCIe 5.0 x16\"},{\"index\":1,\"name\":\"Card B\",\"major\":8,\"minor\":"
        "6,\"multiprocessors\":1,\"memory_bytes\":1073741824,\"free_bytes\":0,\"link\":\"\"}],\"cublaslt\":\"cublasLt "
        "12.3\"}");
    files_max = RLIM_INFINITY;
    print_begin(LOG_JSON);
    object_print(&small);
    print_end();
    files_max = 1024;
    assert_event(
        printed,
        "{\"event\":\"devices\",\"version\":\"" HETERPS_VERSION "\",\"processors\":{\"model\":\"\",\"usable\":1,"
        "\"numbers\":[3],\"cores\":1,\"packages\":1,\"numa_nodes\":1,\"isa\":\"avx2\",\"isas\":[\"base\",\"avx2\"],"
        "\"l1d_bytes\":0,\"l2_bytes\":0,\"l3_bytes\":0},\"memory\":{\"bytes\":0,\"available_bytes\":6442450944,"
        "\"limits\":[],\"huge_pages\":\"never\",\"locked_bytes_max\":5242880},\"disk\":{\"path\":\"/data\","
        "\"file_system\":\"\",\"source\":\"\",\"bytes\":0,\"free_bytes\":0,\"is_writable\":0,\"is_direct\":0,"
        "\"requests\":\"none\"},\"network\":[],\"cards\":[],\"no_cards\":\"there is no driver\",\"no_cublaslt\":\"it "
        "is not installed\"}");
}

static void cluster_print__cards_and_service_cores__types_of_each(void **state)
{
    (void)state;
    print_begin(LOG_TEXT);
    cluster_print(&large);
    print_end();
    const char *types = strchr(printed, '[');
    assert_non_null(types);
    assert_string_equal(types, "[type cpu]\ndevice = cpu\nprice_per_hour = 1           ; of a core\nlimit = 14\n"
                               "[type card0]\ndevice = cuda:0              ; Card A\n"
                               "price_per_hour = 1           ; of the card\nlimit = 1\n"
                               "[type card1]\ndevice = cuda:1              ; Card B\n"
                               "price_per_hour = 1           ; of the card\nlimit = 1\n"
                               "[goal]\nthroughput = max\n"
                               "service_cores = 2            ; for reading, parsing and rows; no stage has them\n");
    print_begin(LOG_TEXT);
    cluster_print(&small);
    print_end();
    types = strchr(printed, '[');
    assert_non_null(types);
    assert_string_equal(types, "[type cpu]\ndevice = cpu\nprice_per_hour = 1           ; of a core\nlimit = 1\n"
                               "[goal]\nthroughput = max\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_print__much_and_little__a_line_a_fact),
        cmocka_unit_test(object_print__much_and_little__each_field),
        cmocka_unit_test(cluster_print__cards_and_service_cores__types_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
