/* What sums_table.py compares sums over links with: MPI_Allreduce, which it compiles where there is Open MPI:
 *     mpicc.openmpi -O3 sums_mpi.c; mpirun.openmpi --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo -np N ./a.out
 * Prints for 64 MiB, 4 MiB and 1 KiB the median of the seconds of a turn, each of which the slowest process ends. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define TURNS_MAX 200

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
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
    for (int k = 0; k < 3; k++) {
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
