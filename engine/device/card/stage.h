/* What the files of engine/device/card share: the memory of a stage on a card. */
#ifndef HETERPS_ENGINE_DEVICE_CARD_STAGE_H
#define HETERPS_ENGINE_DEVICE_CARD_STAGE_H

#include <pthread.h>

#include "engine/device/card/card.h"
#include "engine/device/card/card_rows.h"
#include "engine/slot/slot.h"
#include "gpu/ops.h"
#include "graph/crossing.h"

/* A slot's place on the card. */
struct card_slot {
    struct view *view;        /* [tensor_count]: addresses of the card           */
    struct micro_batch batch; /* likewise, of what ops read                      */
    struct ticket ticket;     /* likewise                                        */
    struct gpu_now *now, *now_host;
    /* [forward_count]: words of the micro-batch for nodes that have such (gpu_micro_words), else NULL: of the
     * card; of the host */
    uint32_t **micro_words, **micro_words_host;
    void *micro_lists; /* of the host: for gpu_micro_words_fill(), of one node at a time */
    /* Passes that have been written down: forward in evaluation, in training, backward of each lane. Each
     * device has its own, which name its scratch memory, for each of a feed's inputs. */
    struct gpu_list **list;
    const void **list_batch; /* the input's micro-batch: training and evaluation have different ones */
};
enum { CARD_LIST_EVALUATE, CARD_LIST_TRAIN, CARD_LIST_BACKWARD };

/* Another card of the stage, and a stream there with which this card changes its memory. */
struct card_sibling {
    struct card_stage *stage; /* NULL: this card itself */
    struct gpu_stream *stream;
    struct gpu_event *event;
};

/* Bytes that a pass moves: across the cut in front of the stage, across the cut behind it, and others. */
struct card_moved {
    uint64_t front_bytes, behind_bytes, other_bytes;
};

/* Most feeds whose inputs are kept in place at a time: one of training, one of an evaluation. */
#define CARD_PINNED 2u

struct card_stage {
    const struct graph *graph;
    struct model *model;
    struct gpu *gpu;
    struct gpu_blas *blas;     /* or NULL */
    struct gpu_stream *stream; /* of begin and settle */
    struct gpu_event *event;
    const struct extent *extent; /* the caller's */
    uint32_t slot_count, input_count;
    uint32_t lane_begin, lanes; /* of gradients, in training */
    bool training, is_first;
    bool is_shared;   /* the host updates, and has the newest parameters; the card has no state */
    bool is_pinned;   /* the inputs of the job are kept in place     */
    void *host_slots; /* the slots, if they are kept in place; or NULL */
    size_t host_slots_bytes;
    char name[64];
    uint32_t device_count;
    uint32_t replica, replica_count;
    struct card_sibling *siblings; /* [replica_count], of several cards; … */
    pthread_mutex_t siblings_lock; /* … their streams are one thread's at a time */
    /* lists of the host */
    struct crossing crossing;
    struct graph_alias *aliases; /* [alias_count]: of its own parameters */
    uint32_t alias_count;
    struct param_block *host_blocks; /* [block_count]: of all parameters, in training */
    uint32_t block_count;
    struct card_slot *slots; /* [slot_count] */
    struct card_rows rows;   /* of tables that are looked up here */
    struct card_stream_rows stream_rows[CARD_STREAMS];
    const uint32_t **node_words; /* [forward_count]: on the card, or NULL */
    /* memory of the card, one piece */
    void *memory;
    float *param, *state; /* [param_floats], [state_floats]; state NULL where the host updates */
    float *grads;         /* [lanes, grad_floats]: zero between updates */
    float **grad_list;    /* [lanes]: where a lane's begin  */
    struct param_block *blocks;
    double *squares;
    float *scratch[CARD_STREAMS]; /* [scratch_floats] */
    size_t scratch_floats;
    /* memory of the host that the card copies from and to */
    struct gpu_now *now_host; /* [slot_count], now_stride bytes apart */
    size_t now_bytes, now_stride;
    void *host_memory; /* one piece */
    size_t host_bytes;
    double *squares_host;      /* [block_count] */
    void *pinned[CARD_PINNED]; /* memory of inputs, or NULL */
    /* bytes that a pass moves: for each example, and once for the micro-batch */
    struct card_moved forward_example, forward_micro, backward_example, backward_micro;
    _Atomic uint64_t shared_front, shared_behind, shared_other;
};

/* Copies the stage's parameters, and the state that it updates, from the host. Keeps the job's
 * inputs, in [inputs, inputs + bytes), in place until card_stage_leave; NULL: none. */
MUST_USE status card_stage_begin(struct card_stage *s, void *inputs, size_t bytes);
/* In training: copies the card's part of the parameters and state that it updates, and changed rows,
 * to the host. */
MUST_USE status card_stage_settle(struct card_stage *s);
/* Before a job's inputs are given back: no longer keeps their memory in place, and drops
 * the passes written down for it. */
void card_stage_leave(struct card_stage *s, void *inputs, size_t bytes);
/* For measuring: gives the stream the nodes of a pass `times` times, without the copies
 * before and after it, and waits. */
MUST_USE status card_device_repeat(struct device *device, const struct op_context *c, const struct graph_node *nodes,
                                   uint32_t count, uint32_t times);

#endif
