// Checks a cluster and answers who is joined to whom.
#include "planner/cluster/cluster.hpp"
