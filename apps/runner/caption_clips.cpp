// One step after the other through the stages: frames first, then each word that was written goes in again.
#include "apps/runner/caption_clips.hpp"

#include "actors/checkpoint/weights_file.hpp"
#include "actors/inference/inference_pipeline.hpp"
#include "actors/run_control.hpp"
#include "apps/data/clip_frames.hpp"
#include "apps/data/clips.hpp"
#include "apps/models/s2vt.hpp"
#include "apps/runner/command_line.hpp"
#include "apps/runner/exit_codes.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/say.hpp"
#include "apps/runner/signals.hpp"
#include "kernels/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>

namespace penstock::apps {

namespace {

constexpr auto patience = std::chrono::minutes(10); // for a step

struct caption_options {
  std::string clips, weights;
  model_options network;
  clip_options limits;
  std::int64_t batch = 64;
  actors::inference_options pipeline;
};

bool read_options(command_line& line, caption_options& o, std::span<const std::string> arguments) {
  line.text(
      "--caption", o.clips, "SPEC",
      "DIR or TRAIN.safetensors,TEST.safetensors as in --data clips: its test clips are captioned, with the words "
      "of its training captions");
  line.text("--weights", o.weights, "FILE", "safetensors, as --save-weights writes them");
  line.real("--width", o.network.width, 1e-6, widest, "As the model was trained");
  line.whole("--vocabulary", o.network.vocabulary, 1, 1 << 24, "As the model was trained [the captions' words]");
  line.whole("--max-length", o.limits.most_steps, 2, 1 << 20, "Frames and words of a clip, as the model was trained");
  line.whole("--max-words", o.limits.most_words, 1, 1 << 20, "Words of a caption at most");
  line.whole("--batch", o.batch, 1, 1 << 20, "Clips that are captioned together");
  line.whole("--stages", o.pipeline.stages, 1, 1024, "Stages of the pipeline");
  line.whole("--threads", o.pipeline.threads, 1, 1024, "Compute threads per stage [cores / stages]");
  line.flag("--reference-kernels", o.pipeline.reference_kernels, "Plain loops instead of oneDNN");
  line.footer("Exit codes: 0 done, 1 failed, 2 usage, 130 SIGINT, 143 SIGTERM.\n");
  if (!line.parse(arguments)) return false;
  for (const auto& [option, value] : {std::pair("--caption", o.clips), std::pair("--weights", o.weights)})
    if (value.empty()) throw usage_error(std::string(option) + ": wanted " + option + " with a value");
  return true;
}

class captioner {
public:
  explicit captioner(caption_options o)
      : options_(std::move(o)), files_(of_option("--caption", [&] { return clip_files_of(options_.clips); })),
        words_(of_option("--caption", [&] { return caption_words(read_captions(captions_beside(files_.train))); })),
        frames_(files_.test.empty() ? files_.train : files_.test) {
    auto& network = options_.network;
    if (network.vocabulary == 0) network.vocabulary = words_.size();
    if (network.vocabulary < words_.size())
      throw usage_error(fmt::format("--vocabulary: found {}, wanted at least the {} words of {}", network.vocabulary,
                                    words_.size(), captions_beside(files_.train)));
    network.own["frame-size"] = std::to_string(frames_.features());
    geometry_ = s2vt_geometry_of(network);
    const auto whole = std::make_shared<const model>(find_model("s2vt").build(network));
    auto found = actors::read_weights(whole, {.file = options_.weights}, pool_);
    step_ = std::make_shared<const model>(s2vt_step(geometry_));
    work_ = of_option("--stages", [&] {
      return std::make_unique<actors::inference_pipeline>(
          std::vector{step_}, actors::weights_of({std::move(found.whole)}), options_.pipeline);
    });
  }

  int run(const actors::run_control& control) {
    for (std::int64_t first = 0; first < frames_.clips() && !control.stop; first += options_.batch) {
      const auto captions = captions_of(first, std::min(options_.batch, frames_.clips() - first), control);
      if (control.stop) break;
      for (const auto& ids : captions)
        say(words_.decode(ids) + "\n");
    }
    return signal_guard::exit_code();
  }

private:
  struct clip {
    std::vector<float> frames;
    std::int64_t count = 0;
    std::vector<std::int64_t> ids;
    bool is_done = false;
  };

  std::vector<clip> read(std::int64_t first, std::int64_t count) const {
    std::vector<clip> clips(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      auto& one = clips[static_cast<std::size_t>(i)];
      one.count = std::min(frames_.frames_of(first + i), options_.limits.most_steps - 1);
      one.frames.resize(static_cast<std::size_t>(one.count * frames_.features()));
      frames_.copy(first + i, one.frames);
    }
    return clips;
  }

  tensor zeros(dtype type, shape dims) {
    auto t = tensor::allocate(pool_, type, std::move(dims), memory_use::activations);
    std::fill_n(static_cast<std::byte*>(t.raw()), t.bytes(), std::byte{0});
    return t;
  }

  // What goes in at step `t`: a frame, or the word before.
  std::vector<tensor> inputs_at(std::int64_t t, const std::vector<clip>& clips) {
    const auto rows = static_cast<std::int64_t>(clips.size()), features = frames_.features();
    std::vector<tensor> inputs{zeros(dtype::f32, {rows, 1, features}), zeros(dtype::i64, {rows, 1}),
                               zeros(dtype::f32, {rows, 1, 1})};
    for (std::size_t i = 0; i < clips.size(); ++i) {
      const auto& one = clips[i];
      if (t < one.count) {
        std::copy_n(one.frames.data() + t * features, features,
                    inputs[0].data<float>() + static_cast<std::int64_t>(i) * features);
        continue;
      }
      inputs[1].data<std::int64_t>()[i] = one.ids.empty() ? caption_words::end : one.ids.back();
      inputs[2].data<float>()[i] = 1;
    }
    return inputs;
  }

  std::vector<tensor> step(std::int64_t rows, std::vector<tensor> inputs) {
    const auto answer = std::make_shared<std::promise<std::vector<tensor>>>();
    auto there = answer->get_future();
    work_->start(0, {.samples = rows}, std::move(inputs),
                 [answer](std::vector<tensor> results, const std::exception_ptr& failure) {
                   if (failure)
                     answer->set_exception(failure);
                   else
                     answer->set_value(std::move(results));
                 });
    if (there.wait_for(patience) != std::future_status::ready)
      throw error("[captions] no stage has answered for ten minutes");
    return there.get();
  }

  void take_words(std::int64_t t, const tensor& logits, std::vector<clip>& clips) const {
    const auto width = logits.dims().back();
    for (std::size_t i = 0; i < clips.size(); ++i) {
      auto& one = clips[i];
      if (t < one.count || one.is_done) continue;
      const auto* const begin = logits.data<float>() + static_cast<std::int64_t>(i) * width;
      one.ids.push_back(std::max_element(begin, begin + width) - begin);
      one.is_done = one.ids.back() == caption_words::end ||
                    static_cast<std::int64_t>(one.ids.size()) == options_.limits.most_words;
    }
  }

  std::vector<std::vector<std::int64_t>> captions_of(std::int64_t first, std::int64_t count,
                                                     const actors::run_control& control) {
    auto clips = read(first, count);
    std::vector<tensor> memory(4, zeros(dtype::f32, {count, geometry_.hidden}));
    for (std::int64_t t = 0; !control.stop; ++t) {
      auto inputs = inputs_at(t, clips);
      inputs.insert(inputs.end(), memory.begin(), memory.end());
      const auto results = step(count, std::move(inputs));
      take_words(t, results.front(), clips);
      if (std::all_of(clips.begin(), clips.end(), [](const clip& c) { return c.is_done; })) break;
      memory.assign(results.begin() + 1, results.end());
    }
    std::vector<std::vector<std::int64_t>> captions;
    for (auto& one : clips)
      captions.push_back(std::move(one.ids));
    return captions;
  }

  caption_options options_;
  clip_files files_;
  caption_words words_;
  clip_frames frames_;
  s2vt_geometry geometry_;
  memory_pool pool_;
  std::shared_ptr<const model> step_;
  std::unique_ptr<actors::inference_pipeline> work_;
};

} // namespace

int caption_clips(int argc, char** argv) {
  return run_guarded("s2vt", [&]() -> int {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    command_line line("s2vt --caption", "Prints a caption for each clip.");
    caption_options options;
    if (!read_options(line, options, arguments)) {
      say(line.help_text());
      return done;
    }
    actors::run_control control;
    const signal_guard signals(control, "s2vt");
    return captioner(std::move(options)).run(control);
  });
}

} // namespace penstock::apps
