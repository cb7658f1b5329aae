/* The page: whole whatever the plan, checked by tests/e2e/page_check.py; escapes names; marks what was
 * chosen; is written in one piece. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/file.h"
#include "engine/base/words.h"
#include "sched/explain.h"
#include "sched/plan_page.h"
#include "tests/fault_alloc.h"
#include "tests/sched/solution_fixture.h"

static struct fixture f;
static uint32_t kept_count; /* pages to be checked by one run of the program */
static char directory[] = "/tmp/test_page.XXXXXX", path[64];

static int group_begin(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL) return -1;
    snprintf(path, sizeof path, "%s/page.html", directory);
    return 0;
}
static int group_end(void **state)
{
    (void)state;
    for (char kept[96]; kept_count > 0; unlink(kept))
        snprintf(kept, sizeof kept, "%s/kept.%u.html", directory, --kept_count);
    unlink(path);
    return rmdir(directory);
}

/* The page of the first `count` solutions; malloc'd. */
static char *page_of(uint32_t count)
{
    struct file_map map;
    assert_int_equal(page_write(path, f.solutions, count), ST_OK);
    assert_int_equal(file_map_open(&map, path), ST_OK);
    char *text = strndup((const char *)map.data, map.bytes);
    assert_non_null(text);
    assert_int_equal(strlen(text), map.bytes);
    file_map_close(&map);
    return text;
}

/* Fingerprints of the pages that are kept, in their order, without the program's version. A page that is
 * meant to change gets another one; what has changed shows in the page that is whole in tests/golden. */
static const uint64_t fingerprints[] = {
    UINT64_C(0x4c56834654386fc2), UINT64_C(0x352873fc429838ee), UINT64_C(0xe10ac3eb98fffcb3),
    UINT64_C(0x8562abc02e903557), UINT64_C(0x151e5f06f1cf013b), UINT64_C(0xf0bf39b8781ba5ff),
    UINT64_C(0xfe820927c0b22d4c), UINT64_C(0xc6cee2e60fd3f564), UINT64_C(0x07dee6d106528788),
    UINT64_C(0x33b29cb94a0e134d), UINT64_C(0x8b021e85f2f93f1a), UINT64_C(0xc854d22b4b598445),
    UINT64_C(0x578b2c779f342a46), UINT64_C(0xdd0c46120a92cf3a), UINT64_C(0xd2488a0622c8ce3f),
    UINT64_C(0x90f167705e1e3920), UINT64_C(0x40260ec14e91ed54),
};

static uint64_t fingerprint_of(const char *file)
{
    struct file_map map;
    assert_int_equal(file_map_open(&map, file), ST_OK);
    const char *end = memmem(map.data, map.bytes, ". heterps-run ", 14);
    assert_non_null(end);
    const uint64_t hash = XXH3_64bits(map.data, (size_t)(end - (const char *)map.data));
    file_map_close(&map);
    return hash;
}

static void page_keep(uint32_t count)
{
    char kept[96];
    snprintf(kept, sizeof kept, "%s/kept.%u.html", directory, kept_count);
    assert_int_equal(page_write(kept, f.solutions, count), ST_OK);
    const uint64_t hash = fingerprint_of(kept);
    assert_true(kept_count < sizeof fingerprints / sizeof *fingerprints);
    if (hash != fingerprints[kept_count])
        fail_msg("page %u has changed: its fingerprint is 0x%016" PRIx64, kept_count, hash);
    kept_count++;
}

static void page_write__all_of_these__pass_the_check(void **state)
{
    (void)state;
    char command[160];
    if (system("python3 -c ''") != 0 || access("tests/e2e/page_check.py", R_OK) != 0) {
        print_message("not checked: no python3, or not begun in the repository's root\n");
        skip();
    }
    assert_true(kept_count > 10);
    snprintf(command, sizeof command, "python3 tests/e2e/page_check.py --quiet %s/kept.*.html", directory);
    assert_int_equal(system(command), 0);
}

static uint32_t times_in(const char *text, const char *part)
{
    uint32_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text++) count++;
    return count;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("expected \"%s\" in the page", part);
}

static void page_write__plans_of_all_sizes__are_whole(void **state)
{
    (void)state;
    static const struct {
        uint32_t layers, types;
        double limit;
    } sizes[] = {{5, 2, 5000}, {20, 64, 150000}, {5, 1, 0}, {24, 12, 120000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fixture_open(&f, sizes[i].layers, sizes[i].types, sizes[i].limit);
        fixture_solve(&f);
        page_keep(f.solution_count);
        page_keep(1);
        fixture_close(&f);
    }
}

/* Drawings whose axes go over several powers of ten, or hardly anywhere; curves of one point; more stages
 * than are drawn; what is not proven. */
static void page_write__wide_and_narrow_figures__are_whole(void **state)
{
    (void)state;
    fixture_open(&f, 64, 3, 50);
    for (uint32_t l = 0; l < 64; l++) f.plans[0][l] = (type_index)(l % 3);
    fixture_solution(&f, "rl", true);
    for (uint32_t l = 0; l < 64; l++) f.plans[1][l] = 1;
    fixture_solution(&f, "bo", true);
    page_keep(2);
    f.solutions[0].is_proven = false;
    f.solutions[0].lower_bound = f.solutions[0].result.cost / 3;
    f.solutions[1].result.cost *= 100;
    for (uint32_t p = 0; p < FIXTURE_POINTS; p++) f.curves[1][p].evaluations *= 1 + p * p * p * 1000;
    page_keep(2);
    f.solutions[0].curve_count = 2; /* one of them is feasible */
    f.solutions[1] = f.solutions[0];
    f.solutions[0].evaluations = 3;
    f.instance.epochs = 2.5;
    page_keep(2);
    fixture_close(&f);
}

static void page_write__nothing_can_run__is_whole(void **state)
{
    (void)state;
    fixture_open(&f, 8, 2, 9e9);
    fixture_solve(&f);
    page_keep(f.solution_count);
    fixture_close(&f);
    fixture_open(&f, 8, 2, INFINITY);
    fixture_solve(&f);
    page_keep(f.solution_count);
    fixture_close(&f);
    /* Not a unit for each stage; then no plan at all. */
    fixture_open(&f, 8, 2, 1000);
    f.types[0].resource.limit = f.model.limit[0] = 1;
    fixture_solve(&f);
    f.solutions[0] = f.solutions[4];
    page_keep(2);
    f.solutions[0].stage_count = 0;
    f.solutions[0].result = (struct cost_result){0};
    page_keep(2);
    char *text = page_of(1);
    assert_has(text, "role=\"alert\">Infeasible: greedy has proposed no plan.");
    free(text);
    fixture_close(&f);
}

static void page_write__all_is_free__is_whole(void **state)
{
    (void)state;
    fixture_open(&f, 8, 3, 5000);
    for (uint32_t t = 0; t < 3; t++) f.types[t].resource.price_per_hour = f.model.price[t] = 0;
    fixture_solve(&f);
    page_keep(f.solution_count);
    fixture_close(&f);
}

static void page_write__hostile_names__are_text(void **state)
{
    (void)state;
    static const char hostile[] = "</style><script>alert('1')</script>&\"\x1b\xff\n<img src=x onerror=y>";
    fixture_open(&f, 12, 4, 60000);
    for (uint32_t l = 0; l < 12; l++) {
        strcpy(f.names[l], hostile);
        f.layers[l].kind = hostile;
    }
    for (uint32_t t = 0; t < 4; t++) strcpy(f.names[FIXTURE_LAYERS + t], hostile);
    f.instance.name = hostile;
    fixture_solve(&f);
    f.solutions[1].method = hostile;
    char *text = page_of(f.solution_count);
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "<img"));
    assert_null(strchr(text, 0x1b));
    assert_int_equal(times_in(text, "</style>"), 1);
    assert_has(text, "<title>Plan: &lt;/style&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;");
    free(text);
    page_keep(f.solution_count);
    fixture_close(&f);
}

/* Every curve is one line from left to right within its drawing. */
static void assert_curves_are_good(const char *text)
{
    for (const char *curve = text; (curve = strstr(curve, "<path class=\"curve")) != NULL; curve++) {
        char *at = strstr(curve, " d=\"") + strlen(" d=\"");
        double before = 0;
        uint32_t count = 0;
        for (; *at != '"'; count++) {
            assert_int_equal(*at, count ? 'L' : 'M');
            double x = strtod(at + 1, &at), y = strtod(at, &at);
            assert_true(x >= before && x <= 1000 && y >= 0 && y <= 1000);
            before = x;
        }
        assert_true(count >= 2);
    }
}

static void page_write__plan__marks_a_type_a_layer(void **state)
{
    (void)state;
    fixture_open(&f, 11, 5, 60000);
    fixture_solve(&f);
    f.solutions[0].server_cores = 3;
    f.solutions[0].server_cost = 1.5;
    char *text = page_of(3), servers[96];
    snprintf(servers, sizeof servers, "; parameter servers %s besides (3 cores)", words_usd(WORDS, 1.5));
    assert_has(text, servers);
    assert_int_equal(times_in(text, " on\"><span class=\"sr\">chosen: </span>"), 11);
    assert_int_equal(times_in(text, "<li>"), f.solutions[0].stage_count + times_in(text, " USD/h a unit"));
    assert_int_equal(times_in(text, "<div class=\"why\">"), 11);
    assert_has(text, "proven: no plan costs less");
    for (uint32_t s = 0; s < f.solutions[0].stage_count; s++) {
        const struct cost_stage *stage = &f.solutions[0].stages[s];
        char head[160];
        snprintf(head, sizeof head, "<li><div><b>%u. %s%s%s</b><small>%s %s, ", s + 1, f.layers[stage->first].name,
                 stage->first < stage->last ? ".." : "", stage->first < stage->last ? f.layers[stage->last].name : "",
                 words_count(WORDS, stage->k), f.types[stage->type].resource.name);
        assert_has(text, head);
    }
    assert_int_equal(times_in(text, "<path class=\"curve"), 3); /* provisions, and two methods' learning */
    assert_curves_are_good(text);
    assert_int_equal(times_in(text, "<path class=\"curve first\" d=\""), 1);
    assert_int_equal(times_in(text, "<path class=\"curve \" d=\""), 1);
    assert_int_equal(times_in(text, "<path class=\"curve \" stroke-dasharray=\"7 4\" d=\""), 1);
    free(text);
    fixture_close(&f);
}

static void page_write__many_types__folds_those_that_do_not_matter(void **state)
{
    (void)state;
    fixture_open(&f, 6, 128, 100000);
    fixture_solve(&f);
    char *text = page_of(1);
    const char *details = strstr(text, "<details><summary>All 128 types</summary>");
    assert_non_null(details);
    assert_int_equal(times_in(details, " chosen: </span>") + times_in(details, "chosen: </span>"), 6);
    uint32_t all = times_in(details, "<th scope=\"col\" title="),
             seen = times_in(text, "<th scope=\"col\" title=") - all;
    assert_int_equal(all, 128);
    assert_true(seen >= 2 && seen <= 12);
    /* Each chosen type is among those seen: marked there, too. */
    assert_int_equal(times_in(text, "chosen: </span>"), 12);
    /* And each layer's next best. */
    for (uint32_t l = 0; l < 6; l++) {
        type_index types[FIXTURE_LAYERS];
        struct cost_stage stages[FIXTURE_LAYERS];
        char head[64];
        const uint32_t type = explain_layer(&f.model, &f.solutions[0], l, types, stages).type;
        snprintf(head, sizeof head, "<th scope=\"col\" title=\"%s\"", f.types[type].resource.name);
        assert_int_equal(times_in(text, head), 2);
    }
    free(text);
    fixture_close(&f);
}

static void page_write__again__gives_the_same_bytes(void **state)
{
    (void)state;
    fixture_open(&f, 9, 4, 60000);
    fixture_solve(&f);
    char *one = page_of(8), *other = page_of(8);
    assert_string_equal(one, other);
    free(one);
    free(other);
    fixture_close(&f);
}

/* A small page from the first letter to the last: what people see of 5 layers,
 * 2 types and 3 methods that search. */
static void page_write__a_small_plan__is_the_golden_page(void **state)
{
    (void)state;
    struct file_map golden;
    if (file_map_open(&golden, "tests/golden/page.html") != ST_OK) {
        print_message("not begun in the repository's root\n");
        skip();
    }
    fixture_open(&f, 5, 2, 5000);
    fixture_solve(&f);
    f.instance.epochs = 3;
    f.solutions[0].server_cores = 2;
    f.solutions[0].server_cost = 0.25;
    char *text = page_of(4), *end = strstr(text, ". heterps-run ");
    assert_non_null(end);
    *end = 0;
    assert_memory_equal(golden.data, text, golden.bytes);
    assert_int_equal(golden.bytes, strlen(text));
    file_map_close(&golden);
    free(text);
    fixture_close(&f);
}

static void page_write__no_such_folder__reports_io(void **state)
{
    (void)state;
    fixture_open(&f, 5, 2, 0);
    fixture_solve(&f);
    assert_int_equal(page_write("/nowhere/at/all/page.html", f.solutions, 1), ST_IO);
    assert_non_null(strstr(status_message(), "/nowhere/at/all/page.html"));
    fixture_close(&f);
}

static void page_write__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    fixture_open(&f, 5, 2, 5000);
    fixture_solve(&f);
    EACH_ALLOCATION_FAILS(page_write(path, f.solutions, 2), (void)0);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_write__plans_of_all_sizes__are_whole),
        cmocka_unit_test(page_write__wide_and_narrow_figures__are_whole),
        cmocka_unit_test(page_write__nothing_can_run__is_whole),
        cmocka_unit_test(page_write__all_is_free__is_whole),
        cmocka_unit_test(page_write__hostile_names__are_text),
        cmocka_unit_test(page_write__plan__marks_a_type_a_layer),
        cmocka_unit_test(page_write__many_types__folds_those_that_do_not_matter),
        cmocka_unit_test(page_write__again__gives_the_same_bytes),
        cmocka_unit_test(page_write__a_small_plan__is_the_golden_page),
        cmocka_unit_test(page_write__no_such_folder__reports_io),
        cmocka_unit_test(page_write__all_of_these__pass_the_check),
        cmocka_unit_test(page_write__no_memory__says_so_fault),
    };
    int failure_count = cmocka_run_group_tests(tests, group_begin, group_end);
    return failure_count ? 1 : 0;
}
