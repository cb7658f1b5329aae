/* Opens the session in which a verb uses a saved model. */
#include "engine/cmd/saved.h"

status saved_run(const char *graph_path, const struct saved_options *options,
                 status (*use)(struct session *session, const struct saved_options *options))
{
    struct session session;
    TRY(session_open(&session, &(struct session_options){.graph_path = graph_path,
                                                         .set = options->set.item,
                                                         .set_count = options->set.count,
                                                         .threads = options->threads,
                                                         .isa = options->isa}));
    status st = use(&session, options);
    session_close(&session);
    return st;
}
