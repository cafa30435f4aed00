// Reads, checks and hands out frames.
#include "apps/data/clip_frames.hpp"

#include "kernels/check.hpp"
#include "kernels/finite.hpp"
#include "kernels/safetensors.hpp"

#include <algorithm>

namespace penstock::apps {

namespace {

tensor taken(const named_tensors& tensors, const std::string& file, const char* name) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    throw error(file + ": found no tensor " + name + ", wanted frames and first_frames, as clips have them");
  return found->second;
}

std::string form_of(const tensor& t) {
  return std::string(name_of(t.type())) + " " + to_string(t.dims());
}

} // namespace

clip_frames::clip_frames(const std::string& file) : file_(file) {
  const auto contents = read_safetensors(file, pool_);
  frames_ = taken(contents.tensors, file, "frames");
  first_frames_ = taken(contents.tensors, file, "first_frames");
  check_forms();
  features_ = frames_.dim(0) == 0 ? 0 : frames_.elements() / frames_.dim(0);
  check_clips();
  if (frames_.type() == dtype::f32) require_finite(frames_, file + ": frames");
}

void clip_frames::check_forms() const {
  const bool has_frames = frames_.rank() >= 2 && (frames_.type() == dtype::u8 || frames_.type() == dtype::f32);
  if (!has_frames) throw error(file_ + ": frames are " + form_of(frames_) + ", wanted U8 or F32 [frames, ...]");
  if (first_frames_.rank() != 1 || first_frames_.type() != dtype::i64 || first_frames_.dim(0) < 1)
    throw error(file_ + ": first_frames are " + form_of(first_frames_) + ", wanted I64 [clips + 1]");
}

void clip_frames::check_clips() const {
  if (clips() == 0) throw error(file_ + ": found no clips");
  if (begin_of(0) != 0 || begin_of(clips()) != frames_.dim(0))
    throw error(file_ + ": clips are frames " + std::to_string(begin_of(0)) + " to " +
                std::to_string(begin_of(clips())) + ", wanted all " + std::to_string(frames_.dim(0)) + " from 0 on");
  for (std::int64_t clip = 0; clip < clips(); ++clip) {
    if (begin_of(clip + 1) == begin_of(clip))
      throw error(file_ + ": clip " + std::to_string(clip) + " has no frames, wanted one at least");
    if (begin_of(clip + 1) < begin_of(clip))
      throw error(file_ + ": clip " + std::to_string(clip) + " ends before it begins, at frame " +
                  std::to_string(begin_of(clip + 1)) + " and " + std::to_string(begin_of(clip)));
  }
  if (features_ == 0) throw error(file_ + ": frames are " + form_of(frames_) + ", wanted some features");
}

void clip_frames::copy(std::int64_t clip, std::span<float> to) const {
  const auto count = static_cast<std::int64_t>(to.size());
  check(clip >= 0 && clip < clips() && count <= frames_of(clip) * features_, "frames that a clip has");
  const auto begin = begin_of(clip) * features_;
  if (frames_.type() == dtype::f32)
    std::copy_n(frames_.data<float>() + begin, count, to.data());
  else
    std::transform(frames_.data<std::uint8_t>() + begin, frames_.data<std::uint8_t>() + begin + count, to.data(),
                   [](std::uint8_t value) { return static_cast<float>(value) / 255.0F; });
}

std::int64_t features_of_frames(const std::string& file) {
  memory_pool pool;
  const auto contents = read_safetensors(file, pool);
  const auto frames = taken(contents.tensors, file, "frames");
  return frames.rank() < 2 || frames.dim(0) == 0 ? 0 : frames.elements() / frames.dim(0);
}

} // namespace penstock::apps
