/* A node that holds the key and says anything: the first byte chooses rank and size of a cluster, the rest is
 * links that come and go, time that passes, and frames. The machine takes them, puts out no more than it has
 * room for, names only channels that are up, and ends at most once. */
#define FUZZ_NAME "member"
#include "tests/fuzz/driver.h"

#include "engine/node/member_frame.h"

static struct member m;
static bool is_up[MEMBER_CHANNELS_MAX], has_ended;

static void feed(const struct member_event *event, uint64_t now_ns)
{
    member_step(&m, event, now_ns);
    CHECK(m.output_count <= MEMBER_OUTPUTS_MAX && (!has_ended || m.output_count == 0));
    for (uint32_t i = 0; i < m.output_count; i++) {
        const struct member_output *out = &m.output[i];
        if (out->kind == OUTPUT_SEND || out->kind == OUTPUT_CLOSE)
            CHECK(out->channel < MEMBER_CHANNELS_MAX && is_up[out->channel]);
        if (out->kind == OUTPUT_CLOSE) is_up[out->channel] = false;
        if (out->kind == OUTPUT_CONNECT) CHECK(out->rank < m.o.nodes && out->rank != m.o.rank);
        if (out->kind == OUTPUT_ANEW || out->kind == OUTPUT_EXIT) has_ended = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    const uint32_t nodes = 1 + data[0] % 5 + (data[0] >= 250 ? 59 : 0);
    uint64_t now_ns = 1;
    memset(is_up, 0, sizeof is_up);
    has_ended = false;
    member_open(&m, &(struct member_options){.rank = data[0] / 5 % nodes,
                                             .nodes = nodes,
                                             .min = 1 + data[0] / 25 % nodes,
                                             .nonce = 3,
                                             .timeout_ns = 400,
                                             .connect_ns = 3000,
                                             .progress_ns = 2000});
    feed(&(struct member_event){.kind = EVENT_START}, now_ns);
    for (size_t at = 1; at + 2 <= bytes && !has_ended; at += 2) {
        const uint32_t channel = data[at + 1] % 8;
        struct member_event event = {
            .channel = channel, .rank = MEMBER_NONE, .value = data[at + 1], .mask = data[at + 1]};
        struct member_frame frame;
        switch (data[at] % 8) {
        case 0:
            if (is_up[channel]) continue;
            is_up[channel] = true;
            event.kind = EVENT_UP;
            if (data[at] & 8 && data[at + 1] / 8 % nodes != m.o.rank) event.rank = data[at + 1] / 8 % nodes;
            break;
        case 1:
            if (!is_up[channel]) continue;
            event.kind = EVENT_DOWN;
            break;
        case 2:
            now_ns += data[at + 1];
            event.kind = EVENT_TIMER;
            break;
        case 3: event.kind = EVENT_CLAIMED; break;
        case 4: event.kind = data[at] & 8 ? EVENT_STEP : EVENT_WAITS; break;
        case 5: event.kind = EVENT_FINISH; break;
        default: {
            const size_t left = bytes - at - 2;
            if (!is_up[channel]) continue;
            size_t used = left < 56 ? left : 56;
            if (left && data[at + 2] == FRAME_ROSTER && left >= 96 + 16 * nodes) used = 96 + 16 * nodes;
            status st = member_frame_get(&frame, data + at + 2, used, nodes);
            CHECK(st == ST_OK || st == ST_INVALID);
            at += used;
            if (st != ST_OK) continue;
            event.kind = EVENT_FRAME;
            event.frame = &frame;
        }
        }
        feed(&event, now_ns);
        if (event.kind == EVENT_DOWN) is_up[channel] = false;
    }
    return 0;
}
