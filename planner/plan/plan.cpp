// What a plan says in words, and whether it can run.
#include "planner/plan/plan.hpp"
