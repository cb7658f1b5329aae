// Rows a second that RocksDB gives by MultiGet in batches, to put beside tests/bench/store_bench.c.
//
//     g++ -O2 -o rows_rocksdb rows_rocksdb.cc -lrocksdb
//     rows_rocksdb DIRECTORY ROWS RAM SECONDS [WHAT...]          WHAT: get:uniform, get:zipf, update:zipf;
//                                                                none: only makes the rows, once
//
// RAM is its block cache; index, filters (10 bits a key) and write buffers come on top. Reads and writes pass
// the page cache by, there is no log.
#include <memory>
#include <vector>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include "rows.h"

using namespace rocksdb;

static DB *db;
static volatile float sink;

static void must(const Status &status)
{
    if (status.ok()) return;
    fprintf(stderr, "rows_rocksdb: %s\n", status.ToString().c_str());
    exit(2);
}

// Keys sort as numbers do.
static Slice key_slice(uint64_t key, uint64_t *place)
{
    *place = __builtin_bswap64(key);
    return Slice((const char *)place, sizeof *place);
}

static void rows_make(uint64_t row_count)
{
    WriteOptions options;
    options.disableWAL = true;
    for (uint64_t key = 0; key < row_count;) {
        WriteBatch batch;
        for (int i = 0; i < BATCH_KEYS && key < row_count; i++, key++) {
            float row[ROW_FLOATS];
            uint64_t place;
            row_first(key, row);
            must(batch.Put(key_slice(key, &place), Slice((const char *)row, sizeof row)));
        }
        must(db->Write(options, &batch));
    }
    must(db->Flush(FlushOptions()));
    must(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
}

static void batch_do(const uint64_t *key, uint32_t count, int updates)
{
    static std::vector<uint64_t> place(BATCH_KEYS);
    static std::vector<Slice> slice(BATCH_KEYS);
    static std::vector<PinnableSlice> value(BATCH_KEYS);
    static std::vector<Status> status(BATCH_KEYS);
    ReadOptions read;
    read.verify_checksums = false;
    for (uint32_t i = 0; i < count; i++) {
        slice[i] = key_slice(key[i], &place[i]);
    }
    db->MultiGet(read, db->DefaultColumnFamily(), count, slice.data(), value.data(), status.data(), true);
    WriteBatch batch;
    float sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        float row[ROW_FLOATS];
        must(status[i]);
        memcpy(row, value[i].data(), sizeof row);
        for (float &x : row) sum += x++;
        if (updates) must(batch.Put(slice[i], Slice((const char *)row, sizeof row)));
    }
    sink = sum;
    WriteOptions write;
    write.disableWAL = true;
    if (updates) must(db->Write(write, &batch));
    for (uint32_t i = 0; i < count; i++) value[i].Reset(); // what they hold is the cache's
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: rows_rocksdb DIRECTORY ROWS RAM SECONDS [WHAT...]\n");
        return 2;
    }
    const uint64_t row_count = strtoull(argv[2], NULL, 10);
    BlockBasedTableOptions table;
    table.block_cache = NewLRUCache(strtoull(argv[3], NULL, 10));
    table.block_size = 4096;
    table.filter_policy.reset(NewBloomFilterPolicy(10));
    table.data_block_index_type = BlockBasedTableOptions::kDataBlockBinaryAndHash;
    Options options;
    options.create_if_missing = true;
    options.compression = kNoCompression;
    options.IncreaseParallelism(2);
    options.use_direct_reads = options.use_direct_io_for_flush_and_compaction = true;
    options.max_open_files = -1;
    options.table_factory.reset(NewBlockBasedTableFactory(table));
    must(DB::Open(options, argv[1], &db));
    std::unique_ptr<Iterator> first(db->NewIterator(ReadOptions()));
    first->SeekToFirst();
    const bool is_empty = !first->Valid();
    first.reset();
    if (is_empty) rows_make(row_count);
    for (int i = 5; i < argc; i++) batches_measure(argv[i], row_count, strtod(argv[4], NULL), batch_do);
    must(db->Close());
    delete db;
    return 0;
}
