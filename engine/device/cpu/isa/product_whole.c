/* A right factor packed whole, for several products that share it: a tree's weights serve every height of its
 * nodes (cells.c). Blocks of PRODUCT_TERMS terms lie one after another, each as product.c would pack it. */
#include "engine/device/cpu/isa/product_pack.h"

#define WHOLE_COLS (PACK_VECTORS * VF) /* of a piece */
uint32_t KERNEL(product_whole_pieces)(const struct product *p) { return (p->cols + WHOLE_COLS - 1) / WHOLE_COLS; }

void KERNEL(product_whole_pack)(const struct product *p, float *whole, uint32_t piece)
{
    uint32_t col = piece * WHOLE_COLS, cols = count_from(col, p->cols, WHOLE_COLS);
    for (uint32_t begin = 0; begin < p->terms; begin += PRODUCT_TERMS) {
        uint32_t terms = count_from(begin, p->terms, PRODUCT_TERMS);
        const float *right = p->right + begin * p->right_term + col * p->right_col;
        float *to = whole + begin * whole_cols(p->cols) + (size_t)col * terms;
        if (p->right_col == 1)
            pack_rows(to, right, p->right_term, terms, cols, NULL);
        else
            pack_cols(to, right, p->right_col, terms, cols);
    }
}
