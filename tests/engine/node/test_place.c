/* Places of nodes, from flags: what is taken, and what is refused in which words. */
#include "tests/io/io_test.h"

#include "engine/node/place.h"

static void place_parse__list__is_in_order_of_ranks(void **state)
{
    (void)state;
    struct node_place p = {.listen_fd = -1};
    char text[ADDRESS_TEXT_BYTES];
    assert_ok(place_parse(&p, "10.0.0.1:5000,[fd00::2]:5001,10.0.0.3", NULL, 1));
    assert_int_equal(p.count, 3);
    assert_int_equal(p.rank, 1);
    assert_string_equal(address_text(text, &p.address[0]), "10.0.0.1:5000");
    assert_string_equal(address_text(text, &p.address[1]), "[fd00::2]:5001");
    assert_string_equal(address_text(text, &p.address[2]), "10.0.0.3:4711");
    assert_ok(place_parse(&p, "10.0.0.1", NULL, 0)); /* one node is a job, too */
    assert_int_equal(p.count, 1);
}

static void place_parse__what_is_wrong__is_refused(void **state)
{
    (void)state;
    struct node_place p;
    char many[65 * 16] = "";
    assert_fails(USAGE, "--rank: expected 0 to 1", place_parse(&p, "10.0.0.1,10.0.0.2", NULL, 2));
    assert_fails(USAGE, "found none", place_parse(&p, "10.0.0.1,10.0.0.2", NULL, PLACE_RANK_NONE));
    assert_fails(USAGE, "found \"\" as number 0", place_parse(&p, "", NULL, 0));
    assert_fails(USAGE, "found \"\" as number 1", place_parse(&p, "10.0.0.1,", NULL, 0));
    assert_fails(USAGE, "10.0.0.1:4711 is given twice", place_parse(&p, "10.0.0.1,10.0.0.1:4711", NULL, 0));
    assert_int_equal(place_parse(&p, "10.0.0.1:0x5", NULL, 0), ST_INVALID);
    for (int i = 0; i < 65; i++) snprintf(many + strlen(many), 16, "%s10.0.0.%d", i ? "," : "", i + 1);
    assert_fails(USAGE, "at most 64 nodes", place_parse(&p, many, NULL, 0));
}

static void place_parse__coordinator__others_are_anywhere(void **state)
{
    (void)state;
    struct node_place p = {.listen_fd = -1};
    char text[ADDRESS_TEXT_BYTES];
    assert_ok(place_parse(&p, "4", "10.0.0.1:5000", 2));
    assert_int_equal(p.count, 4);
    assert_string_equal(address_text(text, &p.address[0]), "10.0.0.1:5000");
    assert_string_equal(address_text(text, &p.address[2]), "0.0.0.0:0");
    assert_int_equal(p.address[1].any.sa_family, AF_UNSPEC);
    assert_ok(place_parse(&p, "2", "[fd00::1]:5000", 1));
    assert_string_equal(address_text(text, &p.address[1]), "[::]:0");
    assert_ok(place_parse(&p, "2", "10.0.0.1:5000", 0));
    assert_string_equal(address_text(text, &p.address[0]), "10.0.0.1:5000");
    assert_fails(USAGE, "give --coordinator", place_parse(&p, "4", NULL, 2));
    assert_fails(USAGE, "expected a number from 1 to 64", place_parse(&p, "65", "10.0.0.1", 2));
    assert_fails(USAGE, "expected 0 to 3, the number of this node in --nodes, found none",
                 place_parse(&p, "4", "10.0.0.1", PLACE_RANK_NONE));
    assert_fails(USAGE, "--coordinator goes with a number", place_parse(&p, "10.0.0.1,10.0.0.2", "10.0.0.1", 0));
}

static const char *const *environment; /* name, value, …, NULL */
static const char *value_of(const char *name)
{
    for (const char *const *e = environment; *e; e += 2)
        if (strcmp(e[0], name) == 0) return e[1];
    return NULL;
}

static status place_of(struct node_place *p, const char *coordinator, const char *const *variables)
{
    environment = variables;
    return place_from_environment(p, coordinator, value_of);
}

static void place_from_environment__launchers__give_rank_and_number(void **state)
{
    (void)state;
    struct node_place p;
    char text[ADDRESS_TEXT_BYTES];
    assert_ok(place_of(&p, NULL, (const char *const[]){"HOME", "/", NULL}));
    assert_int_equal(p.count, 0);
    static const char *const torchrun[] = {"RANK",     "1",           "WORLD_SIZE", "3", "MASTER_ADDR",
                                           "10.0.0.1", "MASTER_PORT", "29500",      NULL};
    assert_ok(place_of(&p, NULL, torchrun));
    assert_int_equal(p.count, 3);
    assert_int_equal(p.rank, 1);
    assert_string_equal(address_text(text, &p.address[0]), "10.0.0.1:29501");
    static const char *const mpi[] = {"OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "2", NULL};
    assert_ok(place_of(&p, "10.0.0.9:77", mpi));
    assert_string_equal(address_text(text, &p.address[0]), "10.0.0.9:77");
    assert_fails(USAGE, "nothing says where node 0 is", place_of(&p, NULL, mpi));
    static const char *const mpich[] = {"PMI_RANK", "2", "PMI_SIZE", "3", "MASTER_ADDR", "fd00::1", NULL};
    assert_ok(place_of(&p, NULL, mpich));
    assert_int_equal(p.rank, 2);
    assert_string_equal(address_text(text, &p.address[0]), "[fd00::1]:4711");
    static const char *const kubernetes[] = {"JOB_COMPLETION_INDEX", "1",        "WORLD_SIZE", "4",
                                             "MASTER_ADDR",          "10.0.0.3", NULL};
    assert_ok(place_of(&p, NULL, kubernetes));
    assert_int_equal(p.count, 4);
    assert_int_equal(p.rank, 1);
    static const char *const stateful[] = {"POD_INDEX",   "2",        "WORLD_SIZE",  "3",    "HOSTNAME", "heterps-2",
                                           "MASTER_ADDR", "10.0.0.4", "MASTER_PORT", "5000", NULL};
    assert_ok(place_of(&p, NULL, stateful));
    assert_int_equal(p.count, 3);
    assert_int_equal(p.rank, 2);
    assert_string_equal(address_text(text, &p.address[0]), "10.0.0.4:5001");
    assert_fails(USAGE, "WORLD_SIZE is not in the environment, where POD_INDEX is",
                 place_of(&p, NULL, (const char *const[]){"POD_INDEX", "1", NULL}));
    assert_fails(USAGE, "WORLD_SIZE is not in the environment",
                 place_of(&p, NULL, (const char *const[]){"RANK", "1", NULL}));
    assert_fails(USAGE, "RANK: expected a number, found \"x\"",
                 place_of(&p, NULL, (const char *const[]){"RANK", "x", "WORLD_SIZE", "2", NULL}));
    assert_fails(USAGE, "MASTER_PORT: expected a port",
                 place_of(&p, NULL,
                          (const char *const[]){"RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "10.0.0.1",
                                                "MASTER_PORT", "65535", NULL}));
}

/* samples/nodes.yaml: of its job and of its set the variables that it gives to the pods, with the index that
 * the cluster gives, say how many nodes there are, and which this is. Where the first pod is, its own
 * variables do not say alone: its name has to be that of its set, with the service that is there for it. */
struct manifest {
    char size[8], coordinator[64], name[64], service[64], copies[8]; /* of its kind, and of what it starts */
    bool has_index;
};

static void manifest_line(struct manifest *m, const char *line, const char *kind, char variable[64])
{
    char word[64];
    const bool is_job = strcmp(kind, "Job") == 0;
    if (sscanf(line, "  name: %63s", word) == 1 && m->name[0] == 0) strcpy(m->name, word);
    if (sscanf(line, is_job ? "      subdomain: %63s" : "  serviceName: %63s", word) == 1) strcpy(m->service, word);
    if (sscanf(line, is_job ? "  completions: %7s" : "  replicas: %7s", word) == 1) strcpy(m->copies, word);
    if (sscanf(line, " - name: %63s", word) == 1) strcpy(variable, word);
    if (strcmp(variable, "POD_INDEX") == 0) m->has_index = true;
    if (strcmp(variable, "WORLD_SIZE") == 0) (void)sscanf(line, " value: \"%7[0-9]\"", m->size);
    if (strcmp(variable, "MASTER_ADDR") == 0) (void)sscanf(line, " value: %63s", m->coordinator);
}

static void manifest_read(struct manifest *m, const char *kind)
{
    FILE *file = fopen("samples/nodes.yaml", "r");
    char line[256], found[64] = "", variable[64] = "";
    assert_non_null(file);
    *m = (struct manifest){.size = ""};
    while (fgets(line, sizeof line, file)) {
        if (strcmp(line, "---\n") == 0) found[0] = 0;
        (void)sscanf(line, "kind: %63s", found);
        if (strcmp(found, kind) == 0) manifest_line(m, line, kind, variable);
    }
    fclose(file);
}

static void place_from_environment__the_sample_of_kubernetes__gives_rank_and_number(void **state)
{
    (void)state;
    static const char *const kinds[] = {"Job", "StatefulSet"}, *const indices[] = {"JOB_COMPLETION_INDEX", "POD_INDEX"};
    for (int i = 0; i < 2; i++) {
        struct manifest m;
        struct node_place p;
        char first[160];
        manifest_read(&m, kinds[i]);
        assert_int_equal(m.has_index, i == 1); /* a job's controller gives its own */
        assert_string_equal(m.size, m.copies);
        snprintf(first, sizeof first, "%s-0.%s", m.name, m.service);
        assert_string_equal(m.coordinator, first);
        const char *const of_first[] = {indices[i], "0", "WORLD_SIZE", m.size, "MASTER_ADDR", m.coordinator, NULL};
        assert_ok(place_of(&p, NULL, of_first));
        assert_int_equal(p.count, atoi(m.copies));
        assert_int_equal(p.rank, 0);
        const char *const of_last[] = {indices[i], "3", "WORLD_SIZE", m.size, "MASTER_ADDR", "10.0.0.3", NULL};
        assert_ok(place_of(&p, NULL, of_last));
        assert_int_equal(p.rank, 3);
    }
}

/* Slurm's list of hosts, of which the first counts; outside of a step its other variables say nothing. */
static void place_from_environment__slurm__node_0_is_on_the_first_host(void **state)
{
    (void)state;
    static const struct {
        const char *hosts, *first;
    } cases[] = {{"10.0.0.[7,9-12],10.0.1.1", "10.0.0.7:4711"},
                 {"10.0.0.[1,3-5]", "10.0.0.1:4711"},
                 {"10.0.0.[21-22]", "10.0.0.21:4711"},
                 {"10.0.[2-3].1[0-4]", "10.0.2.10:4711"},
                 {"10.0.0.5", "10.0.0.5:4711"},
                 {"10.0.0.5,10.0.0.[1-3]", "10.0.0.5:4711"}};
    struct node_place p;
    char text[ADDRESS_TEXT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const step[] = {"SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "5", "SLURM_STEP_NODELIST",
                                    cases[i].hosts, NULL};
        assert_ok(place_of(&p, NULL, step));
        assert_int_equal(p.count, 5);
        assert_int_equal(p.rank, 3);
        assert_string_equal(address_text(text, &p.address[0]), cases[i].first);
    }
    /* Slurm's pmi2 sets what MPICH does, too. */
    static const char *const pmi[] = {"PMI_RANK",     "1", "PMI_SIZE", "2", "SLURM_STEP_NODELIST", "10.0.0.[7-8]",
                                      "SLURM_PROCID", "1", NULL};
    assert_ok(place_of(&p, NULL, pmi));
    assert_int_equal(p.count, 2);
    assert_string_equal(address_text(text, &p.address[0]), "10.0.0.7:4711");
    static const char *const script[] = {"SLURM_PROCID", "0", "SLURM_NTASKS", "5", "SLURM_JOB_NODELIST",
                                         "n[1-5]",       NULL};
    assert_ok(place_of(&p, NULL, script));
    assert_int_equal(p.count, 0);
    static const char *const wrong[][2] = {{"n[1-3", "whose [ has no ]"}, {"", "expected names of hosts, found \"\""}};
    for (size_t i = 0; i < 2; i++) {
        const char *const step[] = {"SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "5", "SLURM_STEP_NODELIST",
                                    wrong[i][0],    NULL};
        assert_fails(USAGE, wrong[i][1], place_of(&p, NULL, step));
    }
}

static void place_from_environment__what_is_wrong__names_the_variable(void **state)
{
    (void)state;
    static const struct {
        const char *variables[9], *words;
    } cases[] = {
        {{"RANK", "0", "WORLD_SIZE", "65", "MASTER_ADDR", "10.0.0.1"}, "WORLD_SIZE: expected 1 to 64 nodes, found 65"},
        {{"RANK", "3", "WORLD_SIZE", "2", "MASTER_ADDR", "10.0.0.1"},
         "RANK: expected 0 to 1, as WORLD_SIZE is 2, found 3"},
        {{"JOB_COMPLETION_INDEX", "3"}, "WORLD_SIZE is not in the environment, where JOB_COMPLETION_INDEX is"},
        {{"RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "10.0.0.1:29500"},
         "MASTER_ADDR: expected an address or a name without a port"},
    };
    struct node_place p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(USAGE, cases[i].words, place_of(&p, NULL, cases[i].variables));
}

/* Whose name is not known on its own machine: it is there, at all addresses. */
static void place_from_environment__the_first__needs_no_name(void **state)
{
    (void)state;
    struct node_place p;
    char text[ADDRESS_TEXT_BYTES];
    assert_ok(place_of(&p, NULL,
                       (const char *const[]){"RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "nobody.invalid",
                                             "MASTER_PORT", "6000", NULL}));
    assert_string_equal(address_text(text, &p.address[0]), "0.0.0.0:6001");
    assert_ok(place_of(&p, "localhost:5000", (const char *const[]){"RANK", "0", "WORLD_SIZE", "2", NULL}));
    assert_string_equal(address_text(text, &p.address[0]), "127.0.0.1:5000");
    assert_ok(place_of(&p, "127.0.1.1:5000", (const char *const[]){"RANK", "0", "WORLD_SIZE", "2", NULL}));
    assert_string_equal(address_text(text, &p.address[0]), "127.0.1.1:5000"); /* in numbers it is meant so */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_parse__list__is_in_order_of_ranks),
        cmocka_unit_test(place_parse__what_is_wrong__is_refused),
        cmocka_unit_test(place_parse__coordinator__others_are_anywhere),
        cmocka_unit_test(place_from_environment__launchers__give_rank_and_number),
        cmocka_unit_test(place_from_environment__the_sample_of_kubernetes__gives_rank_and_number),
        cmocka_unit_test(place_from_environment__slurm__node_0_is_on_the_first_host),
        cmocka_unit_test(place_from_environment__what_is_wrong__names_the_variable),
        cmocka_unit_test(place_from_environment__the_first__needs_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
