// What a model costs once layers at its front are frozen.
#pragma once

#include "planner/profile/profile.hpp"

#include <string>
#include <vector>

namespace penstock::planner {

/// The profile with those layers frozen (one flag for each; together with all that they read): they go forward only, in
/// evaluation mode, for which a profile has no time of its own, so that of the forward is taken. They keep nothing but
/// what an active layer's backward reads, their weights are there once (profile_layer::frozen_bytes) and are neither
/// summed nor updated, and tensors that only they have in common tie nothing. What frozen layers let go of is alive
/// while they run, so it counts in their workspace. An active layer that no weights lie before makes no input gradient:
/// its backward is its weights' part. Throws std::invalid_argument, one line: another number of flags, a frozen layer
/// that reads an active one, no active layer with weights, a tensor that an active layer uses too (with the deepest
/// that is possible), a profile that is frozen otherwise.
profile frozen_costs(const profile& p, const std::vector<bool>& frozen);
/// Of the first `count` layers.
profile frozen_costs(const profile& p, int count);

/// A flag for each layer: whether it is frozen in the profile.
std::vector<bool> frozen_layers(const profile& p);
/// Layers at the front of the profile that are frozen in it.
int frozen_prefix(const profile& p);
/// Whether exactly those are.
bool is_frozen_so(const profile& p, const std::vector<bool>& frozen);

/// How many layers are before that one, at least one. Throws std::invalid_argument, one line; for none such it names
/// the nearest.
int layers_before(const profile& p, const std::string& layer);

} // namespace penstock::planner
