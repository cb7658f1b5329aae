/* Fields into memory. */
#include "io/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
#define VARINT_BYTES 10u

void protobuf_free(struct protobuf *p)
{
    free(p->data);
    *p = (struct protobuf){0};
}

void protobuf_clear(struct protobuf *p)
{
    p->bytes = 0;
    p->is_cut = false;
}

/* Makes room for `bytes` more bytes; NULL: there is no memory. */
static uint8_t *more(struct protobuf *p, size_t bytes)
{
    if (p->is_cut) return NULL;
    if (p->room - p->bytes < bytes) {
        const size_t wanted = p->bytes + bytes, grown = wanted + wanted / 2 + 64;
        uint8_t *data = wanted < bytes ? NULL : realloc(p->data, grown);
        if (data == NULL) {
            p->is_cut = true;
            return NULL;
        }
        p->data = data;
        p->room = grown;
    }
    uint8_t *at = p->data + p->bytes;
    p->bytes += bytes;
    return at;
}

static void varint_put(struct protobuf *p, uint64_t value)
{
    uint8_t text[VARINT_BYTES];
    size_t bytes = 0;
    for (; value >= 0x80; value >>= 7) text[bytes++] = (uint8_t)value | 0x80;
    text[bytes++] = (uint8_t)value;
    uint8_t *to = more(p, bytes);
    if (to) memcpy(to, text, bytes);
}

static void tag_put(struct protobuf *p, uint32_t field, enum wire wire) { varint_put(p, (uint64_t)field << 3 | wire); }

void protobuf_u64(struct protobuf *p, uint32_t field, uint64_t value)
{
    tag_put(p, field, WIRE_VARINT);
    varint_put(p, value);
}

void protobuf_f32(struct protobuf *p, uint32_t field, float value)
{
    tag_put(p, field, WIRE_32);
    uint8_t *to = more(p, sizeof value);
    if (to) memcpy(to, &value, sizeof value);
}

void protobuf_f64(struct protobuf *p, uint32_t field, double value)
{
    tag_put(p, field, WIRE_64);
    uint8_t *to = more(p, sizeof value);
    if (to) memcpy(to, &value, sizeof value);
}

void protobuf_open(struct protobuf *p, uint32_t field, size_t bytes)
{
    tag_put(p, field, WIRE_BYTES);
    varint_put(p, bytes);
}

uint8_t *protobuf_room(struct protobuf *p, uint32_t field, size_t bytes)
{
    protobuf_open(p, field, bytes);
    return more(p, bytes);
}

void protobuf_bytes(struct protobuf *p, uint32_t field, const void *data, size_t bytes)
{
    uint8_t *to = protobuf_room(p, field, bytes);
    if (to && bytes) memcpy(to, data, bytes);
}

void protobuf_text(struct protobuf *p, uint32_t field, const char *text)
{
    protobuf_bytes(p, field, text, strlen(text));
}

void protobuf_message(struct protobuf *p, uint32_t field, const struct protobuf *message)
{
    protobuf_bytes(p, field, message->data, message->bytes);
    p->is_cut |= message->is_cut;
}

void protobuf_append(struct protobuf *p, const struct protobuf *fields)
{
    uint8_t *to = more(p, fields->bytes);
    if (to && fields->bytes) memcpy(to, fields->data, fields->bytes);
    p->is_cut |= fields->is_cut;
}
