// Plans that `--plan auto` found, kept for the next start of the same thing on the same machine.
#pragma once

#include "planner/cluster/cluster.hpp"
#include "planner/plan/plan.hpp"
#include "planner/profile/profile.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace penstock::apps {

/// `--plan-cache`: where plans are kept, and whether what is there counts.
struct plan_cache_place {
  std::filesystem::path folder; ///< empty: nothing is kept
  bool refresh = false;         ///< what is there is measured anew
  std::string note;             ///< why there is no folder, where nobody asked for that; "" else
};

/// "" or "refresh": $XDG_CACHE_HOME/penstock, else $HOME/.cache/penstock; "off"; "DIR"; "refresh:DIR". A relative
/// XDG_CACHE_HOME or HOME does not count.
plan_cache_place read_plan_cache(const std::string& option);

/// One entry: what all that decides a plan leads to. An entry is a plan's file that `--plan` takes, with the profile
/// and the cluster it was made from beside it, each written whole or not at all; of several processes that write one,
/// the last wins.
class plan_cache {
public:
  using say_line = std::function<void(const std::string&)>;

  /// `name` begins the files' names; `key` is everything that decides the plan, by name.
  plan_cache(plan_cache_place place, const std::string& name,
             const std::vector<std::pair<std::string, std::string>>& key);

  /// Nothing where there is no entry, where it must be measured anew, and where the entry is damaged or another's,
  /// which `say` is told in one line.
  std::optional<planner::plan> find(const say_line& say) const;

  /// Marks the plan as this entry's, with the time in `inputs`, and writes it; then removes the oldest entries beyond a
  /// hundred or 64 MB. Returns the plan's file, or "" where it is not kept; `say` is told why not.
  std::filesystem::path keep(planner::plan& p, const planner::profile& measured, const planner::cluster& machines,
                             const say_line& say) const;

  std::filesystem::path file() const; ///< of the plan

private:
  void remove_old() const;

  plan_cache_place place_;
  std::string stem_;
  std::string key_;
};

/// "2026-11-30 09:10 UTC" where the plan came out of a cache or went into one, else "".
std::string measured_at(const planner::plan& p);

} // namespace penstock::apps
