// Looks at a data set for what the network must be like.
#include "apps/runner/data_facts.hpp"

#include "apps/data/clip_frames.hpp"
#include "apps/data/clips.hpp"
#include "apps/data/labelled_text.hpp"
#include "apps/data/text_stream.hpp"
#include "apps/text/open_tokenizer.hpp"
#include "apps/text/translation_tokens.hpp"
#include "kernels/check.hpp"
#include "kernels/safetensors.hpp"

#include <algorithm>

namespace penstock::apps {

namespace {

namespace fs = std::filesystem;

// Class folders, as apps/data counts them. A folder that cannot be read says nothing: opening it will.
std::int64_t class_folders(const fs::path& folder) {
  std::error_code ignored;
  const auto train = fs::is_directory(folder / "train", ignored) ? folder / "train" : folder;
  std::int64_t count = 0;
  for (fs::directory_iterator at(train, ignored), end; !ignored && at != end; at.increment(ignored)) {
    if (at->is_directory(ignored) && !at->path().filename().string().starts_with('.')) ++count;
  }
  return count;
}

// Files of another form than (N, C, S, S) say nothing here either.
data_facts tensor_facts(const fs::path& file) {
  memory_pool pool;
  const auto contents = read_safetensors(file, pool);
  const auto input = contents.tensors.find("input");
  if (input == contents.tensors.end() || input->second.rank() != 4) return {};
  const auto& dims = input->second.dims();
  if (dims[2] != dims[3])
    throw error(file.string() + ": input has images of " + std::to_string(dims[2]) + " x " + std::to_string(dims[3]) +
                ", wanted square ones");
  return {.image_size = dims[2], .channels = dims[1]};
}

data_facts clip_facts(const std::string& where) {
  const auto files = clip_files_of(where);
  return {.vocabulary = caption_words(read_captions(captions_beside(files.train))).size(),
          .frame_size = features_of_frames(files.train)};
}

data_facts facts_of_data(const std::string& spec) {
  const auto colon = std::min(spec.find(':'), spec.size());
  const auto kind = spec.substr(0, colon);
  const auto argument = spec.substr(std::min(colon + 1, spec.size()));
  if (argument.empty()) return {};
  if (kind == "labelled-text") return {.classes = labels_in(argument)};
  if (kind == "imagefolder") return {.classes = class_folders(argument)};
  if (kind == "clips") return clip_facts(argument);
  if (kind == "tensors") return tensor_facts(argument);
  return {};
}

} // namespace

data_facts facts_of(const std::string& spec, const text_options& text) {
  auto facts = facts_of_data(spec);
  constexpr std::string_view stream = "text:";
  if (text.tokenizer.empty() && spec.starts_with(stream) && spec.size() > stream.size())
    facts.vocabulary = words_in(spec.substr(stream.size()), text.vocabulary > 0 ? text.vocabulary : usual_words);
  if (text.tokenizer.empty()) return facts;
  std::shared_ptr<const tokenizer> tokens = open_tokenizer(text.tokenizer);
  facts.vocabulary =
      spec.starts_with("parallel:") ? translation_tokens(tokens).vocabulary_size() : tokens->vocabulary_size();
  return facts;
}

} // namespace penstock::apps
