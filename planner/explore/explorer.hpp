// One exploration from its request to everything that was tried.
#pragma once

#include "planner/explore/proposals.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::planner {

/// What is made of layers that the model keeps together (profile::kept_together).
enum class model_hints : std::uint8_t { ignored, kept };

class explorer {
public:
  /// Checks the inputs. Throws std::invalid_argument, one line. All three must outlive it.
  explorer(const profile& p, const cluster& c, const plan_request& request, model_hints hints = model_hints::ignored);

  /// The best proposals of the searches, each with its choices of credits (and of M, where replicas ask for multiples),
  /// simulated.
  std::vector<trial> run() const;

  /// The partitions that miss least of the devices' memory, by the searches' model, simulated.
  std::vector<trial> run_least_missing() const;

  /// Below this nothing on so many devices is: all layers, each where and at the size at which a sample is fastest, in
  /// perfect balance. 0 where devices stream, for smaller parts may fit their chips.
  double least_seconds(int devices) const;

  const pins& fixed() const { return fixed_; }
  int device_count() const { return machines_.device_count(); }
  int places_to_cut() const { return graph_.states() - 2; }

private:
  layer_graph make_graph() const;
  exploration shared() const;
  std::vector<int> counts_of_microbatches(const proposal& p) const;
  std::vector<std::vector<std::int64_t>> credits_for(const proposal& p, int microbatches, std::string& refusal) const;
  void try_credits(const proposal& p, int microbatches, std::vector<trial>& trials) const;
  void try_less_lag(std::vector<trial>& trials) const;

  const profile& profile_;
  const plan_request& request_;
  pins fixed_;
  cluster machines_;
  layer_graph graph_;
  std::vector<setting> settings_;
};

} // namespace penstock::planner
