// Unrolls clips and captions one behind the other.
#include "apps/data/clips.hpp"

#include "apps/data/clip_frames.hpp"
#include "apps/data/token_rows.hpp"
#include "apps/data/two_parts.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>

namespace penstock::apps {

namespace {

constexpr std::string_view ending = ".safetensors";
constexpr std::int64_t no_label = -1;

class clips final : public bucketed_text {
public:
  clips(const std::string& file, std::shared_ptr<const caption_words> words, const clip_options& options)
      : bucketed_text(options.lengths), frames_(file), words_(std::move(words)), options_(options) {
    const auto captions = captions_beside(file);
    std::int64_t line = 0;
    for (const auto& caption : read_captions(captions))
      add(caption, captions + ": line " + std::to_string(++line));
    std::vector<std::int32_t> lengths;
    for (std::size_t i = 0; i < clip_of_.size(); ++i)
      lengths.push_back(static_cast<std::int32_t>(read_of_[i] + written(i)));
    set_sides({{"time", options_.most_steps, std::move(lengths)}});
  }

  std::int64_t features() const { return frames_.features(); }

  std::vector<actors::data_input> inputs() const override {
    const auto most = options_.most_steps;
    const tensor_spec ids{dtype::i64, {most}}, frames{dtype::f32, {most, features()}}, stage{dtype::f32, {most, 1}},
        factors{dtype::f32, {most}};
    return {{.name = "frames", .spec = frames, .extents = {"time", ""}},
            {.name = "words", .spec = ids, .extents = {"time"}, .below = words_->size()},
            {.name = "stage", .spec = stage, .extents = {"time", ""}},
            {.name = "continues", .spec = factors, .extents = {"time"}},
            {.name = "labels", .spec = ids, .extents = {"time"}, .below = words_->size()}};
  }

  std::array<double, most_counts> counted(const drawing&, std::span<const std::int64_t> samples) const override {
    std::int64_t tokens = 0;
    for (const auto sample : samples)
      tokens += written(static_cast<std::size_t>(sample));
    return {static_cast<double>(samples.size()), static_cast<double>(tokens)};
  }

  void fill(const drawing&, std::span<const std::int64_t> samples, std::span<tensor> into) const override {
    const auto time = into[0].dim(1);
    for (const std::size_t zeros : {0, 2, 3})
      std::fill_n(into[zeros].data<float>(), into[zeros].elements(), 0.0F);
    std::fill_n(into[1].data<std::int64_t>(), into[1].elements(), caption_words::end);
    std::fill_n(into[4].data<std::int64_t>(), into[4].elements(), no_label);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto sample = static_cast<std::size_t>(samples[i]);
      const auto row = static_cast<std::int64_t>(i) * time, read = read_of_[sample];
      const auto caption = captions_.row(sample);
      frames_.copy(clip_of_[sample],
                   {into[0].data<float>() + row * features(), static_cast<std::size_t>(read * features())});
      std::copy(caption.begin(), caption.end(), into[1].data<std::int64_t>() + row + read + 1);
      std::fill_n(into[2].data<float>() + row + read, written(sample), 1.0F);
      std::fill_n(into[3].data<float>() + row + 1, read + written(sample) - 1, 1.0F);
      *std::copy(caption.begin(), caption.end(), into[4].data<std::int64_t>() + row + read) = caption_words::end;
    }
  }

  std::string description() const override {
    std::string text = "clips: " + std::to_string(size()) + " captions of " + std::to_string(frames_.clips()) +
                       " clips from " + frames_.file() + ", " + std::to_string(words_->size()) + " words";
    if (cut_captions_ > 0)
      text +=
          ", " + std::to_string(cut_captions_) + " captions cut to " + std::to_string(options_.most_words) + " words";
    if (cut_clips_ > 0)
      text += ", " + std::to_string(cut_clips_) + " clips cut, so that " + std::to_string(options_.most_steps) +
              " steps hold them";
    return text;
  }

private:
  // Words and the end.
  std::int64_t written(std::size_t sample) const { return static_cast<std::int64_t>(captions_.row(sample).size()) + 1; }

  void add(const clip_caption& caption, const std::string& place) {
    if (caption.clip >= frames_.clips())
      throw error(place + ": found clip " + std::to_string(caption.clip) + ", wanted 0 to " +
                  std::to_string(frames_.clips() - 1) + ", which " + frames_.file() + " has");
    auto read = frames_.frames_of(caption.clip);
    if (caption.frames != read)
      throw error(place + ": found " + std::to_string(caption.frames) + " frames of clip " +
                  std::to_string(caption.clip) + ", wanted the " + std::to_string(read) + " of " + frames_.file());
    auto ids = words_->encode(caption.text);
    if (static_cast<std::int64_t>(ids.size()) > options_.most_words) {
      ids.resize(static_cast<std::size_t>(options_.most_words));
      ++cut_captions_;
    }
    const auto room = options_.most_steps - static_cast<std::int64_t>(ids.size()) - 1;
    if (read > room) {
      read = room;
      ++cut_clips_;
    }
    clip_of_.push_back(caption.clip);
    read_of_.push_back(read);
    captions_.add(ids);
  }

  clip_frames frames_;
  std::shared_ptr<const caption_words> words_;
  clip_options options_;
  std::vector<std::int64_t> clip_of_; // by sample
  std::vector<std::int64_t> read_of_; // frames of it that are read
  token_rows captions_;
  std::int64_t cut_captions_ = 0;
  std::int64_t cut_clips_ = 0;
};

} // namespace

clip_files clip_files_of(const std::string& where) {
  const auto parts =
      two_parts_of(where, "train.safetensors", {"test.safetensors", "valid.safetensors", "dev.safetensors"});
  for (const auto& file : {parts.train, parts.test})
    if (!file.empty() && !file.ends_with(ending))
      throw usage_error("clips: found " + in_quotes(file) + ", wanted a folder or files that end in .safetensors");
  return {parts.train, parts.test};
}

std::string captions_beside(const std::string& frames_file) {
  return frames_file.substr(0, frames_file.size() - ending.size()) + ".tsv";
}

clip_pair open_clips(const std::string& where, const clip_options& options) {
  const auto least = options.most_words + 2; // a frame, words, the end
  if (options.most_steps < least)
    throw usage_error("clips: found a limit of " + std::to_string(options.most_steps) + " steps, wanted at least " +
                      std::to_string(least) + ": a frame, " + std::to_string(options.most_words) +
                      " words and their end");
  const auto files = clip_files_of(where);
  const auto words = std::make_shared<const caption_words>(read_captions(captions_beside(files.train)));
  auto train = std::make_unique<clips>(files.train, words, options);
  if (files.test.empty()) return {std::move(train), nullptr};
  auto test = std::make_unique<clips>(files.test, words, options);
  if (test->features() != train->features())
    throw error(files.test + ": frames have " + std::to_string(test->features()) + " features, wanted the " +
                std::to_string(train->features()) + " of " + files.train);
  return {std::move(train), std::move(test)};
}

} // namespace penstock::apps
