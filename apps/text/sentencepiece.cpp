// The library behind the interface.
#include "apps/text/sentencepiece.hpp"

#include "kernels/check.hpp"
#include "kernels/input_file.hpp"

#include <sentencepiece_processor.h>

namespace penstock::apps {

namespace {

constexpr std::uint64_t largest_model = 256'000'000;

const char* name_of_model(int type) {
  switch (type) {
  case 1:
    return "unigram";
  case 2:
    return "BPE";
  case 3:
    return "words";
  default:
    return "characters";
  }
}

std::optional<std::int64_t> known(int id) {
  if (id < 0) return std::nullopt;
  return id;
}

class sentencepiece_model final : public tokenizer {
public:
  explicit sentencepiece_model(std::string_view model) : facts_(check_sentencepiece(model)) {
    const auto status = library_.LoadFromSerializedProto({model.data(), model.size()});
    if (!status.ok()) throw error(std::string("sentencepiece refuses it: ") + status.message());
    special_ = {.pad = known(library_.pad_id()),
                .unknown = known(library_.unk_id()),
                .begin = known(library_.bos_id()),
                .end = known(library_.eos_id())};
  }

  std::int64_t vocabulary_size() const override { return library_.GetPieceSize(); }
  const special_ids& special() const override { return special_; }
  std::string description() const override {
    return std::string("sentencepiece, ") + name_of_model(facts_.model_type) + ", " +
           std::to_string(library_.GetPieceSize()) + " pieces";
  }

private:
  token_ids encode_valid(std::string_view text) const override {
    std::vector<int> ids;
    const auto status = library_.Encode({text.data(), text.size()}, &ids);
    if (!status.ok()) throw error(std::string("sentencepiece: ") + status.message());
    return {ids.begin(), ids.end()};
  }

  std::string decode_valid(std::span<const std::int64_t> ids) const override {
    std::string text;
    const auto status = library_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok()) throw error(std::string("sentencepiece: ") + status.message());
    return text;
  }

  std::string token_valid(std::int64_t id) const override { return library_.IdToPiece(static_cast<int>(id)); }

  sentencepiece_facts facts_;
  sentencepiece::SentencePieceProcessor library_;
  special_ids special_;
};

} // namespace

std::unique_ptr<tokenizer> open_sentencepiece(const std::filesystem::path& model_file) {
  const auto model = read_whole_file(model_file, largest_model);
  try {
    return std::make_unique<sentencepiece_model>(model);
  } catch (const error& fault) {
    throw error(model_file.string() + ": " + fault.what());
  }
}

} // namespace penstock::apps
