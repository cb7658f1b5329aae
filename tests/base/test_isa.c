/* Which instruction set is chosen by name, and without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/isa.h"

static void isa_find__names__give_their_set_whether_it_runs_or_not(void **state)
{
    (void)state;
    for (int i = 0; i < ISA_COUNT; i++) {
        enum isa isa;
        assert_true(isa_find(isa_names[i], &isa));
        assert_int_equal(isa, i);
    }
    assert_null(isa_names[ISA_COUNT]);
}

static void isa_find__no_name__is_the_last_that_runs(void **state)
{
    (void)state;
    enum isa isa;
    assert_true(isa_find(NULL, &isa));
    assert_int_equal(isa, isa_best());
    assert_true(isa_runs_here(isa));
    for (int i = isa + 1; i < ISA_COUNT; i++) assert_false(isa_runs_here((enum isa)i));
}

static void isa_find__unknown_names__are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "mmx", "avx", "avx2 ", "AVX2", "avx512bf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        enum isa isa;
        enum isa_io isa_io = ISA_IO_avx2;
        assert_false(isa_find(names[i], &isa));
        assert_false(isa_io_find(names[i], &isa_io));
        assert_int_equal(isa_io, ISA_IO_base);
    }
}

static void isa_io_find__each_name__is_itself_or_base_where_it_does_not_run(void **state)
{
    (void)state;
    int best = ISA_IO_base;
    enum isa_io isa;
    for (int i = 0; i < ISA_IO_COUNT; i++) {
        bool runs = isa_io_runs_here((enum isa_io)i);
        assert_int_equal(isa_io_find(isa_io_names[i], &isa), runs);
        assert_int_equal(isa, runs ? i : ISA_IO_base);
        if (runs) best = i;
    }
    assert_true(isa_io_find(NULL, &isa));
    assert_int_equal(isa, best);
}

static void sets__one_that_runs__has_those_before_it(void **state)
{
    (void)state;
    for (int i = 1; i < ISA_COUNT; i++)
        if (isa_runs_here((enum isa)i)) assert_true(isa_runs_here((enum isa)(i - 1)));
    for (int i = 1; i < ISA_IO_COUNT; i++)
        if (isa_io_runs_here((enum isa_io)i)) assert_true(isa_io_runs_here((enum isa_io)(i - 1)));
}

/* From now on the system refuses what tiles are asked for by. */
static bool arch_prctl_refuse(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void isa_best__tiles_are_refused__is_the_next_best(void **state)
{
    (void)state;
    int result;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!arch_prctl_refuse()) _exit(77);
        if (syscall(SYS_arch_prctl, 0x1003 /* ARCH_GET_FS */, &(unsigned long){0}) == 0) _exit(2);
        _exit(isa_runs_here(ISA_amx) || isa_best() == ISA_amx || !isa_runs_here(isa_best()) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == 77) skip(); /* a sandbox that allows no filters */
    assert_int_equal(WEXITSTATUS(result), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(isa_find__names__give_their_set_whether_it_runs_or_not),
        cmocka_unit_test(isa_find__no_name__is_the_last_that_runs),
        cmocka_unit_test(isa_best__tiles_are_refused__is_the_next_best),
        cmocka_unit_test(isa_find__unknown_names__are_refused),
        cmocka_unit_test(isa_io_find__each_name__is_itself_or_base_where_it_does_not_run),
        cmocka_unit_test(sets__one_that_runs__has_those_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
