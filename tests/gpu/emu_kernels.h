/* Kernels with one fault each, and the same without: for tests of the emulation. */
#ifndef HETERPS_TESTS_GPU_EMU_KERNELS_H
#define HETERPS_TESTS_GPU_EMU_KERNELS_H

#include <stdint.h>

struct faulty_args {
    const uint32_t *in;
    uint32_t *out;
    uint32_t count;
    uint32_t is_faulty;
};
/* name: what it does if it is faulty */
#define FAULTY_KERNELS(X)                                                                                              \
    X(reads_behind)     /* one thread too many reads                                   */                              \
    X(writes_before)    /* in front of the array                                       */                              \
    X(forgets_barrier)  /* reads its neighbour's shared number without a barrier       */                              \
    X(overwrites)       /* writes again what others may still read                     */                              \
    X(diverges)         /* half of the threads take another barrier                    */                              \
    X(leaves)           /* one thread ends before the barrier                          */                              \
    X(reads_unwritten)  /* shared memory                                               */                              \
    X(blocks_collide)   /* all blocks write one number                                 */                              \
    X(blocks_peek)      /* a block reads what another has written                      */                              \
    X(forgets_lane)     /* a shuffle that lane 7 does not reach                        */                              \
    X(forgets_warp)     /* shares within a warp without __syncwarp                     */                              \
    X(leaves_mask)      /* a shuffle from a lane outside its mask                      */                              \
    X(halves_collide)   /* two threads write the two halves of a number: no fault      */                              \
    X(forgets_copies)   /* reads what a copy has yet to bring                          */                              \
    X(hides_copies)     /* waits for its copies, but tells nobody by a barrier         */                              \
    X(copies_early)     /* over what others may still read                             */                              \
    X(leaves_copies)    /* ends while they are under way                               */                              \
    X(multiplies)       /* matrices; lane 7 does not come                              */                              \
    X(multiplies_tf32)  /* the same of TF32                                            */                              \
    X(forgets_to_round) /* a factor that is no TF32                                   */                               \
    X(forgets_bulk)     /* reads what a copy that a barrier counts has yet to bring    */                              \
    X(expects_less)     /* than is copied                                              */                              \
    X(hides_bulk)       /* multiplies what another warp has waited for                 */                              \
    X(refills_early)    /* says that it has multiplied before it has                   */                              \
    X(forgets_arrival)  /* a warp does not say that it has                             */                              \
    X(leaves_products)  /* ends while they are under way                               */                              \
    X(blocks_overtake)  /* a block reads what a later one writes                       */                              \
    X(meets)            /* threads read and write one number: see MEETS                */                              \
    X(adds)             /* atomics do not collide; a plain read of the sum does        */

/* What is_faulty says to `meets`: `first` and `second` (0: nobody) read a number, or both write it; with a
 * __syncwarp between or without, `last` writes it. */
#define MEETS(first, second, last, is_write, is_synced)                                                                \
    ((first) | (second) << 8 | (last) << 16 | (uint32_t)(is_write) << 24 | (uint32_t)(is_synced) << 25)

/* The elements of what `multiplies` multiplies; multiplies_tf32 those of 8 terms. */
#define MULTIPLIES_LEFT(m, k)  ((3 * (m) + 5 * (k)) % 11)
#define MULTIPLIES_RIGHT(k, n) ((7 * (k) + (n)) % 13)

#define DECLARE(name)          void name(const void *args);
FAULTY_KERNELS(DECLARE)
#undef DECLARE

#endif
