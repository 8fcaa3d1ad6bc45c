/* Sums a vector over all processes of MPI_COMM_WORLD, and says what came of it. */
#include <mpi.h>
#include <stdio.h>

enum { N = 1000 };

int main(int argc, char **argv)
{
    int rank, size;
    double mine[N], sums[N];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < N; i++)
        mine[i] = (rank + 1) * (double)i;
    MPI_Allreduce(mine, sums, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++)
        if (sums[i] != size * (size + 1) / 2 * (double)i)
            MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        printf("%d processes, last sum %.0f\n", size, sums[N - 1]);
    MPI_Finalize();
    return 0;
}
