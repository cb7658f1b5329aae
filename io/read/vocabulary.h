/* From a text to the number of its word: a hash index over the words of a
 * reader_vocabulary, made when a reader opens.
 *
 *     text ──hash──▶ slot ──same upper half of the hash?──▶ word ──same bytes?──▶ number
 *
 * Workload: one look-up a value that is read, nearly always of a word that exists; an
 * index of 2^20 words has 16 MiB. */
#ifndef HETERPS_IO_READ_VOCABULARY_H
#define HETERPS_IO_READ_VOCABULARY_H

#include "engine/base/memory.h"
#include "io/read/reader.h"

struct vocabulary_slot {
    uint32_t hash;  /* upper half of the hash; its lower half has chosen the slot                     */
    uint32_t place; /* 1 + the word's number; 0: the slot is free                                    */
};
struct vocabulary {
    struct reader_vocabulary words;
    struct vocabulary_slot *slot; /* [mask + 1], a power of two; a taken slot sends on to the next       */
    uint32_t mask;
};

/* What vocabulary_place takes from the arena. */
size_t vocabulary_bytes(const struct reader_vocabulary *words);
/* Keeps what `words` points to, and memory of the arena. Of equal words the first counts. */
void vocabulary_place(struct vocabulary *vocabulary, struct arena *arena, const struct reader_vocabulary *words);

/* The number of the word with these bytes (any); else the unknown word's,
 * READER_NONE if there is no unknown word. */
uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t bytes);

#endif
