// Shapes of a model's values for extents that vary, inferred once for each set of extents.
#pragma once

#include "kernels/bounded_cache.hpp"
#include "kernels/model.hpp"

#include <mutex>

namespace penstock {

/// Thread safe: a model is shared by all its stages.
class shapes_by_extent {
public:
  using specs = std::vector<tensor_spec>;
  /// Of every value, with batch 1.
  std::shared_ptr<const specs> of(const model& m, const std::array<std::int64_t, most_extents>& extents);

private:
  struct hash {
    std::size_t operator()(const std::array<std::int64_t, most_extents>& extents) const;
  };
  static constexpr std::size_t most_kept = 512;
  std::mutex mutex_;
  bounded_cache<std::array<std::int64_t, most_extents>, const specs, hash> cache_{most_kept};
};

} // namespace penstock
