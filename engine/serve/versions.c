/* Versions of a model: the one that requests go to, one that takes its place, and older ones that still
 * answer.
 *
 *   DIR/manifest.json is another ─┐                                  ┌─▶ version: all requests from now on
 *   POST /version ────────────────┴─▶ a thread opens it ─HTTP thread─┴─▶ the one before answers what it has, and ends
 *
 * A version has a desk, threads and rows of its own, so no answer mixes two versions. A save that cannot be
 * opened is told in the log, and changes nothing. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/model/lean.h"
#include "engine/model/model_names.h"
#include "engine/serve/server.h"
#include "io/store/filed.h"

#define LOOK_US   250000
#define NEWEST    "newest"
#define SAVES_MAX 1000u

/* A manifest.json as seen last; each save makes it another file. */
struct seen {
    struct timespec time;
    ino_t inode;
    off_t bytes;
};

/* A version that is being opened. */
struct load {
    struct watch *watch;
    char *path;
    char tag[MODEL_TAG_BYTES];    /* the tag that the version must have; "": any */
    struct seen seen;             /* the manifest that it opens */
    struct evhttp_request *asker; /* or NULL */
    pthread_t thread;
    /* the thread's, until `fd` is readable */
    struct servant *servant;
    struct failure failure;
};

struct watch {
    struct served *model;
    char *directory; /* the model's directory; with is_file: the file of graph and model */
    bool is_file;
    struct seen seen;  /* the manifest that was opened, or could not be */
    bool is_held;      /* a client has asked for a version by name: new saves are not taken */
    struct load *load; /* or NULL */
    int fd;            /* readable when `load` is done */
    struct event *look, *loaded;
    pthread_t closer;
    bool has_closer;
};

/* --- versions --------------------------------------------------------------------------------- */

uint32_t versions_waiting(const struct served *m)
{
    uint32_t sum = m->version->counter.waiting;
    for (const struct version *v = m->leaving; v; v = v->next) sum += v->counter.waiting;
    return sum;
}

static void counts_add(struct servant_counts *sum, const struct servant *servant)
{
    const struct servant_counts counts = servant_counts(servant);
    sum->batches += counts.batches;
    sum->examples += counts.examples;
    sum->bad_lines += counts.bad_lines;
}

struct servant_counts versions_counts(const struct served *m)
{
    struct servant_counts sum = m->before;
    counts_add(&sum, m->version->servant);
    for (const struct version *v = m->leaving; v; v = v->next) counts_add(&sum, v->servant);
    return sum;
}

/* Frees a version, without its servant. */
static void version_free(struct version *v)
{
    if (v->answers) event_free(v->answers);
    lines_close(&v->lines);
    free(v);
}

/* Makes a version; takes the servant in any case. */
static status version_make(struct served *m, struct servant *servant, struct version **out)
{
    struct version *v = calloc(1, sizeof *v);
    status st = v ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a version");
    if (st == ST_OK) {
        *v = (struct version){.counter = {.model = m, .desk = servant_desk(servant), .figures = &m->figures},
                              .model = m,
                              .servant = servant,
                              .name = servant_setup(servant)->model.tag};
        st = lines_open(&v->lines, servant_setup(servant));
    }
    if (st == ST_OK) {
        v->answers =
            event_new(m->server->base, desk_fd(servant_desk(servant)), EV_READ | EV_PERSIST, request_answers, v);
        if (v->answers == NULL || event_add(v->answers, NULL) != 0)
            st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a version's events");
    }
    if (st != ST_OK) {
        if (v) version_free(v);
        servant_close(servant, request_drop);
        return st;
    }
    *out = v;
    return ST_OK;
}

/* --- leaving ---------------------------------------------------------------------------------- */

static void *closer_main(void *servant)
{
    servant_close(servant, request_drop);
    return NULL;
}

static void closer_await(struct watch *w)
{
    if (w->has_closer) pthread_join(w->closer, NULL);
    w->has_closer = false;
}

void version_left(struct version *v)
{
    struct served *m = v->model;
    struct servant *servant = v->servant;
    struct version **at = &m->leaving;
    while (*at != v) at = &(*at)->next;
    *at = v->next;
    if (v->counter.waiting) desk_clear(servant_desk(servant), request_give_up);
    counts_add(&m->before, servant);
    log_detail("model    %s: version %s has ended", m->name, v->name);
    version_free(v);
    closer_await(m->watch); /* giving back much memory takes long: beside the answers of other versions */
    m->watch->has_closer = thread_start(&m->watch->closer, closer_main, servant) == 0;
    if (!m->watch->has_closer) servant_close(servant, request_drop);
}

static void version_enter(struct served *m, struct version *v)
{
    struct version *before = m->version;
    log_info("model    %s: version %s, in place of %s", m->name, v->name, before->name);
    log_event_begin("version");
    log_event_text("model", m->name);
    log_event_text("version", v->name);
    log_event_end();
    m->version = v;
    before->next = m->leaving;
    m->leaving = before;
    desk_end(servant_desk(before->servant));
}

/* --- opening ---------------------------------------------------------------------------------- */

static status servant_of(const struct served *m, const char *path, bool is_beside, struct servant **servant)
{
    const struct serve_options *o = m->server->options;
    return servant_open(servant, &(struct servant_options){.graph = m->graph,
                                                           .model = path,
                                                           .set = o->set,
                                                           .set_count = o->set_count,
                                                           .threads = o->threads,
                                                           .isa = o->isa,
                                                           .is_beside = is_beside});
}

static bool manifest_look(const struct watch *w, struct seen *seen)
{
    char path[FILE_PATH_BYTES];
    struct stat found;
    if (stat(w->is_file ? w->directory : file_path_join(path, w->directory, MANIFEST_NAME), &found) != 0) return false;
    *seen = (struct seen){found.st_mtim, found.st_ino, found.st_size};
    return true;
}

static bool is_same(const struct seen *one, const struct seen *other)
{
    return one->time.tv_sec == other->time.tv_sec && one->time.tv_nsec == other->time.tv_nsec &&
           one->inode == other->inode && one->bytes == other->bytes;
}

static void *load_main(void *context)
{
    static const uint64_t one = 1;
    struct load *l = context;
    struct watch *w = l->watch;
    status st = servant_of(w->model, l->path, true, &l->servant);
    if (st == ST_OK && *l->tag && strcmp(servant_setup(l->servant)->model.tag, l->tag) != 0) {
        st = status_fail(ST_INVALID, __FILE__, __LINE__, "%s: there is no save %s", w->directory, l->tag);
        servant_close(l->servant, request_drop);
        l->servant = NULL;
    }
    failure_keep(&l->failure, st);
    CHECK(write(w->fd, &one, sizeof one) == sizeof one);
    return NULL;
}

static void load_free(struct load *l)
{
    free(l->path);
    free(l);
}

/* Opens a save beside the one at work; `seen`: the newest manifest, or what is known of it. */
static status load_start(struct watch *w, const char *path, const char *tag, struct seen seen,
                         struct evhttp_request *asker)
{
    struct load *l = calloc(1, sizeof *l);
    if (l == NULL) FAIL(MEMORY, "no memory for a version");
    l->watch = w;
    l->asker = asker;
    l->seen = seen;
    snprintf(l->tag, sizeof l->tag, "%s", tag);
    status st = heap_text(&l->path, "%s", path);
    if (st == ST_OK && thread_start(&l->thread, load_main, l) != 0)
        st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "cannot start a thread that opens a version");
    if (st != ST_OK)
        load_free(l);
    else
        w->load = l;
    return st;
}

static void load_answer(struct server *s, const struct load *l, status st)
{
    const struct served *m = l->watch->model;
    evhttp_add_header(evhttp_request_get_output_headers(l->asker), "Heterps-Version", m->version->name);
    if (st == ST_OK)
        http_reply_text(s->http, l->asker, 200, "%s", m->version->name);
    else
        http_reply_text(s->http, l->asker, 409, "%s; version %s stays", status_message(), m->version->name);
}

/* The thread that opens a version has ended. */
static void on_loaded(evutil_socket_t fd, short what, void *context)
{
    struct watch *w = context;
    struct served *m = w->model;
    struct load *l = w->load;
    struct version *v;
    uint64_t count;
    (void)what;
    if (read(fd, &count, sizeof count) != sizeof count) return;
    pthread_join(l->thread, NULL);
    status st = failure_adopt(&l->failure);
    if (st == ST_OK) st = version_make(m, l->servant, &v);
    if (st == ST_OK) {
        version_enter(m, v);
        if (l->asker) w->is_held = *l->tag != 0;
    } else if (l->asker == NULL) {
        log_warning("model %s: the new save in %s is not taken: %s; version %s stays", m->name, w->directory,
                    status_message(), m->version->name);
    }
    /* A save of a name that is not the newest's leaves that one to be tried. */
    if (st == ST_OK || *l->tag == 0) w->seen = l->seen;
    if (l->asker) load_answer(m->server, l, st);
    load_free(l);
    w->load = NULL;
}

static void on_look(evutil_socket_t unused, short what, void *context)
{
    struct watch *w = context;
    struct seen seen;
    (void)unused, (void)what;
    if (w->load || w->is_held || w->model->server->is_draining) return;
    if (!manifest_look(w, &seen) || is_same(&seen, &w->seen)) return;
    /* Looked at before opening, so that a save that comes meanwhile is seen later. */
    if (load_start(w, w->model->model, "", seen, NULL) == ST_OK) return;
    w->seen = seen;
    log_warning("model %s: %s", w->model->name, status_message());
}

/* --- a model ---------------------------------------------------------------------------------- */

/* Whether another version can be open beside this one: rows on disk are in a directory
 * that one run claims for itself. */
static bool can_change(const struct served *m)
{
    const struct store *store = servant_setup(m->version->servant)->model.store;
    return !store_has_home(store) || filed_is(store_home(store));
}

static status watch_open(struct served *m)
{
    struct watch *w = calloc(1, sizeof *w);
    struct stat found;
    if (w == NULL) FAIL(MEMORY, "no memory for a model");
    w->model = m;
    w->fd = -1;
    m->watch = w;
    w->is_file = lean_is(m->model);
    if (!w->is_file) TRY(model_dir_find(m->model));
    TRY(model_dir_of(m->model, &w->directory));
    /* held: an older save, given by its manifest */
    w->is_held = !w->is_file && (stat(m->model, &found) != 0 || !S_ISDIR(found.st_mode));
    (void)manifest_look(w, &w->seen);
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->fd < 0) FAIL(SYSTEM, "eventfd: %s", strerror(errno));
    w->look = event_new(m->server->base, -1, EV_PERSIST, on_look, w);
    w->loaded = event_new(m->server->base, w->fd, EV_READ | EV_PERSIST, on_loaded, w);
    if (w->look == NULL || w->loaded == NULL || event_add(w->loaded, NULL) != 0) FAIL(MEMORY, "no memory for events");
    return ST_OK;
}

status versions_open(struct served *m)
{
    struct servant *servant;
    TRY(watch_open(m));
    TRY(servant_of(m, m->model, false, &servant));
    TRY(version_make(m, servant, &m->version));
    if (!can_change(m)) {
        log_info("model    %s: with rows on disk (store.ssd) new saves are not taken", m->name);
        return ST_OK;
    }
    if (event_add(m->watch->look, &(struct timeval){.tv_usec = LOOK_US}) != 0) FAIL(MEMORY, "no memory for events");
    return ST_OK;
}

static void version_end(struct version *v)
{
    struct servant *servant = v->servant;
    version_free(v);
    servant_close(servant, request_drop);
}

static void watch_close(struct watch *w)
{
    if (w->load) {
        pthread_join(w->load->thread, NULL);
        servant_close(w->load->servant, request_drop);
        load_free(w->load);
    }
    closer_await(w);
    if (w->look) event_free(w->look);
    if (w->loaded) event_free(w->loaded);
    if (w->fd >= 0) close(w->fd);
    free(w->directory);
    free(w);
}

void versions_close(struct served *m)
{
    if (m->watch) watch_close(m->watch);
    if (m->version) version_end(m->version);
    for (struct version *v = m->leaving, *next; v; v = next) {
        next = v->next;
        version_end(v);
    }
}

/* --- asked for -------------------------------------------------------------------------------- */

static int names_compare(const void *one, const void *other)
{
    return strverscmp(*(char *const *)one, *(char *const *)other);
}

/* The tags of the older saves in the directory, each malloc'd; returns how many. */
static uint32_t saves_list(const char *directory, char **names)
{
    uint32_t count = 0;
    DIR *d = opendir(directory);
    if (d == NULL) return 0;
    for (struct dirent *entry; count < SAVES_MAX && (entry = readdir(d)) != NULL;) {
        if (model_name_kind(entry->d_name) != MODEL_NAME_MANIFEST) continue;
        const char *tag = entry->d_name + sizeof MANIFEST_STEM;
        names[count] = strndup(tag, strlen(tag) - strlen(MANIFEST_END));
        count += names[count] != NULL;
    }
    closedir(d);
    qsort(names, count, sizeof *names, names_compare);
    return count;
}

void version_get(struct server *s, struct served *m, struct evhttp_request *request)
{
    struct evbuffer *to = evbuffer_new();
    char **names = calloc(SAVES_MAX, sizeof *names);
    const uint32_t count = names ? saves_list(m->watch->directory, names) : 0;
    if (to) {
        evbuffer_add_printf(to, "{\"model\":\"%s\",\"version\":\"%s\",\"held\":%s,\"older\":[", m->name,
                            m->version->name, m->watch->is_held ? "true" : "false");
        for (uint32_t i = 0; i < count; i++) evbuffer_add_printf(to, "%s\"%s\"", i ? "," : "", names[i]);
        evbuffer_add_printf(to, "]}\n");
    }
    http_reply(s->http, request, to ? 200 : 500, "application/json", to);
    for (uint32_t i = 0; i < count; i++) free(names[i]);
    free(names);
    if (to) evbuffer_free(to);
}

/* Reads the body as a name, without blanks and line ends around it: STEP, STEP-GENERATION
 * or "newest". False: the body is none. */
static bool name_read(struct evhttp_request *request, char name[MODEL_TAG_BYTES])
{
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    size_t bytes = evbuffer_get_length(body);
    if (bytes >= MODEL_TAG_BYTES) return false;
    evbuffer_remove(body, name, bytes);
    while (bytes && (name[bytes - 1] == '\n' || name[bytes - 1] == '\r' || name[bytes - 1] == ' ')) bytes--;
    name[bytes] = 0;
    return strcmp(name, NEWEST) == 0 || (bytes && strspn(name, "0123456789-") == bytes);
}

void version_post(struct server *s, struct served *m, struct evhttp_request *request)
{
    struct watch *w = m->watch;
    char name[MODEL_TAG_BYTES], path[FILE_PATH_BYTES],
        manifest[sizeof MANIFEST_STEM + MODEL_TAG_BYTES + sizeof MANIFEST_END];
    if (!name_read(request, name)) {
        http_reply_text(s->http, request, 400, "expected a save's step, such as 2000, or " NEWEST);
    } else if (!can_change(m)) {
        http_reply_text(s->http, request, 409, "with rows on disk (store.ssd) the version stays");
    } else if (w->load) {
        evhttp_add_header(evhttp_request_get_output_headers(request), "Retry-After", "1");
        http_reply_text(s->http, request, 503, "another version is being opened; ask again");
    } else {
        const bool is_newest = strcmp(name, NEWEST) == 0;
        snprintf(manifest, sizeof manifest, MANIFEST_STEM ".%s" MANIFEST_END, name);
        file_path_join(path, w->directory, manifest);
        /* The newest save has no name of its own: the thread that opens it checks its tag. */
        const bool is_older = !is_newest && access(path, F_OK) == 0;
        struct seen seen = w->seen;
        if (!is_older) (void)manifest_look(w, &seen);
        if (load_start(w, is_older ? path : w->directory, is_newest ? "" : name, seen, request) != ST_OK)
            http_reply_text(s->http, request, 503, "%s", status_message());
    }
}
