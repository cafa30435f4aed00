// Reads documents; makes a minibatch's pairs when they are asked for.
#include "apps/data/masked_text.hpp"

#include "actors/policy/epoch_minibatches.hpp"
#include "apps/data/pretraining_pairs.hpp"
#include "apps/data/two_parts.hpp"
#include "apps/text/lines.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>

namespace penstock::apps {

namespace {

constexpr std::int64_t step = 8;       // lengths of minibatches are multiples of it
constexpr std::int64_t ignored = -100; // the label of what is no prediction

document_rows read_documents(const std::string& file, const tokenizer& tokens, std::int64_t most) {
  line_reader lines(file);
  document_rows text;
  bool begins = true;
  while (const auto line = lines.next()) {
    if (line->find_first_not_of(" \t") == std::string_view::npos) {
      begins = true;
      continue;
    }
    const auto ids = tokens.encode(*line);
    std::span<const std::int64_t> left(ids);
    if (begins && !left.empty()) text.firsts.push_back(text.sentences.rows());
    begins = begins && left.empty();
    while (!left.empty()) {
      const auto now = std::min(left.size(), static_cast<std::size_t>(most));
      text.sentences.add(left.first(now));
      left = left.subspan(now);
    }
  }
  if (text.firsts.empty()) throw error(file + ": found no text, wanted sentences, one a line");
  return text;
}

pair_options options_of(const masked_text_options& options) {
  const auto& special = options.tokens->special();
  std::vector<std::string> missing;
  for (const auto& [token, id] : {std::pair("one to begin with ([CLS])", special.begin),
                                  {"one to end with ([SEP])", special.end},
                                  {"a mask ([MASK])", special.mask}})
    if (!id) missing.emplace_back(token);
  if (!missing.empty())
    throw usage_error("masked-text: found a tokenizer (" + options.tokens->description() + ") without " +
                      join(missing, ", ") + ", wanted one that has them, as BERT's");
  return {.most_tokens = options.most_tokens,
          .vocabulary = options.tokens->vocabulary_size(),
          .begin = *special.begin,
          .end = *special.end,
          .mask = *special.mask};
}

class masked_text final : public actors::dataset {
public:
  masked_text(const std::string& file, const masked_text_options& options)
      : file_(file), options_(options),
        pairs_(read_documents(file, *options.tokens, std::max<std::int64_t>(1, options.most_tokens - 3)),
               options_of(options)) {}

  std::int64_t size() const override { return pairs_.size(); }
  std::vector<std::string> counts() const override { return {"samples", "masked"}; }
  std::vector<std::string> extents() const override { return {"time", "predictions"}; }
  actors::minibatches_ptr minibatches(const actors::batching& how) const override;

  std::vector<actors::data_input> inputs() const override {
    const auto words = options_.tokens->vocabulary_size();
    const tensor_spec row{dtype::i64, {options_.most_tokens}}, number{dtype::i64, {}};
    const tensor_spec predictions{dtype::i64, {most_masked(options_.most_tokens)}};
    return {{.name = "input_ids", .spec = row, .extents = {"time"}, .below = words},
            {.name = "token_type_ids", .spec = row, .extents = {"time"}, .below = 2},
            {.name = "lengths", .spec = number},
            {.name = "masked_positions", .spec = predictions, .extents = {"predictions"}},
            {.name = "masked_labels", .spec = predictions, .extents = {"predictions"}, .below = words},
            {.name = "next_sentence_label", .spec = number, .below = 2}};
  }

  std::string description() const override {
    const auto& text = pairs_.text();
    return "masked text: " + std::to_string(size()) + " pairs of up to " + std::to_string(options_.most_tokens) +
           " tokens from " + std::to_string(text.sentences.rows()) + " sentences of " +
           std::to_string(text.firsts.size()) + (text.firsts.size() == 1 ? " document in " : " documents in ") + file_;
  }

  const pretraining_pairs& pairs() const { return pairs_; }
  std::int64_t most_tokens() const { return options_.most_tokens; }
  std::int64_t padding() const { return options_.tokens->special().pad.value_or(0); }

private:
  std::string file_;
  masked_text_options options_;
  pretraining_pairs pairs_;
};

class masked_minibatches final : public actors::minibatch_list {
public:
  masked_minibatches(const masked_text& data, const actors::batching& how)
      : data_(data), how_(how), plan_(data.size(), how.batch, how.last), orders_(data.size(), how.seed, how.training) {}

  std::int64_t per_epoch() const override { return plan_.per_epoch(); }
  std::int64_t least_samples() const override { return plan_.tail() > 0 ? plan_.tail() : how_.batch; }

  actors::minibatch_facts facts(std::int64_t minibatch) const override {
    const auto range = plan_.at(minibatch);
    actors::minibatch_facts facts{.epoch = range.epoch, .samples = range.samples};
    std::int64_t longest = 0, masked = 0;
    for (std::int64_t i = 0; i < range.samples; ++i) {
      const auto found = data_.pairs().measure(key_of(range, i));
      longest = std::max(longest, found.tokens);
      masked += found.masked;
    }
    facts.counts = {static_cast<double>(range.samples), static_cast<double>(masked)};
    const auto time = std::min((longest + step - 1) / step * step, data_.most_tokens());
    facts.extents = {time, most_masked(time)};
    return facts;
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    const auto range = plan_.at(minibatch);
    for (auto i : {1, 3})
      std::fill_n(into[i].data<std::int64_t>(), into[i].elements(), std::int64_t{0});
    std::fill_n(into[4].data<std::int64_t>(), into[4].elements(), ignored);
    for (std::int64_t row = 0; row < into[0].dim(0); ++row)
      fill(data_.pairs().make(key_of(range, first + row)), row, into);
  }

private:
  actors::sample_key key_of(const actors::minibatch_range& range, std::int64_t i) const {
    const auto epoch = how_.training ? range.epoch : 0;
    return {how_.seed, epoch, (*orders_.of(epoch))[static_cast<std::size_t>(range.first + i)]};
  }

  void fill(const pretraining_sample& sample, std::int64_t row, std::span<tensor> into) const {
    const auto length = static_cast<std::int64_t>(sample.ids.size());
    put_padded(into[0], row, sample.ids, data_.padding());
    auto* const types = into[1].data<std::int64_t>() + row * into[1].dim(1);
    std::fill(types + sample.second, types + length, 1);
    into[2].data<std::int64_t>()[row] = length;
    const auto predictions = into[3].dim(1);
    check(static_cast<std::int64_t>(sample.masked.size()) <= predictions, "a minibatch has room for what is masked");
    std::copy(sample.masked.begin(), sample.masked.end(), into[3].data<std::int64_t>() + row * predictions);
    std::copy(sample.answers.begin(), sample.answers.end(), into[4].data<std::int64_t>() + row * predictions);
    into[5].data<std::int64_t>()[row] = sample.is_random ? 1 : 0;
  }

  const masked_text& data_;
  actors::batching how_;
  actors::epoch_minibatches plan_;
  actors::epoch_orders orders_;
};

actors::minibatches_ptr masked_text::minibatches(const actors::batching& how) const {
  return std::make_shared<masked_minibatches>(*this, how);
}

} // namespace

masked_text_pair open_masked_text(const std::string& where, const masked_text_options& options) {
  check(options.tokens != nullptr, "masked text has a tokenizer");
  const auto files = two_parts_of(where, "train.txt", {"valid.txt", "test.txt"});
  masked_text_pair pair;
  pair.train = std::make_unique<masked_text>(files.train, options);
  if (!files.test.empty()) pair.test = std::make_unique<masked_text>(files.test, options);
  return pair;
}

} // namespace penstock::apps
