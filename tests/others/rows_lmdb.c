// Rows a second that LMDB gives in batches, a transaction each, to put beside tests/bench/store_bench.c.
//
//     gcc -O2 -o rows_lmdb rows_lmdb.c -llmdb -lm
//     rows_lmdb DIRECTORY ROWS RAM SECONDS [WHAT...]   WHAT: get:uniform, get:zipf, update:zipf; none: only makes rows
//
// It has no cache of its own but the page cache: whoever starts it bounds that by a control group; RAM is not used
// here. Nothing is synchronised.
#include <lmdb.h>

#include "rows.h"

static MDB_env *env;
static volatile float sink;

static void must(int result, const char *what)
{
    if (result == 0) return;
    fprintf(stderr, "rows_lmdb: %s: %s\n", what, mdb_strerror(result));
    exit(2);
}

static MDB_txn *transaction_begin(unsigned flags, MDB_dbi *rows)
{
    MDB_txn *transaction;
    must(mdb_txn_begin(env, NULL, flags, &transaction), "mdb_txn_begin");
    must(mdb_dbi_open(transaction, NULL, MDB_INTEGERKEY | (flags ? 0 : MDB_CREATE), rows), "mdb_dbi_open");
    return transaction;
}

static void rows_make(uint64_t row_count)
{
    for (uint64_t key = 0; key < row_count;) {
        MDB_dbi rows;
        MDB_txn *transaction = transaction_begin(0, &rows);
        for (uint32_t i = 0; i < 100 * BATCH_KEYS && key < row_count; i++, key++) {
            float row[ROW_FLOATS];
            row_first(key, row);
            MDB_val k = {sizeof key, &key}, v = {sizeof row, row};
            must(mdb_put(transaction, rows, &k, &v, MDB_APPEND), "mdb_put");
        }
        must(mdb_txn_commit(transaction), "mdb_txn_commit");
    }
    must(mdb_env_sync(env, 1), "mdb_env_sync");
}

static void batch_do(const uint64_t *key, uint32_t count, int updates)
{
    MDB_dbi rows;
    MDB_txn *transaction = transaction_begin(updates ? 0 : MDB_RDONLY, &rows);
    float sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t place = key[i];
        float row[ROW_FLOATS];
        MDB_val k = {sizeof place, &place}, v;
        must(mdb_get(transaction, rows, &k, &v), "mdb_get");
        memcpy(row, v.mv_data, sizeof row);
        for (int f = 0; f < ROW_FLOATS; f++) sum += row[f]++;
        v.mv_data = row;
        if (updates) must(mdb_put(transaction, rows, &k, &v, 0), "mdb_put");
    }
    sink = sum;
    if (updates)
        must(mdb_txn_commit(transaction), "mdb_txn_commit");
    else
        mdb_txn_abort(transaction);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: rows_lmdb DIRECTORY ROWS RAM SECONDS [WHAT...]\n");
        return 2;
    }
    const uint64_t row_count = strtoull(argv[2], NULL, 10);
    MDB_stat stat;
    must(mdb_env_create(&env), "mdb_env_create");
    must(mdb_env_set_mapsize(env, row_count * ROW_BYTES * 4 + ((size_t)1 << 30)), "mdb_env_set_mapsize");
    must(mdb_env_open(env, argv[1], MDB_NOSYNC | MDB_NOMETASYNC | MDB_NORDAHEAD | MDB_WRITEMAP, 0644), "mdb_env_open");
    must(mdb_env_stat(env, &stat), "mdb_env_stat");
    if (stat.ms_entries == 0) rows_make(row_count);
    for (int i = 5; i < argc; i++) batches_measure(argv[i], row_count, strtod(argv[4], NULL), batch_do);
    mdb_env_close(env);
    return 0;
}
