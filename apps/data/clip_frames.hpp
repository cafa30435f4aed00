// Frames of many clips, from one safetensors file.
#pragma once

#include "kernels/memory_pool.hpp"
#include "kernels/tensor.hpp"

#include <span>
#include <string>

namespace penstock::apps {

/// `frames`, u8 (0 to 255 become 0 to 1) or f32, (all frames, ...): what follows the first axis is flattened to a
/// frame's features, pixels or a network's. `first_frames`, i64 (clips + 1): where each clip begins and, last, where
/// all end. Immutable.
class clip_frames {
public:
  /// Throws error that names the file: what read_safetensors() refuses, tensors that are missing or of another form,
  /// clips that do not follow each other, one without frames (by its number), none at all, numbers that are not finite.
  explicit clip_frames(const std::string& file);

  const std::string& file() const { return file_; }
  std::int64_t clips() const { return first_frames_.dim(0) - 1; }
  std::int64_t features() const { return features_; }
  std::int64_t frames_of(std::int64_t clip) const { return begin_of(clip + 1) - begin_of(clip); }
  /// The first frames of a clip, as many as `to` holds: frame after frame.
  void copy(std::int64_t clip, std::span<float> to) const;

private:
  std::int64_t begin_of(std::int64_t clip) const { return first_frames_.data<std::int64_t>()[clip]; }
  void check_forms() const;
  void check_clips() const;

  memory_pool pool_;
  std::string file_;
  tensor frames_;
  tensor first_frames_;
  std::int64_t features_ = 0;
};

/// clip_frames::features() of a file that could be opened. Throws likewise.
std::int64_t features_of_frames(const std::string& file);

} // namespace penstock::apps
