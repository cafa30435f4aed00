// Data of tiny_translations.hpp: the target begins with 2 and ends with 3.
#include "tests/support/tiny_translations.hpp"

#include "actors/policy/epoch_minibatches.hpp"

#include <algorithm>

namespace penstock::testing {

namespace {

class translation_minibatches final : public actors::minibatch_list {
public:
  translation_minibatches(const tiny_translations& data, const actors::batching& how)
      : data_(data), ranges_(data.size(), how.batch, how.last), batch_(how.batch) {}
  std::int64_t per_epoch() const override { return ranges_.per_epoch(); }
  std::int64_t least_samples() const override { return ranges_.tail() > 0 ? ranges_.tail() : batch_; }

  actors::minibatch_facts facts(std::int64_t minibatch) const override {
    const auto range = ranges_.at(minibatch);
    actors::minibatch_facts facts{.epoch = range.epoch, .samples = range.samples};
    facts.counts[0] = static_cast<double>(range.samples);
    for (std::int64_t s = range.first; s < range.first + range.samples; ++s) {
      facts.counts[1] += static_cast<double>(data_.target_length(s));
      facts.extents[0] = std::max(facts.extents[0], even(data_.source_length(s)));
      facts.extents[1] = std::max(facts.extents[1], even(std::max<std::int64_t>(1, data_.target_length(s))));
    }
    return facts;
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    first += ranges_.at(minibatch).first;
    for (std::int64_t i = 0; i < into[0].dim(0); ++i) {
      const auto s = first + i, length = data_.target_length(s);
      into[1].data<std::int64_t>()[i] = data_.source_length(s);
      fill(into[0], i, [&](std::int64_t t) { return t < data_.source_length(s) ? data_.token(s, 0, t) : 0; });
      fill(into[2], i, [&](std::int64_t t) { return t >= length ? 0 : t == 0 ? 2 : data_.token(s, 1, t - 1); });
      fill(into[3], i, [&](std::int64_t t) { return t >= length ? 0 : t + 1 == length ? 3 : data_.token(s, 1, t); });
    }
  }

private:
  static std::int64_t even(std::int64_t length) { return (length + 1) / 2 * 2; }
  template <class Token>
  static void fill(tensor& rows, std::int64_t row, Token token) {
    for (std::int64_t t = 0; t < rows.dim(1); ++t)
      rows.data<std::int64_t>()[row * rows.dim(1) + t] = token(t);
  }

  const tiny_translations& data_;
  actors::epoch_minibatches ranges_;
  std::int64_t batch_;
};

} // namespace

std::int64_t tiny_translations::mixed(std::int64_t a, std::int64_t b) const {
  std::uint64_t z = (static_cast<std::uint64_t>(a) + seed_) * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(b);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return static_cast<std::int64_t>((z ^ (z >> 31)) >> 2);
}

std::vector<actors::data_input> tiny_translations::inputs() const {
  const tensor_spec source{dtype::i64, {6}}, target{dtype::i64, {6}};
  return {{.name = "source", .spec = source, .extents = {"source_time"}, .below = vocabulary},
          {.name = "source_lengths", .spec = {dtype::i64, {}}},
          {.name = "target_in", .spec = target, .extents = {"target_time"}, .below = vocabulary},
          {.name = "labels", .spec = target, .extents = {"target_time"}, .below = vocabulary}};
}

actors::minibatches_ptr tiny_translations::minibatches(const actors::batching& how) const {
  return std::make_shared<translation_minibatches>(*this, how);
}

} // namespace penstock::testing
