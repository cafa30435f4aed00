// Shares of the replicas of one process.
#include "actors/optimizer/gradient_reducer.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::actors {

namespace {

class local_reducer final : public gradient_reducer {
public:
  explicit local_reducer(int replicas) : replicas_(static_cast<std::size_t>(replicas)) {}

  effects begin(std::int64_t stretch) override {
    stretch_ = stretch;
    open_.clear();
    return {};
  }

  effects take(gradient_share_msg m) override {
    check(m.stretch == stretch_, "a gradient share of another stretch");
    auto& u = open_[m.group];
    u.gradients.resize(replicas_);
    u.gradients.at(static_cast<std::size_t>(m.replica)) = std::move(m.gradients);
    u.minibatches += m.minibatches;
    u.holds_from = std::min(u.holds_from, m.holds_from);
    if (++u.shares < replicas_) return {};
    if (replicas_ == 1) {
      u.sum = std::move(u.gradients.front());
      return {};
    }
    u.sum = std::make_shared<std::vector<tensor>>();
    return {sum_replicas{std::move(u.gradients), u.sum}};
  }

  effects take(gradient_bucket_msg) override {
    throw error("[message] a gradient bucket came for a stage whose replicas are all here");
  }

  effects reduced(reduced_msg) override {
    throw error("[message] a bucket's sum came for a stage whose replicas are all here");
  }

  std::optional<gradient_sum> take_sum(std::int64_t group) override {
    const auto found = open_.find(group);
    if (found == open_.end() || !found->second.sum) return {};
    auto u = std::move(found->second);
    open_.erase(found);
    return gradient_sum{group, u.minibatches, u.holds_from, std::move(u.sum)};
  }

  std::string describe() const override {
    if (open_.empty()) return {};
    const auto& [group, u] = *open_.begin();
    return "has " + std::to_string(u.shares) + " of " + std::to_string(replicas_) + " gradients of update " +
           std::to_string(group);
  }

private:
  struct open_update {
    std::size_t shares = 0;
    std::int64_t minibatches = 0;
    std::int64_t holds_from = gradient_share_msg::holds_none;
    std::vector<gradients_ptr> gradients; // by replica
    gradients_ptr sum;                    // when all are there
  };
  std::size_t replicas_;
  std::int64_t stretch_ = 0;
  std::map<std::int64_t, open_update> open_;
};

} // namespace

std::unique_ptr<gradient_reducer> make_local_reducer(int replicas) {
  return std::make_unique<local_reducer>(replicas);
}

} // namespace penstock::actors
