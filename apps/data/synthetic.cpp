// Data without files: each class is a coarse random pattern, each sample its class's pattern under noise.
#include "apps/data/formats.hpp"
#include "apps/data/sample_random.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::apps {
namespace {

constexpr std::int64_t cells = 4; // a pattern is cells x cells values per channel, interpolated
constexpr float noise = 0.5F;     // deviation; the pattern's is near 1

class synthetic_set final : public actors::labelled_images {
public:
  /// `half` keeps the samples of training and test apart; their patterns are the same.
  synthetic_set(const data_options& options, std::int64_t samples, std::uint64_t half)
      : channels_(options.channels), side_(options.image_size), classes_(options.classes), samples_(samples),
        pattern_seed_(sample_random::mixed(options.seed, 1)),
        sample_seed_(sample_random::mixed(options.seed, 2 + half)), half_(half) {}

  std::int64_t size() const override { return samples_; }
  tensor_spec input() const override { return {dtype::f32, {channels_, side_, side_}}; }
  std::int64_t classes() const override { return classes_; }

  std::int64_t load(const actors::sample_key& key, bool, float* input) const override {
    check(key.index >= 0 && key.index < samples_, "a sample's index lies within its data set");
    // The key's seed and epoch are for augmentation; a sample is the same in every epoch.
    sample_random random(sample_random::mixed(sample_seed_, static_cast<std::uint64_t>(key.index)));
    const auto label = random.below(classes_);
    sample_random pattern(sample_random::mixed(pattern_seed_, static_cast<std::uint64_t>(label)));
    std::vector<float> grid(static_cast<std::size_t>(cells * cells));
    for (std::int64_t c = 0; c < channels_; ++c) {
      for (auto& value : grid)
        value = pattern.normal();
      draw(grid, input + c * side_ * side_);
    }
    const auto values = channels_ * side_ * side_;
    for (std::int64_t i = 0; i < values; ++i)
      input[i] += noise * random.normal();
    return label;
  }

  std::string description() const override {
    return std::string("synthetic ") + (half_ == 0 ? "train" : "test") + ": " + std::to_string(samples_) +
           " random images of " + std::to_string(channels_) + "x" + std::to_string(side_) + "x" + std::to_string(side_);
  }

private:
  // Bilinear between the cells' centres.
  void draw(const std::vector<float>& grid, float* out) const {
    const float ratio = static_cast<float>(cells) / static_cast<float>(side_);
    const auto place = [&](std::int64_t i, std::int64_t& low, float& part) {
      const float at = std::clamp((static_cast<float>(i) + 0.5F) * ratio - 0.5F, 0.0F, static_cast<float>(cells - 1));
      low = std::min(static_cast<std::int64_t>(at), cells - 2);
      part = at - static_cast<float>(low);
    };
    for (std::int64_t y = 0; y < side_; ++y) {
      std::int64_t row = 0;
      float down = 0;
      place(y, row, down);
      for (std::int64_t x = 0; x < side_; ++x) {
        std::int64_t column = 0;
        float right = 0;
        place(x, column, right);
        const float* at = grid.data() + row * cells + column;
        const float upper = at[0] + right * (at[1] - at[0]);
        const float lower = at[cells] + right * (at[cells + 1] - at[cells]);
        *out++ = upper + down * (lower - upper);
      }
    }
  }

  std::int64_t channels_;
  std::int64_t side_;
  std::int64_t classes_;
  std::int64_t samples_;
  std::uint64_t pattern_seed_;
  std::uint64_t sample_seed_;
  std::uint64_t half_;
};

} // namespace

image_pair open_synthetic(const data_options& options) {
  constexpr std::int64_t most = 100'000'000; // an epoch's order is kept in memory
  if (options.synthetic_samples < 1 || options.synthetic_samples > most) {
    throw usage_error("synthetic: " + std::to_string(options.synthetic_samples) + " samples, wanted 1 to " +
                      std::to_string(most));
  }
  const auto test_samples = std::max<std::int64_t>(1, options.synthetic_samples / 4);
  return {std::make_unique<synthetic_set>(options, options.synthetic_samples, 0),
          std::make_unique<synthetic_set>(options, test_samples, 1)};
}

} // namespace penstock::apps
