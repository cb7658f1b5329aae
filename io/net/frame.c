/* Headers and greetings, byte by byte. */
#include "io/net/frame.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/isa.h"

#define MAGIC   "HPSLINK"
#define VERSION 1u

static void put(uint8_t *out, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *in, uint32_t bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) value |= (uint64_t)in[i] << 8 * i;
    return value;
}

void frame_header_put(uint8_t out[FRAME_HEADER_BYTES], const struct frame_header *h)
{
    put(out, h->bytes, 4);
    put(out + 4, h->kind, 2);
    put(out + 6, 0, 2);
    put(out + 8, h->tag, 8);
}

status frame_header_get(struct frame_header *h, const uint8_t in[FRAME_HEADER_BYTES], uint32_t bytes_max)
{
    *h = (struct frame_header){.bytes = (uint32_t)get(in, 4), .kind = (uint16_t)get(in + 4, 2), .tag = get(in + 8, 8)};
    if (get(in + 6, 2) != 0)
        FAIL(INVALID, "a message's header: bytes 6 and 7: expected 0, found %" PRIu64, get(in + 6, 2));
    if (h->bytes > bytes_max)
        FAIL(INVALID, "a message of kind %u: expected at most %" PRIu32 " bytes, found %" PRIu32, h->kind, bytes_max,
             h->bytes);
    return ST_OK;
}

void frame_greeting_put(uint8_t out[FRAME_GREETING_BYTES], enum frame_seal seal, uint64_t prologue)
{
    memset(out, 0, FRAME_GREETING_BYTES);
    memcpy(out, MAGIC, 7);
    out[7] = VERSION;
    out[8] = (uint8_t)seal;
    if (seal == FRAME_PLAIN) put(out + FRAME_PREAMBLE_BYTES, prologue, 8);
}

status frame_preamble_get(const uint8_t in[FRAME_GREETING_BYTES], bool is_sealed, enum frame_seal *seal)
{
    if (memcmp(in, MAGIC, 7) != 0)
        FAIL(INVALID, "the program that answers there is no node: its first bytes are not " MAGIC);
    if (in[7] != VERSION)
        FAIL(INVALID,
             "the node there speaks version %u of the protocol, this one version %u; run the same program on all nodes",
             in[7], VERSION);
    if (in[8] >= FRAME_SEAL_COUNT)
        FAIL(INVALID, "the node there seals in an unknown way, number %u; run the same program on all nodes", in[8]);
    if (is_sealed != (in[8] != FRAME_PLAIN))
        FAIL(INVALID, is_sealed ? "the node there has no key and this one has one; give the same key to all nodes"
                                : "the node there has a key and this one has none; give the same key to all nodes");
    for (uint32_t i = 9; i < FRAME_PREAMBLE_BYTES; i++)
        if (in[i] != 0) FAIL(INVALID, "a greeting: byte %u: expected 0, found %u", i, in[i]);
    *seal = in[8];
    return ST_OK;
}

status frame_plain_get(const uint8_t in[FRAME_GREETING_BYTES], uint64_t prologue)
{
    if (get(in + FRAME_PREAMBLE_BYTES, 8) != prologue)
        FAIL(INVALID, "the node there belongs to another job, or runs another version of the program");
    for (uint32_t i = 24; i < FRAME_GREETING_BYTES; i++)
        if (in[i] != 0) FAIL(INVALID, "a greeting: byte %u: expected 0, found %u", i, in[i]);
    return ST_OK;
}

void frame_prologue_put(uint8_t out[FRAME_PROLOGUE_BYTES], const uint8_t preamble[FRAME_PREAMBLE_BYTES],
                        uint64_t prologue)
{
    memcpy(out, preamble, FRAME_PREAMBLE_BYTES);
    put(out + FRAME_PREAMBLE_BYTES, prologue, 8);
}

uint32_t frame_slice(const struct iovec *parts, uint32_t part_count, uint64_t offset, uint64_t bytes, struct iovec *out,
                     uint32_t max, bool *is_whole)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < part_count && bytes; i++) {
        if (offset >= parts[i].iov_len) {
            offset -= parts[i].iov_len;
            continue;
        }
        if (count == max) break;
        size_t here = parts[i].iov_len - offset;
        if (here > bytes) here = bytes;
        out[count++] = (struct iovec){(uint8_t *)parts[i].iov_base + offset, here};
        offset = 0;
        bytes -= here;
    }
    *is_whole = bytes == 0;
    return count;
}

frame_check *frame_check_of(const char *isa)
{
    static frame_check *const all[ISA_IO_COUNT] = {frame_check_base, frame_check_avx2, frame_check_avx512};
    enum isa_io found;
    return isa_io_find(isa, &found) ? all[found] : NULL;
}
