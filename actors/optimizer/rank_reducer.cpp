// Shares of replicas on several ranks: an all-reduce, bucket by bucket, that begins while the backward still runs.
#include "actors/optimizer/gradient_reducer.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::actors {

namespace {

// What one replica on this rank brings to an update.
struct contribution {
  std::vector<tensor> gradients; // by parameter; "none" until they are final
  std::vector<bool> ready;       // by bucket
  bool is_complete = false;      // its update action has come
  bool takes_part = false;       // it has a minibatch in this update
};

struct open_update {
  std::vector<contribution> replicas; // in the order of those here
  std::vector<tensor> result;         // by parameter
  std::vector<bool> begun;            // by bucket
  std::size_t finished = 0;           // buckets
  std::int64_t members = 0;
  std::int64_t holds_from = gradient_share_msg::holds_none;
};

class rank_reducer final : public gradient_reducer {
public:
  rank_reducer(std::vector<int> local, std::size_t parameters, bucket_cuts plan)
      : local_(std::move(local)), parameters_(parameters), plan_(std::move(plan)) {}

  effects begin(std::int64_t stretch) override {
    stretch_ = stretch;
    open_.clear();
    return {forget_reductions_before{stretch}};
  }

  effects take(gradient_bucket_msg m) override {
    if (m.stretch != stretch_) return {};
    auto& u = update_at(m.group);
    auto& mine = of(u, m.replica);
    mine.takes_part = true;
    mine.ready[m.bucket] = true;
    std::move(m.gradients.begin(), m.gradients.end(),
              mine.gradients.begin() + static_cast<std::ptrdiff_t>(plan_[m.bucket].first));
    return begin_ready_buckets(m.group, u);
  }

  effects take(gradient_share_msg m) override {
    if (m.stretch != stretch_) return {};
    auto& u = update_at(m.group);
    auto& mine = of(u, m.replica);
    mine.is_complete = true;
    auto& given = *m.gradients;
    mine.takes_part = std::any_of(given.begin(), given.end(), [](const tensor& t) { return bool(t); }) ||
                      (m.minibatches > 0 && given.empty());
    mine.gradients = std::move(given);
    u.holds_from = std::min(u.holds_from, m.holds_from);
    return begin_ready_buckets(m.group, u);
  }

  effects reduced(reduced_msg m) override {
    if (m.stretch != stretch_) return {};
    const auto found = open_.find(m.group);
    check(found != open_.end(), "a bucket of an update that is not open");
    auto& u = found->second;
    std::move(m.gradients.begin(), m.gradients.end(),
              u.result.begin() + static_cast<std::ptrdiff_t>(plan_[m.bucket].first));
    u.members += m.members;
    ++u.finished;
    return {};
  }

  // All buckets may be summed before the replica's own update action comes: its backward has only just ended.
  std::optional<gradient_sum> take_sum(std::int64_t group) override {
    const auto found = open_.find(group);
    if (found == open_.end()) return {};
    auto& u = found->second;
    const auto is_complete = [](const contribution& c) { return c.is_complete; };
    if (u.finished < plan_.size() || !std::all_of(u.replicas.begin(), u.replicas.end(), is_complete)) return {};
    if (u.members == 0) u.result.assign(parameters_, {}); // nothing counts anywhere
    gradient_sum sum{group, u.members, u.holds_from, std::make_shared<std::vector<tensor>>(std::move(u.result))};
    open_.erase(found);
    return sum;
  }

  std::string describe() const override {
    if (open_.empty()) return {};
    const auto& [group, u] = *open_.begin();
    const auto begun = std::count(u.begun.begin(), u.begun.end(), true);
    return "sums update " + std::to_string(group) + ": of " + std::to_string(plan_.size()) + " buckets " +
           std::to_string(begun) + " are begun here, " + std::to_string(u.finished) + " are summed";
  }

private:
  open_update& update_at(std::int64_t group) {
    auto& u = open_[group];
    if (!u.replicas.empty()) return u;
    u.replicas.resize(local_.size());
    for (auto& r : u.replicas) {
      r.gradients.resize(parameters_);
      r.ready.resize(plan_.size());
    }
    u.result.resize(parameters_);
    u.begun.resize(plan_.size());
    return u;
  }

  contribution& of(open_update& u, int replica) const {
    const auto at = std::find(local_.begin(), local_.end(), replica);
    return u.replicas.at(static_cast<std::size_t>(at - local_.begin()));
  }

  effects begin_ready_buckets(std::int64_t group, open_update& u) {
    effects out;
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      const auto has = [&](const contribution& c) { return c.is_complete || c.ready[b]; };
      if (u.begun[b] || !std::all_of(u.replicas.begin(), u.replicas.end(), has)) continue;
      u.begun[b] = true;
      reduce_bucket reduction{stretch_, group, b, b + 1 == plan_.size(), {}};
      for (const auto& r : u.replicas) {
        auto& part = reduction.gradients.emplace_back();
        if (!r.takes_part) continue;
        part.emplace(r.gradients.begin() + static_cast<std::ptrdiff_t>(plan_[b].first),
                     r.gradients.begin() + static_cast<std::ptrdiff_t>(plan_[b].last));
      }
      out.emplace_back(std::move(reduction));
    }
    return out;
  }

  std::vector<int> local_;
  std::size_t parameters_;
  bucket_cuts plan_;
  std::int64_t stretch_ = 0;
  std::map<std::int64_t, open_update> open_; // by update of the stretch
};

} // namespace

std::unique_ptr<gradient_reducer> make_rank_reducer(std::vector<int> local, std::size_t parameters, bucket_cuts plan) {
  return std::make_unique<rank_reducer>(std::move(local), parameters, std::move(plan));
}

} // namespace penstock::actors
