/* Parameter servers: their cost is apart from the plan's, and the same for every plan. */
#include <math.h>

#include "sched/provision.h"

#define SECONDS_PER_HOUR 3600.0

uint32_t provision_server_cores(const struct instance *i, double throughput)
{
    double cores = ceil(i->server_seconds * throughput);
    if (!(cores > 0)) return 0;
    return cores < UINT32_MAX ? (uint32_t)cores : UINT32_MAX;
}

double provision_server_cost(const struct instance *i, double throughput)
{
    uint32_t cores = provision_server_cores(i, throughput);
    return cores ? cores * i->server_price * (i->epochs * i->examples / throughput) / SECONDS_PER_HOUR : 0;
}
