// Clips with captions.
#pragma once

#include "apps/data/bucketed_text.hpp"
#include "apps/data/caption_words.hpp"

#include <memory>

namespace penstock::apps {

struct clip_options {
  std::int64_t most_steps = 80; ///< of an unrolling: frames, words and the end
  std::int64_t most_words = 20; ///< of a caption; what is longer is cut
  length_options lengths;
};

struct clip_pair {
  std::unique_ptr<actors::dataset> train;
  std::unique_ptr<actors::dataset> test; ///< null where there is none
};

/// Files with frames (clip_frames), and beside each, with the same name but for ".tsv", its captions (read_captions);
/// several of a clip are a sample each.
struct clip_files {
  std::string train;
  std::string test; ///< "" where there is none
};
/// `where` is a folder with train.safetensors and perhaps test.safetensors, valid.safetensors or dev.safetensors (the
/// first of them), a file, or two files with a comma between. Throws usage_error for another ending.
clip_files clip_files_of(const std::string& where);
std::string captions_beside(const std::string& frames_file);

/// Inputs as s2vt has them (apps/models/s2vt.hpp), of words that the training captions have. Where a clip and its
/// caption are too long, the caption is cut to most_words first, then the clip. Counts: samples, tokens (words and
/// ends).
///
/// Throws error for what clip_frames and read_captions refuse, a caption of a clip that is not there or has another
/// number of frames, and frames of two sizes; usage_error for a limit that leaves no room.
clip_pair open_clips(const std::string& where, const clip_options& options);

} // namespace penstock::apps
