// How a stream of tokens is cut: into columns, and columns into pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace penstock::apps {

/// Which tokens a column predicts from. Throws nothing: the stream has as many tokens as that takes.
struct column_layout {
  std::int64_t stride = 0; ///< tokens from one column's first to the next one's
  std::int64_t steps = 0;  ///< predictions of a column, padding included
  std::int64_t total = 0;  ///< that the stream has

  static column_layout of(std::int64_t tokens, std::int64_t columns, bool training);
  std::int64_t begin(std::int64_t column, std::int64_t step) const { return column * stride + step; }
  /// Of `steps` steps of a column from `first` on: those that predict a token of the stream.
  std::int64_t counted(std::int64_t column, std::int64_t first, std::int64_t count) const;
};

struct stream_piece {
  std::int64_t first = 0; ///< step of the column
  std::int64_t steps = 0;
};

/// The pieces of an epoch, as text_stream.hpp says. Thread safe.
class stream_pieces {
public:
  stream_pieces(std::int64_t steps, std::int64_t length, std::uint64_t seed, bool training);
  std::int64_t count() const { return static_cast<std::int64_t>(drawn_.size()); } ///< of each epoch
  stream_piece at(std::int64_t epoch, std::int64_t piece) const;

private:
  using layout_ptr = std::shared_ptr<const std::vector<stream_piece>>;
  layout_ptr layout_of(std::int64_t epoch) const;

  std::vector<std::int64_t> drawn_; // lengths
  std::uint64_t seed_;
  bool is_shuffled_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::int64_t, layout_ptr>> layouts_; // of the two epochs that a pipeline can straddle
};

} // namespace penstock::apps
