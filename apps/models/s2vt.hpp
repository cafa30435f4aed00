// S2VT (Venugopalan et al., arXiv:1505.00487): two LSTMs read the frames of a clip, then write its caption.
#pragma once

#include "apps/models/registry.hpp"
#include "kernels/model_builder.hpp"

namespace penstock::apps {

/// Inputs, all with the steps of one unrolling as "time" (frames first, then the caption): frames f32 (B, T, frame
/// size), words i64 (B, T): the word before, 0 while frames are read and where the caption begins; labels i64 (B, T):
/// the word, 0 where the caption ends, -1 where nothing counts; stage f32 (B, T, 1): 1 where words are written;
/// continues f32 (B, T): 0 where the LSTMs begin anew. Where there is no frame, or word, there is a zero.
model_entry s2vt_entry();

struct s2vt_geometry {
  std::int64_t frame_size = 4096;   ///< features of a frame: fc7 of the published VGG network
  std::int64_t frame_width = 500;   ///< what becomes of them
  std::int64_t word_width = 500;    ///< of the embedding
  std::int64_t hidden = 1000;       ///< of each LSTM
  std::int64_t vocabulary = 46'168; ///< the end, what is unknown, and words
  std::int64_t steps = 80;          ///< of an unrolling, nominal
};

/// Of options --frame-size, --length, --width and the vocabulary. Throws usage_error that begins with the option.
s2vt_geometry s2vt_geometry_of(const model_options& options);

/// To write word by word: what the LSTMs begin with, and then the result has what they end with; else zeros.
struct s2vt_memory {
  value_id h1{}, c1{}, h2{}, c2{};
};

/// Values that the layers read, as s2vt_entry() says; `continues` where there is no memory.
struct s2vt_values {
  value_id frames{}, words{}, stage{}, continues{};
};

struct s2vt_written {
  value_id logits{}; ///< (B, T, vocabulary)
  s2vt_memory memory;
};

s2vt_written add_s2vt(model_builder& b, const s2vt_geometry& g, const s2vt_values& read,
                      const s2vt_memory* memory = nullptr);

/// One step, to read a frame or to write a word. Inputs: frames (B, 1, frame size), words (B, 1), stage (B, 1, 1), h1,
/// c1, h2, c2 (B, H); results: logits (B, 1, vocabulary), and h1, c1, h2, c2 behind the step.
model s2vt_step(const s2vt_geometry& g);

} // namespace penstock::apps
