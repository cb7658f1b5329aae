/* Products of factors in TensorFloat-32 (gpu/product_mma.h): an mma takes eight terms, a chunk of shared memory has four numbers. */
#include "gpu/product_mma.h"

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
