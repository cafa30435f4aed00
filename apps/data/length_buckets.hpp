// Minibatches of samples that are about equally long.
#pragma once

#include "actors/policy/epoch_minibatches.hpp"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace penstock::apps {

struct bucket_options {
  std::int64_t width = 0;        ///< lengths of a bucket; 0: at most ten buckets, see length_buckets
  std::int64_t batch = 1;        ///< samples of a minibatch
  std::int64_t batch_tokens = 0; ///< not 0: as many samples as keep each side, padded, within so many tokens
  actors::last_batch last = actors::last_batch::keep; ///< of each bucket
  std::uint64_t seed = 0;
  bool is_shuffled = true;
};

/// What padding costs in an epoch.
struct padding_summary {
  std::int64_t minibatches = 0;
  std::int64_t tokens = 0;       ///< of all sides
  std::int64_t padded_slots = 0; ///< that hold them, padding included
  std::size_t shapes = 0;        ///< different extents of minibatches
  /// The share of slots that hold nothing.
  double share() const { return 1 - static_cast<double>(tokens) / static_cast<double>(padded_slots); }
};

/// The samples of one minibatch, and what they are padded to.
struct bucketed_minibatch {
  std::int64_t epoch = 0;
  std::span<const std::int64_t> samples; ///< by their numbers; valid as long as `keeps`
  std::vector<std::int64_t> extents;     ///< of each side
  std::shared_ptr<const void> keeps;
};

/// Samples by length: one with the lengths l_1, l_2, ... of its sides (source and target, say) is in the bucket of
/// max (l_i - 1) / width. That is MLPerf's rule for GNMT, which has five buckets of ten, but for the one: a bucket ends
/// at the length that is padded to. Of its own accord the width is 5, or a tenth of the length that 99 of 100 samples
/// keep within where that is more, and the tenth bucket has all that is longer. A side is padded to its longest of the
/// minibatch, rounded up to the width, so shapes are few; but for the last bucket's they are the
/// same in every epoch.
///
/// An epoch has every sample once (`drop`: but for those of each bucket that fill no minibatch). It is the epoch's
/// order dealt into the buckets; the minibatches are shuffled in turn. All of it follows from (seed, epoch).
/// Unshuffled: shorter buckets first, each in the data's order. Thread safe.
class length_buckets {
public:
  /// `lengths[side][sample]`, each from 0 to `most[side]`, beyond which nothing is padded. Throws usage_error for a
  /// minibatch that holds fewer tokens than the longest sample, and where none is left.
  length_buckets(std::vector<std::vector<std::int32_t>> lengths, std::vector<std::int64_t> most,
                 const bucket_options& options);

  std::int64_t per_epoch() const { return per_epoch_; }         ///< minibatches; as many in every epoch
  std::int64_t least_samples() const { return least_samples_; } ///< of a minibatch
  std::int64_t width() const { return options_.width; }

  /// By its global number, which counts on through the epochs.
  bucketed_minibatch at(std::int64_t number) const;

  padding_summary padding(std::int64_t epoch = 0) const;

private:
  struct bucket_size {
    std::int64_t samples = 0;
    std::int64_t batch = 0;
  };
  struct sample_range {
    std::int64_t first = 0;
    std::int64_t samples = 0;
  };
  struct epoch_layout {
    std::vector<std::int64_t> order; ///< bucket after bucket
    std::vector<sample_range> minibatches;
  };
  using layout_ptr = std::shared_ptr<const epoch_layout>;

  std::int64_t longest_side(std::size_t sample) const;
  std::int64_t bucket_of(std::size_t sample) const;
  void choose_width();
  void size_buckets();
  epoch_layout lay_out(std::int64_t epoch) const;
  layout_ptr layout_of(std::int64_t epoch) const;
  std::vector<std::int64_t> extents_of(std::span<const std::int64_t> samples) const;

  std::vector<std::vector<std::int32_t>> lengths_;
  std::vector<std::int64_t> most_;
  bucket_options options_;
  std::int64_t last_bucket_ = 0;
  std::vector<bucket_size> buckets_;
  std::int64_t per_epoch_ = 0;
  std::int64_t least_samples_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::int64_t, layout_ptr>> layouts_; ///< of the two epochs that a pipeline can straddle
};

} // namespace penstock::apps
