/* What sums_table.py compares sums over links with: MPI_Allreduce, which it compiles where there is Open MPI:
 *     mpicc.openmpi -O3 sums_mpi.c; mpirun.openmpi --mca pml ob1 --mca btl tcp,self \
 *         --mca btl_tcp_if_include lo -np N ./a.out
 * Prints for 64 MiB, 4 MiB and 1 KiB the median of the seconds of a turn, each of which the slowest process
 * ends. With a FILE it does not: then four lanes of numbers are added up, each process adding its own ones
 * first, and the sums are written there, to compare with those of another N. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TURNS_MAX 200

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { LANES = 4, LANE = 1 << 20 };

/* Number i of a lane, in [-1, 1): splitmix64's (Steele, Lea, Flood, OOPSLA 2014). */
static float number(uint64_t lane, uint64_t i)
{
    uint64_t z = (lane * LANE + i + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (float)(int64_t)(z ^ z >> 31) * 0x1p-63f;
}

/* Sums of the same four lanes, whoever has them. */
static void lanes_add(int rank, int count, const char *path)
{
    static float own[LANE], sum[LANE];
    for (int lane = rank * LANES / count; lane < (rank + 1) * LANES / count; lane++)
        for (int i = 0; i < LANE; i++) own[i] += number((uint64_t)lane, (uint64_t)i);
    MPI_Allreduce(own, sum, LANE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (rank > 0) return;
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(sum, sizeof sum, 1, file) != 1 || fclose(file) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        size_t bytes;
        int turns;
    } sizes[] = {{"64 MiB", (size_t)64 << 20, 3}, {"4 MiB", (size_t)4 << 20, 16}, {"1 KiB", 1024, TURNS_MAX}};
    int rank, count;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if (argc > 1) lanes_add(rank, count, argv[1]);
    for (int k = 0; argc == 1 && k < 3; k++) {
        const int floats = (int)(sizes[k].bytes / sizeof(float));
        float *own = malloc(sizes[k].bytes), *sum = malloc(sizes[k].bytes);
        double seconds[TURNS_MAX];
        if (own == NULL || sum == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
        for (int i = 0; i < floats; i++) own[i] = (float)(rank + 1);
        for (int turn = -1; turn < sizes[k].turns; turn++) { /* the first one is not counted */
            MPI_Barrier(MPI_COMM_WORLD);
            const double begin = MPI_Wtime();
            MPI_Allreduce(own, sum, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            const double here = MPI_Wtime() - begin;
            double all;
            MPI_Allreduce(&here, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            if (turn >= 0) seconds[turn] = all;
        }
        if (sum[floats / 2] != (float)(count * (count + 1) / 2)) MPI_Abort(MPI_COMM_WORLD, 1);
        qsort(seconds, (size_t)sizes[k].turns, sizeof *seconds, by_value);
        if (rank == 0) printf("%s: %.9f s\n", sizes[k].name, seconds[sizes[k].turns / 2]);
        free(own);
        free(sum);
    }
    MPI_Finalize();
    return 0;
}
