// Tries everything and explains.
#include "planner/explore/explore.hpp"
