// Checks a profile and answers for sizes between the measured ones.
#include "planner/profile/profile.hpp"
