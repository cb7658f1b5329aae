/* Finds words by their texts. */
#include "io/read/vocabulary.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

/* At most three of four slots are taken, so that a look-up sees two slots on average. */
static size_t slots_of(const struct reader_vocabulary *words)
{
    size_t count = 2;
    while (count / 4 * 3 < words->word_count) count *= 2;
    return count;
}

size_t vocabulary_bytes(const struct reader_vocabulary *words)
{
    return arena_bytes(sizeof(struct vocabulary_slot) * slots_of(words));
}

/* The slot of the word, or the empty one where it belongs. */
static struct vocabulary_slot *slot_find(const struct vocabulary *v, const char *text, size_t bytes, uint32_t *hash)
{
    uint64_t whole = XXH3_64bits(text, bytes);
    *hash = (uint32_t)(whole >> 32);
    for (uint32_t at = (uint32_t)whole & v->mask;; at = (at + 1) & v->mask) {
        struct vocabulary_slot *slot = &v->slot[at];
        if (slot->place == 0) return slot;
        if (slot->hash != *hash) continue;
        /* The bytes may hold a NUL, which a word does not. */
        const char *word = v->words.text[slot->place - 1];
        if (strnlen(word, bytes + 1) == bytes && memcmp(word, text, bytes) == 0) return slot;
    }
}

void vocabulary_place(struct vocabulary *v, struct arena *arena, const struct reader_vocabulary *words)
{
    size_t slot_count = slots_of(words);
    CHECK(words->word_count < READER_NONE && slot_count <= (size_t)1 << 32);
    *v = (struct vocabulary){.words = *words,
                             .slot = arena_take(arena, sizeof(struct vocabulary_slot) * slot_count),
                             .mask = (uint32_t)(slot_count - 1)};
    for (uint32_t word = 0; word < words->word_count; word++) {
        uint32_t hash;
        struct vocabulary_slot *slot = slot_find(v, words->text[word], strlen(words->text[word]), &hash);
        if (slot->place == 0) *slot = (struct vocabulary_slot){.hash = hash, .place = word + 1};
    }
}

uint32_t vocabulary_find(const struct vocabulary *v, const char *text, size_t bytes)
{
    uint32_t hash;
    const struct vocabulary_slot *slot = slot_find(v, text, bytes, &hash);
    return slot->place ? slot->place - 1 : v->words.unknown;
}
