/* Mapping, and the writer's promise: the old file or the new one, and nothing beside it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/file.h"
#include "tests/fault_alloc.h"
#include "tests/power_cut.h"

static char directory[64];
static char path_buffer[4][512];

/* A path in the test's directory; four at a time. */
static const char *path_of(const char *name)
{
    static int next;
    char *path = path_buffer[next++ % 4];
    snprintf(path, sizeof path_buffer[0], "%s/%s", directory, name);
    return path;
}

static int directory_make(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/test_file.XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static size_t names_count(bool is_removing)
{
    DIR *names = opendir(directory);
    size_t count = 0;
    for (struct dirent *entry; names && (entry = readdir(names));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        count++;
        if (is_removing) remove(path_of(entry->d_name));
    }
    if (names) closedir(names);
    return count;
}

static int directory_remove(void **state)
{
    (void)state;
    names_count(true);
    return rmdir(directory);
}

static void file_put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void assert_file_is(const char *path, const void *data, size_t bytes)
{
    struct file_map map;
    assert_int_equal(file_map_open(&map, path), ST_OK);
    assert_int_equal(map.bytes, bytes);
    assert_memory_equal(map.data, data, bytes);
    file_map_close(&map);
}

static void file_map__file__its_bytes(void **state)
{
    (void)state;
    file_put(path_of("a"), "hello");
    assert_file_is(path_of("a"), "hello", 5);
}

/* The file is read by a descriptor when its name has gone, and the mapping, too. */
static void file_map_descriptor__name_has_gone__reads_the_file(void **state)
{
    (void)state;
    struct file_map map;
    char text[8] = "";
    int fd;
    file_put(path_of("a"), "hello");
    assert_int_equal(file_map_open(&map, path_of("a")), ST_OK);
    assert_int_equal(unlink(path_of("a")), 0);
    assert_int_equal(file_map_descriptor(&map, "a", &fd), ST_OK);
    file_map_close(&map);
    assert_int_equal(pread(fd, text, sizeof text, 1), 4);
    assert_string_equal(text, "ello");
    close(fd);
    file_put(path_of("a"), "");
    assert_int_equal(file_map_open(&map, path_of("a")), ST_OK);
    assert_int_equal(file_map_descriptor(&map, "a", &fd), ST_IO);
    file_map_close(&map);
}

static void file_map__empty__not_null(void **state)
{
    (void)state;
    file_put(path_of("a"), "");
    struct file_map map;
    assert_int_equal(file_map_open(&map, path_of("a")), ST_OK);
    assert_non_null(map.data);
    assert_int_equal(map.bytes, 0);
    file_map_close(&map);
    assert_null(map.data);
}

static void file_map__not_a_file__io_with_path_and_reason(void **state)
{
    (void)state;
    struct file_map map;
    assert_int_equal(file_map_open(&map, path_of("absent")), ST_IO);
    assert_non_null(strstr(status_message(), path_of("absent")));
    assert_non_null(strstr(status_message(), "No such file"));
    assert_int_equal(file_map_open(&map, directory), ST_IO);
    assert_non_null(strstr(status_message(), "found a directory"));
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_int_equal(file_map_open(&map, path_of("pipe")), ST_IO);
    assert_non_null(strstr(status_message(), "found a pipe"));
    assert_int_equal(file_map_open(&map, "/dev/null"), ST_IO);
    assert_non_null(strstr(status_message(), "found a device"));
    assert_null(map.data);
    file_map_close(&map);
}

/* --- what goes wrong while a file is read ----------------------------------------------------- */

#define PAGES_BYTES ((size_t)3 * 4096)

static const char *pages_put(const char *name)
{
    static char bytes[PAGES_BYTES + 1];
    memset(bytes, 'x', PAGES_BYTES);
    const char *path = path_of(name);
    file_put(path, bytes);
    return path;
}

static void file_map_read__file__its_bytes(void **state)
{
    (void)state;
    struct file_map map;
    file_put(path_of("a"), "hello");
    assert_int_equal(file_map_read(&map, path_of("a")), ST_OK);
    assert_int_equal(truncate(path_of("a"), 2), 0);
    assert_int_equal(map.bytes, 5);
    assert_memory_equal(map.data, "hello", 5);
    assert_int_equal(file_map_check(&map, path_of("a")), ST_OK); /* what has been read is there */
    file_map_close(&map);
    file_put(path_of("a"), "");
    assert_int_equal(file_map_read(&map, path_of("a")), ST_OK);
    assert_non_null(map.data);
    file_map_close(&map);
    assert_int_equal(file_map_read(&map, directory), ST_IO);
    assert_int_equal(file_map_read(&map, path_of("absent")), ST_IO);
}

static void file_map__cut_by_another__zeros_and_a_sentence(void **state)
{
    (void)state;
    struct file_map map, other;
    const char *path = pages_put("a");
    assert_int_equal(file_map_open(&other, pages_put("b")), ST_OK);
    for (int time = 0; time < 2; time++) { /* the second has the first one's guard */
        assert_int_equal(file_map_open(&map, pages_put("a")), ST_OK);
        assert_int_equal(map.data[0], 'x');
        assert_int_equal(file_map_check(&map, path), ST_OK);
        assert_int_equal(truncate(path, 4096), 0);
        errno = 7;
        assert_int_equal(((const volatile uint8_t *)map.data)[2 * 4096 + 5], 0);
        assert_int_equal(errno, 7);
        assert_int_equal(((const volatile uint8_t *)map.data)[4096], 0);
        assert_int_equal(map.data[4095], 'x');
        assert_int_equal(file_map_check(&map, path), ST_IO);
        assert_non_null(
            strstr(status_message(), "a: byte 4096 cannot be read: the file had 12288 bytes, and has been cut"));
        assert_int_equal(truncate(path, PAGES_BYTES), 0); /* as large as before, and yet not what it was */
        file_map_forget(&map);
        assert_int_equal(file_map_check(&map, path), ST_IO);
        assert_non_null(strstr(status_message(), "a: byte 4096 cannot be read: it could not a moment ago"));
        file_map_close(&map);
    }
    assert_int_equal(file_map_check(&other, path_of("b")), ST_OK);
    file_map_close(&other);
}

static void file_map__cut_within_a_page__a_sentence(void **state)
{
    (void)state;
    struct file_map map;
    file_put(path_of("a"), "hello");
    assert_int_equal(file_map_open(&map, path_of("a")), ST_OK);
    assert_int_equal(truncate(path_of("a"), 2), 0);
    assert_int_equal(file_map_check(&map, path_of("a")), ST_IO);
    assert_non_null(strstr(status_message(), "byte 2 cannot be read: the file had 5 bytes"));
    file_map_close(&map);
}

static void file_map__signal_of_another_mapping__ends_the_program(void **state)
{
    (void)state;
    struct file_map map;
    assert_int_equal(file_map_open(&map, pages_put("a")), ST_OK);
    int child_status, child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = open(pages_put("b"), O_RDWR);
        volatile uint8_t *bytes = mmap(NULL, PAGES_BYTES, PROT_READ, MAP_SHARED, fd, 0);
        if (ftruncate(fd, 0) == 0) (void)bytes[5000];
        _exit(0);
    }
    assert_int_equal(waitpid(child, &child_status, 0), child);
    assert_true(WIFSIGNALED(child_status) && WTERMSIG(child_status) == SIGBUS);
    file_map_close(&map);
}

/* What the writer's writes meet: of each `write_fault`, if it is not 0, one is broken off by a
 * signal, and the next one ends early. */
static unsigned write_fault, write_count;
ssize_t write(int fd, const void *data, size_t bytes)
{
    if (write_fault == 0) return syscall(SYS_write, fd, data, bytes);
    if (++write_count % write_fault == 0) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_write, fd, data, write_count % write_fault == 1 && bytes > 7 ? bytes / 3 : bytes);
}

static void pieces_write(void)
{
    const size_t bytes = 3u << 20;
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)((i * 2654435761u) >> 13);
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, path_of("a")), ST_OK);
    size_t done = 0;
    for (size_t piece = 0; done < bytes; piece = piece * 3 / 2 + 1) {
        if (piece > bytes - done) piece = bytes - done;
        assert_int_equal(file_writer_put(&writer, data + done, piece), ST_OK);
        done += piece;
        assert_int_equal(writer.written_bytes, done);
    }
    assert_int_equal(access(path_of("a"), F_OK), -1);
    assert_true(file_writer_hash(&writer) == XXH3_64bits(data, bytes));
    assert_int_equal(file_writer_commit(&writer), ST_OK);
    assert_file_is(path_of("a"), data, bytes);
    assert_int_equal(names_count(false), 1);
    free(data);
}

static void file_writer__pieces_of_all_sizes__whole_file_and_hash(void **state)
{
    (void)state;
    pieces_write();
}

static void file_writer__few_bytes__all_of_them(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes <= 3; bytes++) {
        struct file_writer writer;
        assert_int_equal(file_writer_open(&writer, path_of("few")), ST_OK);
        assert_int_equal(file_writer_put(&writer, "abc", bytes), ST_OK);
        assert_int_equal(file_writer_commit(&writer), ST_OK);
        assert_file_is(path_of("few"), "abc", bytes);
    }
}

static void file_writer__signals_and_short_writes__the_same_fault(void **state)
{
    (void)state;
    for (unsigned fault = 2; fault < 5; fault++) {
        write_count = 0;
        write_fault = fault;
        pieces_write();
        write_fault = 0;
        assert_int_equal(unlink(path_of("a")), 0);
        assert_true(write_count > fault);
    }
}

static void file_writer__until_commit__target_is_untouched(void **state)
{
    (void)state;
    file_put(path_of("a"), "old");
    chmod(path_of("a"), 0640);
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, path_of("a")), ST_OK);
    char temporary[600];
    snprintf(temporary, sizeof temporary, "%s.tmp.%ld", path_of("a"), (long)getpid());
    assert_int_equal(access(temporary, F_OK), 0);
    assert_int_equal(file_writer_put(&writer, "new", 3), ST_OK);
    assert_file_is(path_of("a"), "old", 3);
    assert_int_equal(file_writer_commit(&writer), ST_OK);
    assert_file_is(path_of("a"), "new", 3);
    struct stat stat_of_a;
    assert_int_equal(stat(path_of("a"), &stat_of_a), 0);
    assert_int_equal(stat_of_a.st_mode & 0777, 0640);
    assert_int_equal(names_count(false), 1);
}

static void file_writer__abort__leaves_nothing(void **state)
{
    (void)state;
    struct file_writer writer = {0};
    file_writer_abort(&writer);
    assert_int_equal(fcntl(0, F_GETFD) >= 0, 1); /* descriptor 0 is not the writer's to close */
    assert_int_equal(file_writer_open(&writer, path_of("a")), ST_OK);
    assert_int_equal(file_writer_put(&writer, "new", 3), ST_OK);
    file_writer_abort(&writer);
    file_writer_abort(&writer);
    assert_int_equal(names_count(false), 0);
}

static void file_writer__stale_temporary__is_replaced(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "a.tmp.%ld", (long)getpid());
    file_put(path_of(name), "left by a process that was killed");
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, path_of("a")), ST_OK);
    assert_int_equal(file_writer_put(&writer, "new", 3), ST_OK);
    assert_int_equal(file_writer_commit(&writer), ST_OK);
    assert_file_is(path_of("a"), "new", 3);
    assert_int_equal(names_count(false), 1);
}

/* A file's bytes are on the disk before it has the name; the name is there when the call returns. */
static void file_write__power_cut__old_or_new(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        char text[8];
        snprintf(text, sizeof text, "text %d", i);
        if (i == 0) power_begin(directory);
        assert_int_equal(file_write(path_of("a"), text, 6), ST_OK);
        assert_string_equal(power_end(directory), "");
        assert_file_is(path_of("a"), text, 6);
    }
}

/* Several, with one fsync of the directory for all their names. */
static void file_writers_commit__power_cut__all_last_when_it_returns(void **state)
{
    (void)state;
    struct file_writer writers[3];
    power_begin(directory);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(file_writer_open(&writers[i], path_of(i == 0 ? "a" : i == 1 ? "b" : "c")), ST_OK);
        assert_int_equal(file_writer_put(&writers[i], "new", 3), ST_OK);
    }
    assert_int_equal(file_writers_commit(writers, 3), ST_OK);
    assert_string_equal(power_end(directory), "");
    assert_int_equal(power.file_syncs, 3);
    assert_int_equal(power.directory_syncs, 1);
}

static void file_writer__link__replaces_what_it_points_to(void **state)
{
    (void)state;
    file_put(path_of("a"), "old");
    assert_int_equal(symlink("a", path_of("link")), 0);
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, path_of("link")), ST_OK);
    assert_int_equal(file_writer_put(&writer, "new", 3), ST_OK);
    assert_int_equal(file_writer_commit(&writer), ST_OK);
    struct stat stat_of_link;
    assert_int_equal(lstat(path_of("link"), &stat_of_link), 0);
    assert_true(S_ISLNK(stat_of_link.st_mode));
    assert_file_is(path_of("a"), "new", 3);
}

static void file_writer__pipe_and_device__written_straight_through(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    int reader = open(path_of("pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, path_of("pipe")), ST_OK);
    assert_int_equal(file_writer_put(&writer, "hello", 5), ST_OK);
    assert_int_equal(file_writer_commit(&writer), ST_OK);
    char text[8];
    assert_int_equal(read(reader, text, sizeof text), 5);
    close(reader);
    struct stat stat_of_pipe;
    assert_int_equal(stat(path_of("pipe"), &stat_of_pipe), 0);
    assert_true(S_ISFIFO(stat_of_pipe.st_mode));
    assert_int_equal(names_count(false), 1);

    assert_int_equal(file_writer_open(&writer, "/dev/null"), ST_OK);
    assert_int_equal(file_writer_put(&writer, "hello", 5), ST_OK);
    assert_int_equal(file_writer_commit(&writer), ST_OK);
}

static void file_writer__standard_output_in_a_file__not_renamed_over(void **state)
{
    (void)state;
    file_put(path_of("out"), "");
    int fd = open(path_of("out"), O_WRONLY);
    char name[32];
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, name), ST_OK);
    assert_int_equal(file_writer_put(&writer, "hello", 5), ST_OK);
    assert_int_equal(file_writer_commit(&writer), ST_OK);
    struct stat behind, named;
    assert_int_equal(fstat(fd, &behind), 0);
    assert_int_equal(stat(path_of("out"), &named), 0);
    assert_true(behind.st_ino == named.st_ino);
    assert_file_is(path_of("out"), "hello", 5);
    close(fd);
}

/* The program's own output, under both of its names; what it was is put back. */
static void file_writer__standard_output__gets_the_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"-", "/dev/stdout"};
    for (size_t i = 0; i < 2; i++) {
        struct file_writer writer;
        fflush(stdout);
        const int kept = dup(STDOUT_FILENO), fd = open(path_of("out"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_true(kept >= 0 && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
        close(fd);
        status st = file_writer_open(&writer, names[i]);
        if (st == ST_OK) st = file_writer_put(&writer, "hello", 5);
        if (st == ST_OK) st = file_writer_commit(&writer);
        assert_true(write(STDOUT_FILENO, " you", 4) == 4); /* it is still open */
        dup2(kept, STDOUT_FILENO);
        close(kept);
        assert_int_equal(st, ST_OK);
        assert_file_is(path_of("out"), "hello you", 9);
    }
}

static void file_writer_open__no_memory_fault__says_so_and_leaves_nothing(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    const char *const names[] = {path_of("a"), "-"};
    for (size_t i = 0; i < 2; i++)
        for (int64_t n = 0; n < 3; n++) { /* the path, the buffer and the hash */
            struct file_writer writer;
            fault_alloc_set(n);
            const status st = file_writer_open(&writer, names[i]);
            assert_true(fault_alloc_end());
            assert_int_equal(st, ST_MEMORY);
            file_writer_abort(&writer);
            assert_int_equal(names_count(false), 0);
        }
}

static void file_writer__cannot_open__io_and_nothing_left(void **state)
{
    (void)state;
    struct file_writer writer;
    assert_int_equal(file_writer_open(&writer, path_of("absent/a")), ST_IO);
    assert_non_null(strstr(status_message(), path_of("absent/a")));
    file_writer_abort(&writer);
    assert_int_equal(file_writer_open(&writer, directory), ST_IO);
    assert_non_null(strstr(status_message(), "found a directory"));
    file_writer_abort(&writer);
    assert_int_equal(names_count(false), 0);
}

/* The device is full in the middle of a large piece, or on a flush: old file, no temporary. */
static void file_writer__no_room_fault__io_with_byte_and_old_file(void **state)
{
    (void)state;
    file_put(path_of("a"), "old");
    static uint8_t data[1 << 20];
    struct rlimit limit, small = {.rlim_cur = 300000, .rlim_max = RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &limit);
    small.rlim_max = limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    for (int is_large = 0; is_large < 2; is_large++) {
        struct file_writer writer;
        assert_int_equal(file_writer_open(&writer, path_of("a")), ST_OK);
        setrlimit(RLIMIT_FSIZE, &small);
        status st = ST_OK;
        if (is_large) st = file_writer_put(&writer, data, sizeof data);
        for (int i = 0; !is_large && st == ST_OK && i < 1000; i++) st = file_writer_put(&writer, data, 1000);
        char message[1024];
        snprintf(message, sizeof message, "%s", status_message());
        setrlimit(RLIMIT_FSIZE, &limit);
        assert_int_equal(st, ST_IO);
        char expected[600];
        snprintf(expected, sizeof expected, "%s at byte 300000: File too large", path_of("a"));
        assert_string_equal(message, expected);
        file_writer_abort(&writer);
        assert_file_is(path_of("a"), "old", 3);
        assert_int_equal(names_count(false), 1);
    }
}

/* Killed at any moment: the old file or the new, whole. */
static void file_writer__killed_crash__old_or_new(void **state)
{
    (void)state;
    static uint8_t old_bytes[100000], new_bytes[100000];
    memset(old_bytes, 'o', sizeof old_bytes);
    memset(new_bytes, 'n', sizeof new_bytes);
    for (int i = 0; i < 30; i++) {
        const char *path = path_of("a");
        struct file_writer writer;
        assert_int_equal(file_writer_open(&writer, path), ST_OK);
        assert_int_equal(file_writer_put(&writer, old_bytes, sizeof old_bytes), ST_OK);
        assert_int_equal(file_writer_commit(&writer), ST_OK);
        pid_t child = fork();
        if (child == 0) {
            if (file_writer_open(&writer, path) != ST_OK) _exit(1);
            for (size_t at = 0; at < sizeof new_bytes; at += 100)
                if (file_writer_put(&writer, new_bytes + at, 100) != ST_OK) _exit(1);
            _exit(file_writer_commit(&writer) != ST_OK);
        }
        usleep((useconds_t)(i * 50));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        struct file_map map;
        assert_int_equal(file_map_open(&map, path), ST_OK);
        assert_int_equal(map.bytes, sizeof new_bytes);
        assert_true(memcmp(map.data, old_bytes, map.bytes) == 0 || memcmp(map.data, new_bytes, map.bytes) == 0);
        file_map_close(&map);
    }
}

static void file_directory_make__absent_present_or_in_the_way__made_kept_refused(void **state)
{
    (void)state;
    power_begin(directory);
    assert_int_equal(file_directory_make(path_of("d")), ST_OK);
    assert_int_equal(power.directory_syncs, 1); /* or a power cut would take it, with all that is in it by then */
    assert_int_equal(file_directory_make(path_of("d")), ST_OK);
    assert_int_equal(file_directory_make(path_of("no/d")), ST_IO);
    assert_non_null(strstr(status_message(), path_of("no/d")));
    file_put(path_of("a"), "");
    assert_int_equal(file_directory_make(path_of("a")), ST_IO);
    assert_non_null(strstr(status_message(), "found a regular file"));
}

static void file_path_join__with_and_without_slash__one_slash(void **state)
{
    (void)state;
    static const char *const known[][3] = {{"d", "n", "d/n"}, {"d/", "n", "d/n"}, {"/", "n", "/n"}, {"", "n", "n"}};
    for (size_t i = 0; i < 4; i++) {
        char path[FILE_PATH_BYTES];
        assert_ptr_equal(file_path_join(path, known[i][0], known[i][1]), path);
        assert_string_equal(path, known[i][2]);
    }
}

/* What is cut must not name another file: here the directory itself is there,
 * and so is every beginning of the path. */
static void file_path_join__longer_than_a_path__is_refused(void **state)
{
    (void)state;
    static char dots[PATH_MAX];
    char path[FILE_PATH_BYTES];
    memset(dots, '/', sizeof dots - 1);
    assert_int_equal(access(dots, F_OK), 0);
    file_path_join(path, dots, "//////tmp");
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, directory_make, directory_remove)

/* --- what killed writers leave ---------------------------------------------------------------- */

static bool is_there(const char *name) { return access(path_of(name), F_OK) == 0; }

static void file_writer__left_by_killed_ones__removed_and_nothing_else(void **state)
{
    (void)state;
    char dead[64], waiting[64], locked[64], alive[64];
    int dead_pid = fork();
    if (dead_pid == 0) _exit(0);
    assert_int_equal(waitpid(dead_pid, NULL, 0), dead_pid);
    int waiting_pid = fork(); /* ended, and not waited for */
    if (waiting_pid == 0) _exit(0);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)waiting_pid, &ended, WEXITED | WNOWAIT), 0);
    snprintf(waiting, sizeof waiting, "a.tmp.%d", waiting_pid);
    file_put(path_of(waiting), "left");
    int locked_pid = fork();
    if (locked_pid == 0) _exit(0);
    assert_int_equal(waitpid(locked_pid, NULL, 0), locked_pid);
    snprintf(dead, sizeof dead, "a.tmp.%d", dead_pid);
    snprintf(locked, sizeof locked, "a.tmp.%d", locked_pid);
    snprintf(alive, sizeof alive, "a.tmp.%d", (int)getppid());
    const char *const stay[] = {locked, alive, "a.tmp.", "a.tmp.12x", "a.tmp.-5", "ab.tmp.99999999", "a.tmp.1.bak"};
    file_put(path_of(dead), "left");
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) file_put(path_of(stay[i]), "not ours");
    assert_int_equal(mkdir(path_of("a.tmp.99999998"), 0700), 0);
    assert_int_equal(symlink("ab.tmp.99999999", path_of("a.tmp.99999997")), 0);
    int fd = open(path_of(locked), O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(file_write(path_of("a"), "new", 3), ST_OK);
    assert_false(is_there(dead) || is_there(waiting));
    assert_int_equal(waitpid(waiting_pid, NULL, 0), waiting_pid);
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) assert_true(is_there(stay[i]));
    assert_true(is_there("a.tmp.99999998") && is_there("a.tmp.99999997"));
    close(fd);
}

static void file_writers_commit__several__none_has_its_name_before(void **state)
{
    (void)state;
    struct file_writer writers[2];
    file_put(path_of("b"), "old");
    assert_int_equal(file_writer_open(&writers[0], path_of("a")), ST_OK);
    assert_int_equal(file_writer_put(&writers[0], "one", 3), ST_OK);
    assert_int_equal(file_writer_finish(&writers[0]), ST_OK);
    assert_false(is_there("a"));
    assert_int_equal(file_writer_open(&writers[1], path_of("b")), ST_OK);
    assert_int_equal(file_writer_put(&writers[1], "two", 3), ST_OK);
    assert_file_is(path_of("b"), "old", 3);
    assert_int_equal(file_writers_commit(writers, 2), ST_OK);
    assert_file_is(path_of("a"), "one", 3);
    assert_file_is(path_of("b"), "two", 3);
    assert_int_equal(names_count(false), 2);
    assert_int_equal(file_writer_open(&writers[0], path_of("a")), ST_OK);
    assert_int_equal(file_writer_finish(&writers[0]), ST_OK);
    file_writer_abort(&writers[0]);
    assert_file_is(path_of("a"), "one", 3);
    assert_int_equal(names_count(false), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(file_map__file__its_bytes),
        TEST(file_map_descriptor__name_has_gone__reads_the_file),
        TEST(file_map__empty__not_null),
        TEST(file_map__not_a_file__io_with_path_and_reason),
        TEST(file_map_read__file__its_bytes),
        TEST(file_map__cut_by_another__zeros_and_a_sentence),
        TEST(file_map__cut_within_a_page__a_sentence),
        TEST(file_map__signal_of_another_mapping__ends_the_program),
        TEST(file_writer__left_by_killed_ones__removed_and_nothing_else),
        TEST(file_writers_commit__several__none_has_its_name_before),
        TEST(file_writer__pieces_of_all_sizes__whole_file_and_hash),
        TEST(file_writer__few_bytes__all_of_them),
        TEST(file_writer__signals_and_short_writes__the_same_fault),
        TEST(file_writer__until_commit__target_is_untouched),
        TEST(file_writer__abort__leaves_nothing),
        TEST(file_writer__stale_temporary__is_replaced),
        TEST(file_write__power_cut__old_or_new),
        TEST(file_writers_commit__power_cut__all_last_when_it_returns),
        TEST(file_writer__link__replaces_what_it_points_to),
        TEST(file_writer__pipe_and_device__written_straight_through),
        TEST(file_writer__standard_output_in_a_file__not_renamed_over),
        TEST(file_writer__standard_output__gets_the_bytes),
        TEST(file_writer_open__no_memory_fault__says_so_and_leaves_nothing),
        TEST(file_writer__cannot_open__io_and_nothing_left),
        TEST(file_writer__no_room_fault__io_with_byte_and_old_file),
        TEST(file_writer__killed_crash__old_or_new),
        TEST(file_directory_make__absent_present_or_in_the_way__made_kept_refused),
        TEST(file_path_join__with_and_without_slash__one_slash),
        TEST(file_path_join__longer_than_a_path__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
