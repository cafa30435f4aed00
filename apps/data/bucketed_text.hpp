// What data sets of token sequences share: minibatches by length, padded.
#pragma once

#include "actors/dataset.hpp"
#include "apps/data/length_buckets.hpp"

namespace penstock::apps {

struct length_options {
  std::int64_t bucket_width = 0; ///< 0: length_buckets' own
  std::int64_t batch_tokens = 0; ///< not 0: instead of the batching's samples
};

/// A data set whose samples have one length, or two (source and target); each is an extent of the model. Immutable once
/// its constructor is through.
class bucketed_text : public actors::dataset {
public:
  std::int64_t size() const override;
  std::vector<std::string> extents() const override;
  std::vector<std::string> counts() const override { return {"samples", "tokens"}; }
  actors::minibatches_ptr minibatches(const actors::batching& how) const override;

  /// Which samples such minibatches have, and what padding costs.
  length_buckets buckets(const actors::batching& how) const;

  /// What a sample may depend on beside itself: pairs and masks are made anew in every epoch.
  struct drawing {
    std::uint64_t seed = 0;
    std::int64_t epoch = 0;
    bool training = true;
  };
  /// Of these samples by their numbers; see minibatch_facts::counts.
  virtual std::array<double, most_counts> counted(const drawing& from, std::span<const std::int64_t> samples) const;
  /// Fills plain tensors, one for each of inputs(), a row for each of the samples.
  virtual void fill(const drawing& from, std::span<const std::int64_t> samples, std::span<tensor> into) const = 0;

protected:
  struct side {
    std::string extent;
    std::int64_t most = 0;             ///< longest that a row may be, padding included
    std::vector<std::int32_t> lengths; ///< of every sample
  };

  explicit bucketed_text(const length_options& options) : options_(options) {}
  void set_sides(std::vector<side> sides) { sides_ = std::move(sides); }
  const std::vector<side>& sides() const { return sides_; }

private:
  length_options options_;
  std::vector<side> sides_;
};

} // namespace penstock::apps
