// Finds the format that a specification names.
#include "apps/data/data.hpp"

#include "actors/made_up_data.hpp"
#include "apps/data/clips.hpp"
#include "apps/data/formats.hpp"
#include "apps/data/labelled_text.hpp"
#include "apps/data/masked_text.hpp"
#include "apps/data/parallel_text.hpp"
#include "apps/data/sequence_tensors.hpp"
#include "apps/data/squad_text.hpp"
#include "apps/data/text_stream.hpp"
#include "apps/text/open_tokenizer.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace penstock::apps {
namespace {

template <class Opened>
struct data_kind {
  std::string name;
  std::string argument; ///< what follows the colon; "" when nothing does
  std::function<Opened(const std::string& argument, const data_options&)> open;

  std::string form() const { return argument.empty() ? name : name + ":" + argument; }
};

// `of`: what they are for, where that must be said.
template <class Opened>
Opened open_kind(const std::vector<data_kind<Opened>>& kinds, const data_options& options, const std::string& of) {
  const auto colon = options.spec.find(':');
  const auto name = options.spec.substr(0, colon);
  const auto argument = colon == std::string::npos ? "" : options.spec.substr(colon + 1);
  std::vector<std::string> names;
  std::vector<std::string> forms;
  for (const auto& kind : kinds) {
    if (kind.name == name) {
      const bool complete = kind.argument.empty() ? colon == std::string::npos : !argument.empty();
      if (!complete) throw usage_error("data " + in_quotes(options.spec) + ": wanted " + kind.form());
      return kind.open(argument, options);
    }
    names.push_back(kind.name);
    forms.push_back(kind.form());
  }
  throw usage_error("unknown data " + in_quotes(options.spec) + did_you_mean(name, names) + ", wanted " +
                    join(forms, ", ") + of);
}

const std::vector<data_kind<image_pair>>& image_kinds() {
  using options = data_options;
  static const std::vector<data_kind<image_pair>> kinds{
      {"fashion-mnist", "DIR",
       [](const auto& a, const options& o) { return open_idx("fashion-mnist", a, fashion_mnist_normalization(), o); }},
      {"idx", "DIR", [](const auto& a, const options& o) { return open_idx("idx", a, mnist_normalization(), o); }},
      {"cifar10", "DIR", [](const auto& a, const options& o) { return open_cifar10(a, o); }},
      {"imagefolder", "DIR", [](const auto& a, const options& o) { return open_image_folder(a, o); }},
      {"tensors", "FILE.safetensors", [](const auto& a, const options& o) { return open_tensors(a, o); }},
      {"synthetic", "", [](const auto&, const options& o) { return open_synthetic(o); }},
  };
  return kinds;
}

void require_positive(const char* what, std::int64_t value) {
  if (value < 1) throw usage_error(std::string(what) + " is " + std::to_string(value) + ", wanted at least 1");
}

} // namespace

image_pair open_images(const data_options& options) {
  require_positive("the image size", options.image_size);
  require_positive("the number of channels", options.channels);
  require_positive("the number of classes", options.classes);
  return open_kind(image_kinds(), options, "");
}

namespace {

// Samples of numbers and ids at random, from the model's inputs alone.
data_pair open_made_up(const data_options& options) {
  const auto test_samples = std::max<std::int64_t>(1, options.synthetic_samples / 4);
  return {std::make_unique<actors::made_up_data>(*options.net, options.synthetic_samples, options.seed),
          std::make_unique<actors::made_up_data>(*options.net, test_samples, options.seed + 1),
          {}};
}

std::shared_ptr<const tokenizer> tokenizer_of(const data_options& options) {
  if (options.text.tokenizer.empty())
    throw usage_error("data " + in_quotes(options.spec) + ": text needs a tokenizer: wanted --tokenizer FILE");
  return open_tokenizer(options.text.tokenizer);
}

// No longer than the model can take, where it says.
std::int64_t most_tokens_of(const data_options& options, std::int64_t usual) {
  std::int64_t most = options.text.most_tokens > 0 ? options.text.most_tokens : usual;
  for (const auto& e : options.net->extents()) {
    if (e.most == 0 || most <= e.most) continue;
    if (options.text.most_tokens > 0)
      throw usage_error("found " + std::to_string(most) + " tokens of a sequence (--max-length), wanted at most the " +
                        std::to_string(e.most) + " that " + options.net->name() + " takes");
    most = e.most;
  }
  return most;
}

length_options lengths_of(const data_options& options) {
  return {.bucket_width = options.text.bucket_width, .batch_tokens = options.text.batch_tokens};
}

data_pair open_labelled(const std::string& where, const data_options& options) {
  auto pair = open_labelled_text(where, {.tokens = tokenizer_of(options),
                                         .most_tokens = most_tokens_of(options, 128),
                                         .classes = options.classes,
                                         .lengths = lengths_of(options)});
  return {std::move(pair.train), std::move(pair.test), {}};
}

data_pair open_questions(const std::string& where, const data_options& options) {
  auto pair = open_squad(where, {.tokens = tokenizer_of(options),
                                 .windows = {.most_tokens = most_tokens_of(options, 384)},
                                 .lengths = lengths_of(options)});
  return {std::move(pair.train), std::move(pair.test), {}};
}

data_pair open_parallel(const std::string& where, const data_options& options) {
  constexpr std::int64_t usual = 50; // MLPerf's
  auto pair = open_parallel_text(where, {.tokens = std::make_shared<translation_tokens>(tokenizer_of(options)),
                                         .most_tokens = most_tokens_of(options, usual),
                                         .lengths = lengths_of(options)});
  return {std::move(pair.train), std::move(pair.test), {}};
}

data_pair open_masked(const std::string& where, const data_options& options) {
  if (options.text.batch_tokens > 0)
    throw usage_error("--batch-tokens: samples of masked-text fill --max-length, wanted --batch N");
  auto pair = open_masked_text(where, {.tokens = tokenizer_of(options), .most_tokens = most_tokens_of(options, 128)});
  return {std::move(pair.train), std::move(pair.test), {}};
}

// Pieces are as long as the model's nominal extent.
data_pair open_stream(const std::string& where, const data_options& options) {
  for (const auto& [option, given] :
       {std::pair("--max-length", options.text.most_tokens), std::pair("--batch-tokens", options.text.batch_tokens)})
    if (given > 0)
      throw usage_error(std::string(option) + ": not for text:, a stream that --batch and --length cut into pieces");
  text_stream_options how;
  if (options.text.vocabulary > 0) how.most_words = options.text.vocabulary;
  if (!options.text.tokenizer.empty()) how.tokens = tokenizer_of(options);
  for (const auto& e : options.net->extents())
    if (e.name == "time") how.length = e.nominal;
  auto pair = open_text_stream(where, how);
  return {std::move(pair.train), std::move(pair.test), {}};
}

data_pair open_captioned(const std::string& where, const data_options& options) {
  auto pair = open_clips(
      where, {.most_steps = most_tokens_of(options, clip_options{}.most_steps), .lengths = lengths_of(options)});
  return {std::move(pair.train), std::move(pair.test), {}};
}

const std::vector<data_kind<data_pair>>& sequence_kinds() {
  static const std::vector<data_kind<data_pair>> kinds{
      {"labelled-text", "DIR or TRAIN.tsv,TEST.tsv",
       [](const auto& a, const data_options& o) { return open_labelled(a, o); }},
      {"masked-text", "DIR or TRAIN.txt,VALID.txt",
       [](const auto& a, const data_options& o) { return open_masked(a, o); }},
      {"squad", "DIR or TRAIN.json,DEV.json",
       [](const auto& a, const data_options& o) { return open_questions(a, o); }},
      {"parallel", "DIR, PAIRS.tsv or SOURCE,TARGET",
       [](const auto& a, const data_options& o) { return open_parallel(a, o); }},
      {"text", "DIR or TRAIN.txt,VALID.txt", [](const auto& a, const data_options& o) { return open_stream(a, o); }},
      {"tensors", "FILE.safetensors",
       [](const auto& a, const data_options& o) {
         return data_pair{open_sequence_tensors(a, *o.net), nullptr, {}};
       }},
      {"clips", "DIR or TRAIN.safetensors,TEST.safetensors",
       [](const auto& a, const data_options& o) { return open_captioned(a, o); }},
      {"synthetic", "", [](const auto&, const data_options& o) { return open_made_up(o); }},
  };
  return kinds;
}

} // namespace

data_pair open_data(const data_options& options) {
  if (options.net != nullptr) return open_kind(sequence_kinds(), options, " for " + options.net->name());
  auto images = open_images(options);
  return {std::move(images.train), std::move(images.test), images.conversion};
}

} // namespace penstock::apps
