/* The texts of some sample models, which the program carries with it: so a benchmark needs no file. */
#ifndef HETERPS_ENGINE_BENCH_SAMPLES_H
#define HETERPS_ENGINE_BENCH_SAMPLES_H

/* Of samples/NAME.cfg; ends with 0. NULL: there is none of that name. */
const char *sample_text(const char *name);

#endif
