/* Products of factors in TensorFloat-32 (gpu/product_mma.h): an mma takes eight terms, a chunk of
 * shared memory has four numbers. */
#include "gpu/product_mma.h"
#include "gpu/product_packed.h"

#define tf32_packed_128x256_args  product_args
#define tf32_packed_128x128_args  product_args
#define tf32_packed_128x64_args   product_args
#define tf32_forward_256x128_args product_args
#define tf32_forward_128x128_args product_args
#define tf32_forward_64x64_args   product_args
#define tf32_din_256x128_args     product_args
#define tf32_din_128x128_args     product_args
#define tf32_din_64x64_args       product_args
#define tf32_dweight_256x128_args product_args
#define tf32_dweight_128x128_args product_args
#define tf32_dweight_64x64_args   product_args
MMA_PRODUCT_LARGE(tf32_forward_256x128, PASS_OF_FORWARD, TF32_BYTES)
MMA_PRODUCT(tf32_forward_128x128, PASS_OF_FORWARD, TF32_BYTES, 128, 128, 64, 32)
MMA_PRODUCT(tf32_forward_64x64, PASS_OF_FORWARD, TF32_BYTES, 64, 64, 32, 16)
MMA_PRODUCT_LARGE(tf32_din_256x128, PASS_OF_DIN, TF32_BYTES)
MMA_PRODUCT(tf32_din_128x128, PASS_OF_DIN, TF32_BYTES, 128, 128, 64, 32)
MMA_PRODUCT(tf32_din_64x64, PASS_OF_DIN, TF32_BYTES, 64, 64, 32, 16)
MMA_PRODUCT_LARGE(tf32_dweight_256x128, PASS_OF_DWEIGHT, TF32_BYTES)
MMA_PRODUCT(tf32_dweight_128x128, PASS_OF_DWEIGHT, TF32_BYTES, 128, 128, 64, 32)
MMA_PRODUCT(tf32_dweight_64x64, PASS_OF_DWEIGHT, TF32_BYTES, 64, 64, 32, 16)
PACKED_PRODUCT(tf32_packed_128x256, TF32_BYTES, 256, PACKED_STAGES_256, 1)
PACKED_PRODUCT(tf32_packed_128x128, TF32_BYTES, 128, PACKED_STAGES_128, 2)
PACKED_PRODUCT(tf32_packed_128x64, TF32_BYTES, 64, PACKED_STAGES_64, 2)
