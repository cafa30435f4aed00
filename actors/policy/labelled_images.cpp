// Minibatches of samples that are loaded one by one.
#include "actors/labelled_images.hpp"

#include "actors/policy/epoch_minibatches.hpp"
#include "kernels/check.hpp"
#include "kernels/finite.hpp"

namespace penstock::actors {

namespace {

class image_minibatches final : public minibatch_list {
public:
  image_minibatches(const labelled_images& data, const batching& how)
      : data_(data), how_(how), plan_(data.size(), how.batch, how.last),
        orders_(data.size(), how.seed, how.training && data.shuffled()) {}

  std::int64_t per_epoch() const override { return plan_.per_epoch(); }
  std::int64_t least_samples() const override { return plan_.tail() > 0 ? plan_.tail() : how_.batch; }

  minibatch_facts facts(std::int64_t minibatch) const override {
    const auto range = plan_.at(minibatch);
    return {.epoch = range.epoch, .samples = range.samples, .counts = {static_cast<double>(range.samples)}};
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    const auto range = plan_.at(minibatch);
    const auto epoch = how_.training ? range.epoch : 0;
    const auto order = orders_.of(epoch);
    auto& images = into[0];
    auto& labels = into[1];
    const auto samples = images.dim(0);
    const auto elements = samples > 0 ? images.elements() / samples : 0;
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto sample = (*order)[static_cast<std::size_t>(range.first + first + i)];
      const std::span<float> image(images.data<float>() + i * elements, static_cast<std::size_t>(elements));
      const auto label = data_.load({how_.seed, epoch, sample}, how_.training, image.data());
      if (const auto place = first_nonfinite(image))
        throw error("[data] sample " + std::to_string(sample) + " holds " +
                    value_text(image[*place], data_.input().dims, *place) + "; wanted finite numbers (" +
                    data_.description() + ")");
      if (label < 0 || label >= data_.classes())
        throw error("[data] sample " + std::to_string(sample) + " has label " + std::to_string(label) +
                    "; wanted 0 to " + std::to_string(data_.classes() - 1));
      labels.data<std::int64_t>()[i] = label;
    }
  }

private:
  const labelled_images& data_;
  batching how_;
  epoch_minibatches plan_;
  epoch_orders orders_;
};

} // namespace

std::vector<data_input> labelled_images::inputs() const {
  return {{.name = "input", .spec = input()}, {.name = "labels", .spec = {dtype::i64, {}}, .below = classes()}};
}

minibatches_ptr labelled_images::minibatches(const batching& how) const {
  return std::make_shared<image_minibatches>(*this, how);
}

} // namespace penstock::actors
