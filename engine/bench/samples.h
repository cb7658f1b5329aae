/* The texts of some sample models, which the program carries, so that a benchmark needs no file. */
#ifndef HETERPS_ENGINE_BENCH_SAMPLES_H
#define HETERPS_ENGINE_BENCH_SAMPLES_H

/* The text of samples/NAME.cfg, with a final 0. NULL: there is none of that name. */
const char *sample_text(const char *name);

#endif
