// Looks tensors through by the model's inputs, then copies rows of them.
#include "apps/data/sequence_tensors.hpp"

#include "actors/policy/epoch_minibatches.hpp"
#include "kernels/check.hpp"
#include "kernels/finite.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::apps {

namespace {

class row_tensors final : public actors::dataset {
public:
  row_tensors(const model& net, named_tensors tensors, std::string where) : net_(net), where_(std::move(where)) {
    for (const auto& wanted : net.inputs())
      add(wanted, tensors);
    for (const auto& wanted : net.inputs())
      check_range(wanted);
    count_labels();
  }

  std::int64_t size() const override { return samples_; }
  std::vector<actors::data_input> inputs() const override { return inputs_; }
  std::vector<std::string> counts() const override { return net_.counts(); }
  std::vector<std::string> extents() const override {
    std::vector<std::string> names;
    for (const auto& e : net_.extents())
      names.push_back(e.name);
    return names;
  }
  std::string description() const override {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      texts.push_back(inputs_[i].name + " " + to_string(values_[i].dims()));
    return "tensors: " + join(texts, ", ") + " from " + where_ + ", in file order";
  }
  actors::minibatches_ptr minibatches(const actors::batching& how) const override;

private:
  friend class row_minibatches;

  [[noreturn]] void refuse(const std::string& name, const std::string& found, const std::string& wanted) const {
    throw error(where_ + ": tensor " + in_quotes(name) + ": found " + found + ", wanted " + wanted);
  }

  void add(const model_input& wanted, named_tensors& tensors) {
    const auto& value = net_.value(wanted.value);
    const auto found = tensors.find(value.name);
    if (found == tensors.end()) {
      std::vector<std::string> names;
      for (const auto& [name, t] : tensors)
        names.push_back(name);
      throw error(where_ + ": no tensor named " + in_quotes(value.name) + did_you_mean(value.name, names) + ", which " +
                  net_.name() + " reads");
    }
    auto t = found->second;
    if (value.spec.type == dtype::i64 && t.type() == dtype::i32) t = widened(t);
    check_form(wanted, t);
    actors::data_input input{
        .name = value.name, .spec = {value.spec.type, {t.dims().begin() + 1, t.dims().end()}}, .below = wanted.below};
    for (const auto& e : wanted.extents)
      input.extents.push_back(e ? net_.extents()[static_cast<std::size_t>(*e)].name : "");
    inputs_.push_back(std::move(input));
    values_.push_back(std::move(t));
  }

  tensor widened(const tensor& t) {
    auto wide = tensor::allocate(pool_, dtype::i64, t.dims(), memory_use::scratch);
    std::copy_n(t.data<std::int32_t>(), t.elements(), wide.data<std::int64_t>());
    return wide;
  }

  // An extent is as the first tensor that has it says.
  void check_form(const model_input& wanted, const tensor& t) {
    const auto& value = net_.value(wanted.value);
    const auto form = std::string(name_of(t.type())) + " " + to_string(t.dims());
    std::string names = "(N";
    bool fits = t.type() == value.spec.type && t.dims().size() == value.spec.dims.size();
    for (std::size_t axis = 0; axis < wanted.extents.size(); ++axis) {
      const auto e = wanted.extents[axis];
      names +=
          ", " + (e ? net_.extents()[static_cast<std::size_t>(*e)].name : std::to_string(value.spec.dims[axis + 1]));
      if (!fits) continue;
      const auto found = t.dims()[axis + 1];
      if (!e) fits = found == value.spec.dims[axis + 1];
      if (e) check_extent(value.name, static_cast<std::size_t>(*e), found);
    }
    if (!fits) refuse(value.name, form, std::string(name_of(value.spec.type)) + " " + names + ")");
    if (t.dim(0) == 0) refuse(value.name, "no samples", "at least one");
    if (samples_ == 0) samples_ = t.dim(0);
    if (t.dim(0) != samples_)
      refuse(value.name, std::to_string(t.dim(0)) + " samples", std::to_string(samples_) + " as in " + inputs_[0].name);
  }

  void check_extent(const std::string& name, std::size_t extent, std::int64_t found) {
    const auto& e = net_.extents()[extent];
    auto& known = sizes_[extent];
    if (found < 1 || (e.most > 0 && found > e.most))
      refuse(name, e.name + " " + std::to_string(found),
             "1 to " + (e.most > 0 ? std::to_string(e.most) : std::string("any")));
    if (known == 0) known = found;
    if (known != found) refuse(name, e.name + " " + std::to_string(found), std::to_string(known) + " as in the others");
  }

  // Labels are the losses' to judge: some values leave a place out.
  void check_range(const model_input& wanted) const {
    const auto& value = net_.value(wanted.value);
    const auto& t = values_[place_of(wanted.value)];
    if (is_floating(t.type())) {
      require_finite(t, where_ + ": tensor " + in_quotes(value.name));
      return;
    }
    const auto below = wanted.length_of ? sizes_[static_cast<std::size_t>(*wanted.length_of)] + 1 : wanted.below;
    if (value.consumers.empty() || below == 0) return;
    const auto* const data = t.data<std::int64_t>();
    const auto* const wrong =
        std::find_if(data, data + t.elements(), [&](std::int64_t x) { return x < 0 || x >= below; });
    if (wrong != data + t.elements())
      refuse(value.name,
             std::to_string(*wrong) + " in sample " + std::to_string((wrong - data) * t.dim(0) / t.elements()),
             "0 to " + std::to_string(below - 1));
  }

  std::size_t place_of(value_id id) const {
    std::size_t place = 0;
    while (place < net_.inputs().size() && net_.inputs()[place].value != id)
      ++place;
    return place;
  }

  // counted_[c][sample]
  void count_labels() {
    counted_.assign(net_.counts().size(), std::vector<std::int64_t>(static_cast<std::size_t>(samples_), 1));
    for (std::size_t c = 1; c < counted_.size(); ++c) {
      const auto& losses = net_.losses();
      const bool is_said = std::any_of(losses.begin(), losses.end(), [&](const model_loss& l) {
        return l.count == c && count_labels(l, counted_[c]);
      });
      if (!is_said)
        throw error(where_ + ": no labels say how many " + net_.counts()[c] + " count, by which " + net_.name() +
                    " divides a loss");
    }
  }

  bool count_labels(const model_loss& loss, std::vector<std::int64_t>& counted) const {
    const auto place = place_of(loss.inputs.back());
    if (place == values_.size() || values_[place].type() != dtype::i64) return false;
    const auto& t = values_[place];
    const auto each = static_cast<std::size_t>(t.elements() / samples_);
    for (std::size_t s = 0; s < counted.size(); ++s) {
      const auto found = loss.op->counted({t.data<std::int64_t>() + s * each, each});
      if (!found) return false;
      counted[s] = *found;
    }
    return true;
  }

  memory_pool pool_;
  const model net_; // as it was: a plan may put layers in another order
  std::string where_;
  std::vector<actors::data_input> inputs_;
  std::vector<tensor> values_; // by input
  std::array<std::int64_t, most_extents> sizes_{};
  std::vector<std::vector<std::int64_t>> counted_;
  std::int64_t samples_ = 0;
};

class row_minibatches final : public actors::minibatch_list {
public:
  row_minibatches(const row_tensors& data, const actors::batching& how)
      : data_(data), batch_(how.batch), plan_(data.size(), how.batch, how.last) {}

  std::int64_t per_epoch() const override { return plan_.per_epoch(); }
  std::int64_t least_samples() const override { return plan_.tail() > 0 ? plan_.tail() : batch_; }

  actors::minibatch_facts facts(std::int64_t minibatch) const override {
    const auto range = plan_.at(minibatch);
    actors::minibatch_facts facts{.epoch = range.epoch, .samples = range.samples, .extents = data_.sizes_};
    for (std::size_t c = 0; c < data_.counted_.size(); ++c)
      for (std::int64_t s = 0; s < range.samples; ++s)
        facts.counts[c] += static_cast<double>(data_.counted_[c][static_cast<std::size_t>(range.first + s)]);
    return facts;
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    const auto at = plan_.at(minibatch).first + first;
    for (std::size_t i = 0; i < into.size(); ++i) {
      const auto& from = data_.values_[i];
      const auto row = from.bytes() / static_cast<std::size_t>(from.dim(0));
      std::memcpy(into[i].raw(), from.raw() + static_cast<std::size_t>(at) * row, into[i].bytes());
    }
  }

private:
  const row_tensors& data_;
  std::int64_t batch_;
  actors::epoch_minibatches plan_;
};

actors::minibatches_ptr row_tensors::minibatches(const actors::batching& how) const {
  return std::make_shared<row_minibatches>(*this, how);
}

} // namespace

std::unique_ptr<actors::dataset> sequence_tensors(const model& net, named_tensors tensors, const std::string& where) {
  return std::make_unique<row_tensors>(net, std::move(tensors), where);
}

std::unique_ptr<actors::dataset> open_sequence_tensors(const std::string& file, const model& net) {
  memory_pool pool;
  return sequence_tensors(net, read_safetensors(file, pool).tensors, file);
}

} // namespace penstock::apps
