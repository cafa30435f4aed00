// Data for any model, from its inputs' description alone: for profiles, trials and `--data synthetic`.
#pragma once

#include "actors/dataset.hpp"
#include "kernels/model.hpp"

namespace penstock::actors {

/// Numbers in [-1, 1), integers in [0, below), lengths that fill their extent; the same in every epoch, from the seed.
/// Extents are nominal unless given. For a model that hands a state from minibatch to minibatch they are columns, in
/// whole rounds of minibatches, one at least.
class made_up_data final : public dataset {
public:
  made_up_data(const model& net, std::int64_t samples, std::uint64_t seed = 1,
               const std::vector<std::int64_t>& extents = {});
  std::int64_t size() const override { return samples_; }
  std::string description() const override;
  std::vector<data_input> inputs() const override;
  std::vector<std::string> counts() const override { return counts_; }
  std::vector<std::string> extents() const override;
  std::int64_t columns(const batching& how) const override { return carries_ ? how.batch * how.column_blocks : 0; }
  minibatches_ptr minibatches(const batching& how) const override;

private:
  struct filling {
    std::int64_t constant = -1; ///< lengths
    std::vector<float> numbers; ///< of a sample
  };
  friend class made_up_minibatches;
  std::vector<data_input> inputs_;
  std::vector<filling> fillings_; // by input
  std::vector<std::string> counts_;
  std::vector<double> counted_; // in a sample
  std::vector<model_extent> extents_;
  std::array<std::int64_t, most_extents> sizes_{};
  std::int64_t samples_;
  std::uint64_t seed_;
  bool carries_;
};

} // namespace penstock::actors
