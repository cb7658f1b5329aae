/* Cards as a kind of devices: a stage on one of them, or on several that each have
 * lanes and a part of their own. */
#include <stdlib.h>

#include "engine/device/card/card.h"

struct device_stage {
    struct card_stage **cards; /* [count]: a replica each */
    uint32_t count;
};

static void stage_close(struct device_stage *s)
{
    card_stages_part(s->cards, s->count);
    for (uint32_t r = 0; r < s->count; r++) card_stage_close(s->cards[r]);
    free(s->cards);
    free(s);
}

static status stage_open(struct device_stage **out, const struct device_stage_options *o)
{
    struct device_stage *s = calloc(1, sizeof *s);
    const uint32_t count = o->plan->stages[o->stage].replicas;
    if (s != NULL) s->cards = calloc(count, sizeof *s->cards);
    if (s == NULL || s->cards == NULL) {
        free(s);
        FAIL(MEMORY, "no memory to describe a stage on %u cards", count);
    }
    s->count = count;
    *out = s;
    return ST_OK;
}

static status stage_join(struct device_stage *s) { return s->count > 1 ? card_stages_join(s->cards, s->count) : ST_OK; }

static struct device_figures stage_figures(const struct device_stage *s)
{
    struct device_figures sum = card_stage_figures(s->cards[0]); /* which has the rows: they are on one card */
    for (uint32_t r = 1; r < s->count; r++) {
        const struct device_figures f = card_stage_figures(s->cards[r]);
        sum.front_bytes += f.front_bytes;
        sum.behind_bytes += f.behind_bytes;
        sum.other_bytes += f.other_bytes;
    }
    return sum;
}

/* Opens a stream of the replica's card; the first stream opens the card's stage. */
static status kind_open(struct device **device, struct device_stage *s, const struct device_stage_options *o,
                        const struct device_seat *seat)
{
    struct card_stage **card = &s->cards[seat->replica];
    const struct card_stage_options options = {.of = o, .replica = seat->replica, .replica_count = s->count};
    if (*card == NULL) TRY(card_stage_open(card, &options));
    return card_device_open(device, *card);
}

const struct device_kind device_kind_card = {
    .unit = "card",
    .streams = CARD_STREAMS,
    .replicas_max = CARDS_MAX,
    .has_memory = true,
    .stage_open = stage_open,
    .stage_join = stage_join,
    .stage_close = stage_close,
    .stage_figures = stage_figures,
    .open = kind_open,
};
