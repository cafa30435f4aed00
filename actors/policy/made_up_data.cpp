// As cheap as samples can be, and no two alike.
#include "actors/made_up_data.hpp"

#include "actors/policy/epoch_minibatches.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::actors {

namespace {

std::uint64_t next(std::uint64_t& state) {
  return state = state * 6364136223846793005ULL + 1442695040888963407ULL;
}

// What of a sample its labels count: the last integers that the loss reads, each of them.
double counted_by_loss(const model_loss& loss, const model& net, const std::vector<data_input>& inputs) {
  double counted = 1;
  for (const auto id : loss.inputs)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (net.inputs()[i].value == id && !is_floating(inputs[i].spec.type) && !net.inputs()[i].length_of)
        counted = static_cast<double>(element_count(inputs[i].spec.dims));
  return counted;
}

} // namespace

made_up_data::made_up_data(const model& net, std::int64_t samples, std::uint64_t seed,
                           const std::vector<std::int64_t>& extents)
    : counts_(net.counts()), counted_(net.counts().size(), 1), extents_(net.extents()), samples_(samples), seed_(seed),
      carries_(net.carries()) {
  for (std::size_t e = 0; e < extents_.size(); ++e)
    sizes_[e] = e < extents.size() ? extents[e] : extents_[e].nominal;
  std::uint64_t state = seed;
  for (const auto& wanted : net.inputs()) {
    const auto& value = net.value(wanted.value);
    data_input input{.name = value.name, .spec = value.spec, .below = wanted.below};
    input.spec.dims.erase(input.spec.dims.begin());
    for (std::size_t axis = 0; axis < wanted.extents.size(); ++axis) {
      const auto e = wanted.extents[axis];
      input.extents.push_back(e ? extents_[static_cast<std::size_t>(*e)].name : "");
      if (e) input.spec.dims[axis] = sizes_[static_cast<std::size_t>(*e)];
    }
    filling how;
    if (wanted.length_of) how.constant = sizes_[static_cast<std::size_t>(*wanted.length_of)];
    if (input.spec.type == dtype::f32) {
      how.numbers.resize(static_cast<std::size_t>(element_count(input.spec.dims)));
      for (auto& n : how.numbers)
        n = static_cast<float>(next(state) >> 40) * 0x1p-23F - 1;
    }
    inputs_.push_back(std::move(input));
    fillings_.push_back(std::move(how));
  }
  for (const auto& loss : net.losses())
    if (loss.count > 0) counted_[loss.count] = counted_by_loss(loss, net, inputs_);
}

std::string made_up_data::description() const {
  return "made-up data: " + std::to_string(samples_) + " samples";
}

std::vector<data_input> made_up_data::inputs() const {
  return inputs_;
}

std::vector<std::string> made_up_data::extents() const {
  std::vector<std::string> names;
  for (const auto& e : extents_)
    names.push_back(e.name);
  return names;
}

class made_up_minibatches final : public minibatch_list {
public:
  made_up_minibatches(const made_up_data& data, const batching& how)
      : data_(data), plan_(samples_of(data, how), how.batch, how.last), batch_(how.batch), blocks_(how.column_blocks) {}
  std::int64_t per_epoch() const override { return plan_.per_epoch(); }
  std::int64_t least_samples() const override { return plan_.tail() > 0 ? plan_.tail() : batch_; }

  minibatch_facts facts(std::int64_t minibatch) const override {
    const auto range = plan_.at(minibatch);
    minibatch_facts facts{.epoch = range.epoch, .samples = range.samples, .extents = data_.sizes_};
    if (data_.carries_) facts.column = range.first / batch_ % blocks_ * batch_;
    for (std::size_t c = 0; c < data_.counted_.size(); ++c)
      facts.counts[c] = data_.counted_[c] * static_cast<double>(range.samples);
    return facts;
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    const auto at = plan_.at(minibatch).first + first;
    for (std::size_t i = 0; i < into.size(); ++i)
      fill(into[i], i, at);
  }

private:
  static std::int64_t samples_of(const made_up_data& data, const batching& how) {
    if (!data.carries_) return data.samples_;
    const auto round = data.columns(how);
    return std::max<std::int64_t>(1, data.samples_ / round) * round;
  }

  void fill(tensor& t, std::size_t input, std::int64_t first) const {
    const auto& how = data_.fillings_[input];
    const auto samples = t.dim(0);
    const auto each = samples > 0 ? t.elements() / samples : 0;
    const auto below = static_cast<std::uint64_t>(std::max<std::int64_t>(1, data_.inputs_[input].below));
    for (std::int64_t s = 0; s < samples; ++s) {
      if (t.type() == dtype::f32) {
        std::copy(how.numbers.begin(), how.numbers.end(), t.data<float>() + s * each);
        continue;
      }
      check(t.type() == dtype::i64, "made-up data of another type");
      std::uint64_t state = data_.seed_ * 2654435761U + input;
      auto* out = t.data<std::int64_t>() + s * each;
      for (std::int64_t n = 0; n < each; ++n) // consecutive samples have consecutive classes
        out[n] = how.constant >= 0
                     ? how.constant
                     : static_cast<std::int64_t>(
                           (static_cast<std::uint64_t>(first + s) + (n > 0 ? next(state) >> 33 : 0)) % below);
    }
  }

  const made_up_data& data_;
  epoch_minibatches plan_;
  std::int64_t batch_;
  int blocks_;
};

minibatches_ptr made_up_data::minibatches(const batching& how) const {
  return std::make_shared<made_up_minibatches>(*this, how);
}

} // namespace penstock::actors
