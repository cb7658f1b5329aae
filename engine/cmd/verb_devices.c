/* heterps-run devices: what this machine offers to training, as a page, an object or a cluster text. */
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/words.h"
#include "engine/base/cores.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/machine.h"
#include "engine/base/memory.h"
#include "engine/cmd/command.h"
#include "engine/device/cpu/cpu_device.h"
#include "gpu/blas.h"
#include "gpu/gpu.h"
#include "io/uring.h"

#define LIMITS_MAX 32u
#define GPUS_MAX   64u

struct devices_flags {
    const char *path;
    bool json, cluster;
};
static const struct flag flags[] = {
    {.name = "--path",
     .type = FLAG_TEXT,
     .value = "DIR",
     .meaning = "a directory on the disk to describe; default: the present one",
     .offset = offsetof(struct devices_flags, path)},
    {.name = "--cluster",
     .type = FLAG_SWITCH,
     .meaning = "print a cluster text of these devices, for profile, plan and train --cluster",
     .offset = offsetof(struct devices_flags, cluster)},
    {.name = "--json",
     .type = FLAG_SWITCH,
     .meaning = "one object on standard output; the same as --log json",
     .offset = offsetof(struct devices_flags, json)},
};

/* All that the verb tells. */
struct facts {
    struct cores cores;
    struct machine machine;
    struct memory_limit limits[LIMITS_MAX];
    uint32_t limit_count;
    char path[PATH_MAX];
    struct machine_disk disk;
    bool is_direct;
    struct failure write_refusal; /* why the directory cannot be written */
    char offers[256];             /* of uring_offers */
    struct machine_link links[MACHINE_LINKS_MAX];
    uint32_t link_count;
    struct gpu_facts gpus[GPUS_MAX];
    uint32_t gpu_count;
    const char *gpu_why;         /* why there is no card; else NULL */
    const char *blas, *blas_why; /* cuBLASLt's name and version; or why there is none */
};

static status facts_find(struct facts *f, const char *path)
{
    cores_allowed(&f->cores);
    machine_read(&f->machine, "/", f->cores.processor, f->cores.mask_count);
    f->limit_count = memory_limits_list("/", f->limits, LIMITS_MAX);
    if (realpath(path, f->path) == NULL) snprintf(f->path, sizeof f->path, "%s", path);
    TRY(machine_disk_read(&f->disk, path));
    char name[64], probe[FILE_PATH_BYTES];
    snprintf(name, sizeof name, ".heterps-run.%ld", (long)getpid());
    failure_keep(&f->write_refusal, file_probe(file_path_join(probe, path, name), &f->is_direct));
    uring_offers(f->offers, sizeof f->offers);
    f->link_count = machine_links_list("/", f->links);
    f->gpu_count = gpu_count(&f->gpu_why);
    if (f->gpu_count > GPUS_MAX) f->gpu_count = GPUS_MAX;
    if (f->gpu_count) f->gpu_why = NULL;
    for (uint32_t i = 0; i < f->gpu_count; i++) TRY(gpu_describe(i, &f->gpus[i]));
    f->blas = gpu_blas_library(&f->blas_why);
    return ST_OK;
}

/* Version 1 of control groups writes a number near 2^63 where there is no limit. */
static bool is_bound(const struct memory_limit *limit) { return limit->limit_bytes < SIZE_MAX / 4; }

/* A limit of this process; UINT64_MAX: none. */
static uint64_t own_limit(int resource)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_cur;
}

/* --- the page ----------------------------------------------------------------------------------- */

#define BYTES(value) words_size((char[WORDS_SIZE_BYTES]){0}, value)

static void line(const char *name, const char *format, ...) PRINTF_LIKE(2, 3);
static void line(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%-14s", name);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

static void processors_print(const struct facts *f)
{
    const struct machine *m = &f->machine;
    const struct cores *c = &f->cores;
    line("processors", "%s", *m->cpu ? m->cpu : "unknown");
    if (m->core_count)
        line("  here", "%u thread%s of %u core%s in %u package%s, %u NUMA node%s", c->mask_count,
             words_s(c->mask_count), m->core_count, words_s(m->core_count), m->package_count, words_s(m->package_count),
             m->node_count, words_s(m->node_count));
    if (c->is_whole)
        line("  usable", "%u", c->count);
    else
        line("  usable", "%u, by %s", c->count, c->quota_name);
    printf("%-14s%s", "  kernels", isa_names[isa_best()]);
    for (int isa = (int)isa_best() - 1, count = 0; isa >= 0; isa--)
        if (isa_runs_here((enum isa)isa)) printf("%s%s", count++ ? ", " : "; also here: ", isa_names[isa]);
    putchar('\n');
    line("  caches", "L1d %s, L2 %s, L3 %s", BYTES(m->l1d_bytes), BYTES(m->l2_bytes), BYTES(m->l3_bytes));
}

static void own_limit_print(const char *name, int resource, bool is_bytes, const char *what)
{
    const uint64_t limit = own_limit(resource);
    char count[24];
    snprintf(count, sizeof count, "%" PRIu64, limit);
    line(name, "%s %s", limit == UINT64_MAX ? "any number" : is_bytes ? BYTES(limit) : count, what);
}

static void limits_print(const struct facts *f)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->limit_count; i++) {
        const struct memory_limit *l = &f->limits[i];
        char of[24] = "", bytes[16];
        if (!is_bound(l)) continue;
        if (l->left_bytes != l->limit_bytes) snprintf(of, sizeof of, " of %s", words_size(bytes, l->limit_bytes));
        line(count++ ? "" : "  limits", "%s: %s left%s", l->name, BYTES(l->left_bytes), of);
    }
}

static void size_print(const char *name, uint64_t bytes, bool is_told)
{
    line(name, "%s", is_told ? BYTES(bytes) : "unknown");
}

static void memory_print(const struct facts *f)
{
    const size_t available = memory_available_bytes(); /* SIZE_MAX: nothing tells */
    size_print("memory", f->machine.memory_bytes, f->machine.memory_bytes > 0);
    size_print("  available", available, available < SIZE_MAX);
    limits_print(f);
    line("  huge pages", "%s", f->machine.huge_pages);
    own_limit_print("  locked", RLIMIT_MEMLOCK, true, "may be locked (RLIMIT_MEMLOCK)");
    own_limit_print("  files", RLIMIT_NOFILE, false, "may be open (RLIMIT_NOFILE)");
}

static void disk_print(const struct facts *f)
{
    line("disk", "%s", f->path);
    line("  is", "%s%s%s", *f->disk.file_system ? f->disk.file_system : "of an unknown kind",
         *f->disk.source ? " of " : "", f->disk.source);
    line("  free", "%s of %s", BYTES(f->disk.free_bytes), BYTES(f->disk.total_bytes));
    line("  O_DIRECT", "%s",
         failure_is(&f->write_refusal) ? f->write_refusal.message
         : f->is_direct                ? "yes"
                                       : "no: through the page cache");
    line("  requests", "%s", f->offers);
}

static void cards_print(const struct facts *f)
{
    if (f->gpu_count == 0) line("cards", "none: %s", f->gpu_why);
    for (uint32_t i = 0; i < f->gpu_count; i++) {
        const struct gpu_facts *g = &f->gpus[i];
        char name[24];
        snprintf(name, sizeof name, "  %s", g->device);
        if (i == 0) line("cards", "%u", f->gpu_count);
        line(name, "%s, compute capability %u.%u, %u multiprocessor%s; %s, %s of it free%s%s", g->name, g->major,
             g->minor, g->core_count, words_s(g->core_count), BYTES(g->memory_bytes), BYTES(g->free_bytes),
             *g->link ? "; " : "", g->link);
    }
    if (f->blas)
        line("  cuBLASLt", "%s", f->blas);
    else
        line("  cuBLASLt", "none: %s", f->blas_why);
}

static void page_print(const struct facts *f)
{
    processors_print(f);
    memory_print(f);
    disk_print(f);
    for (uint32_t i = 0; i < f->link_count; i++)
        line(i ? "" : "network", "%s: %" PRIu64 " Mbit/s", f->links[i].name, f->links[i].mbit);
    cards_print(f);
}

/* --- the object --------------------------------------------------------------------------------- */

static void processors_event(const struct facts *f)
{
    const struct machine *m = &f->machine;
    log_event_open("processors");
    log_event_text("model", m->cpu);
    log_event_u64("usable", f->cores.count);
    log_event_open_array("numbers");
    for (uint32_t i = 0; i < f->cores.mask_count; i++) log_event_u64(NULL, (uint64_t)f->cores.processor[i]);
    log_event_close_array();
    log_event_u64("cores", m->core_count);
    log_event_u64("packages", m->package_count);
    log_event_u64("numa_nodes", m->node_count);
    if (*f->cores.quota_name) {
        log_event_u64("quota", f->cores.quota);
        log_event_text("quota_from", f->cores.quota_name);
    }
    log_event_text("isa", isa_names[isa_best()]);
    log_event_open_array("isas");
    for (int isa = 0; isa < ISA_COUNT; isa++)
        if (isa_runs_here((enum isa)isa)) log_event_text(NULL, isa_names[isa]);
    log_event_close_array();
    log_event_u64("l1d_bytes", m->l1d_bytes);
    log_event_u64("l2_bytes", m->l2_bytes);
    log_event_u64("l3_bytes", m->l3_bytes);
    log_event_close();
}

static void own_limit_event(const char *name, int resource)
{
    const uint64_t limit = own_limit(resource);
    if (limit != UINT64_MAX) log_event_u64(name, limit);
}

static void memory_event(const struct facts *f)
{
    const size_t available = memory_available_bytes();
    log_event_open("memory");
    log_event_u64("bytes", f->machine.memory_bytes);
    log_event_u64("available_bytes", available < SIZE_MAX ? available : 0);
    log_event_open_array("limits");
    for (uint32_t i = 0; i < f->limit_count; i++) {
        if (!is_bound(&f->limits[i])) continue;
        log_event_open(NULL);
        log_event_text("name", f->limits[i].name);
        log_event_u64("bytes", f->limits[i].limit_bytes);
        log_event_u64("left_bytes", f->limits[i].left_bytes);
        log_event_close();
    }
    log_event_close_array();
    log_event_text("huge_pages", f->machine.huge_pages);
    own_limit_event("locked_bytes_max", RLIMIT_MEMLOCK);
    own_limit_event("open_files_max", RLIMIT_NOFILE);
    log_event_close();
}

static void disk_event(const struct facts *f)
{
    log_event_open("disk");
    log_event_text("path", f->path);
    log_event_text("file_system", f->disk.file_system);
    log_event_text("source", f->disk.source);
    log_event_u64("bytes", f->disk.total_bytes);
    log_event_u64("free_bytes", f->disk.free_bytes);
    log_event_u64("is_writable", !failure_is(&f->write_refusal));
    log_event_u64("is_direct", f->is_direct);
    log_event_text("requests", f->offers);
    log_event_close();
}

static void cards_event(const struct facts *f)
{
    log_event_open_array("cards");
    for (uint32_t i = 0; i < f->gpu_count; i++) {
        const struct gpu_facts *g = &f->gpus[i];
        log_event_open(NULL);
        log_event_u64("index", i);
        log_event_text("name", g->name);
        log_event_u64("major", g->major);
        log_event_u64("minor", g->minor);
        log_event_u64("multiprocessors", g->core_count);
        log_event_u64("memory_bytes", g->memory_bytes);
        log_event_u64("free_bytes", g->free_bytes);
        log_event_text("link", g->link);
        log_event_close();
    }
    log_event_close_array();
    if (f->gpu_why) log_event_text("no_cards", f->gpu_why);
    log_event_text(f->blas ? "cublaslt" : "no_cublaslt", f->blas ? f->blas : f->blas_why);
}

static void object_print(const struct facts *f)
{
    log_event_begin("devices");
    log_event_text("version", HETERPS_VERSION);
    processors_event(f);
    memory_event(f);
    disk_event(f);
    log_event_open_array("network");
    for (uint32_t i = 0; i < f->link_count; i++) {
        log_event_open(NULL);
        log_event_text("name", f->links[i].name);
        log_event_u64("mbit_per_s", f->links[i].mbit);
        log_event_close();
    }
    log_event_close_array();
    cards_event(f);
    log_event_end();
}

/* Of every 8 cores one is left to reading, which would have to wait if stages were on all cores.
 * Fewer than 8 cores are shared. */
#define CORES_A_SERVICE_CORE 8u

/* --- the cluster -------------------------------------------------------------------------------- */

/* All prices are equal, and for the user to change: the cheapest plan is then the one of the fewest units. */
static void cluster_print(const struct facts *f)
{
    const uint32_t service = f->cores.count / CORES_A_SERVICE_CORE;
    printf("; What `heterps-run devices --cluster` has found on this machine. All units have the same price, so the\n"
           "; cheapest plan has the fewest units; put in what a unit costs you. The goal is the highest speed.\n"
           "[type cpu]\n"
           "device = cpu\n"
           "price_per_hour = 1           ; of a core\n"
           "limit = %u\n",
           f->cores.count - service);
    for (uint32_t i = 0; i < f->gpu_count; i++)
        printf("[type card%u]\n"
               "device = %s              ; %s\n"
               "price_per_hour = 1           ; of the card\n"
               "limit = 1\n",
               i, f->gpus[i].device, f->gpus[i].name);
    printf("[goal]\n"
           "throughput = max\n");
    if (service > 0)
        printf("service_cores = %u            ; for reading, parsing and rows; no stage has them\n", service);
}

/* --- the verb ----------------------------------------------------------------------------------- */

static status run(const char *const *positionals, const void *options_pointer)
{
    (void)positionals;
    const struct devices_flags *o = options_pointer;
    static struct facts facts;
    if (o->json && o->cluster) FAIL(USAGE, "--cluster is a text, --json an object; give one of them");
    if (o->json) log_open(LOG_JSON, log_verbosity());
    TRY(facts_find(&facts, o->path));
    if (o->cluster)
        cluster_print(&facts);
    else if (log_format() == LOG_JSON)
        object_print(&facts);
    else
        page_print(&facts);
    return ST_OK;
}

static const struct devices_flags defaults = {.path = "."};
const struct command command_devices = {
    .name = "devices",
    .positionals = "",
    .summary = "what this machine has: processors, memory, disk, cards, and what limits them",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct devices_flags),
    .defaults = &defaults,
    .uses_cards = true,
    .run = run,
    .help = "heterps-run devices --cluster >cluster.cfg && heterps-run plan graph.bin --cluster cluster.cfg\n\n"
            "--json prints an object; sizes are in bytes, "
            "true is 1, and a fact that the kernel does not tell is 0 or \"\":\n"
            "    processors   model, usable (cores for stages), numbers (of the affinity mask), cores, packages, "
            "numa_nodes,\n"
            "                 quota and quota_from (where a control group has one), isa (used), isas, "
            "l1d_bytes, l2_bytes,\n"
            "                 l3_bytes\n"
            "    memory       bytes, available_bytes, limits: name, bytes, left_bytes of each; huge_pages,\n"
            "                 locked_bytes_max and open_files_max (where they are bounded)\n"
            "    disk         path, file_system, source, bytes, free_bytes, is_writable, is_direct, requests\n"
            "    network      name, mbit_per_s of each interface that tells its speed\n"
            "    cards        index, name, major, minor, multiprocessors, memory_bytes, free_bytes, link of each;\n"
            "                 no_cards says why there are none\n"
            "    cublaslt     the library for products on cards of other compute capabilities than 9.0; "
            "no_cublaslt says why there is none"};
