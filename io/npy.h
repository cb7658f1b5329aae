/* One array in one file, in the format of NumPy's numpy.save (NumPy manual,
 * numpy.lib.format, versions 1.0, 2.0 and 3.0):
 *
 *   offset  bytes   meaning
 *   0       6       0x93 "NUMPY"
 *   6       2       version: major, minor
 *   8       2 or 4  H: bytes of the header; 2 in version 1, 4 in versions 2 and 3; little-endian
 *   10, 12  H       header: a Python dictionary, padded with spaces:
 *                   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *   then    rest    the elements: row-major, or column-major if fortran_order is True
 *
 * Files are written in version 1.0, with the data 64-byte aligned. Versions 2 and 3 differ only in longer
 * headers, and in names of fields, which only structured types have. */
#ifndef HETERPS_IO_NPY_H
#define HETERPS_IO_NPY_H

#include "io/safetensors.h"

struct npy {
    /* Has no name; type, rank, shape, data and bytes are set. Types have the names of safetensors: '<f4' is
     * F32, and '<V2', as NumPy stores bfloat16, is BF16. */
    struct safetensors_tensor array;
    bool is_fortran; /* column-major; false if both orders are the same */
};

/* Reads a file's bytes, whatever they are. The array fills them exactly, or INVALID says what is wrong at
 * which byte: another format or version, a big-endian type, a type without a name above (texts, objects,
 * fields, complex numbers), more than SAFETENSORS_RANK_MAX dimensions, a file that is cut. `path` is for
 * messages. Allocates nothing; npy points into `data`. */
MUST_USE status npy_open(struct npy *npy, const char *path, const uint8_t *data, size_t bytes);

/* Writes the header of a row-major array: type, rank and shape are read. The caller then puts the
 * elements until writer->written_bytes is *file_bytes, and commits. INVALID: more bytes than a file
 * can have. IO as file_writer_put. */
MUST_USE status npy_header_put(struct file_writer *writer, const struct safetensors_tensor *array,
                               uint64_t *file_bytes);

#endif
