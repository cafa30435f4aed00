// The states of a model's graph.
#include "planner/search/layer_graph.hpp"
