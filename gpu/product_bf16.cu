/* Products of factors in bfloat16 (gpu/product_mma.h): an mma takes sixteen terms, a chunk of
 * shared memory has eight numbers. */
#include "gpu/product_mma.h"
#include "gpu/product_packed.h"

#define bf16_packed_128x256_args  product_args
#define bf16_packed_128x128_args  product_args
#define bf16_packed_128x64_args   product_args
#define bf16_forward_256x128_args product_args
#define bf16_forward_128x128_args product_args
#define bf16_forward_64x64_args   product_args
#define bf16_din_256x128_args     product_args
#define bf16_din_128x128_args     product_args
#define bf16_din_64x64_args       product_args
#define bf16_dweight_256x128_args product_args
#define bf16_dweight_128x128_args product_args
#define bf16_dweight_64x64_args   product_args
MMA_PRODUCT_LARGE(bf16_forward_256x128, PASS_OF_FORWARD, BF16_BYTES)
MMA_PRODUCT(bf16_forward_128x128, PASS_OF_FORWARD, BF16_BYTES, 128, 128, 64, 32)
MMA_PRODUCT(bf16_forward_64x64, PASS_OF_FORWARD, BF16_BYTES, 64, 64, 32, 16)
MMA_PRODUCT_LARGE(bf16_din_256x128, PASS_OF_DIN, BF16_BYTES)
MMA_PRODUCT(bf16_din_128x128, PASS_OF_DIN, BF16_BYTES, 128, 128, 64, 32)
MMA_PRODUCT(bf16_din_64x64, PASS_OF_DIN, BF16_BYTES, 64, 64, 32, 16)
MMA_PRODUCT_LARGE(bf16_dweight_256x128, PASS_OF_DWEIGHT, BF16_BYTES)
MMA_PRODUCT(bf16_dweight_128x128, PASS_OF_DWEIGHT, BF16_BYTES, 128, 128, 64, 32)
MMA_PRODUCT(bf16_dweight_64x64, PASS_OF_DWEIGHT, BF16_BYTES, 64, 64, 32, 16)
PACKED_PRODUCT(bf16_packed_128x256, BF16_BYTES, 256, PACKED_STAGES_256, 1)
PACKED_PRODUCT(bf16_packed_128x128, BF16_BYTES, 128, PACKED_STAGES_128, 2)
PACKED_PRODUCT(bf16_packed_128x64, BF16_BYTES, 64, PACKED_STAGES_64, 2)
