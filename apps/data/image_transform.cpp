// A separable resize of just the pixels that the output shows, then one multiply-add per value.
#include "apps/data/image_transform.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace penstock::apps {
namespace {

constexpr std::array<float, 3> luma{0.299F, 0.587F, 0.114F};

// How each output position of one axis is made of source positions: weights[first_weight ...] from `begin` on.
struct axis {
  struct taps {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::size_t first_weight = 0;
  };
  std::vector<taps> positions;
  std::vector<float> weights;
};

// Output position o shows position `start + o` of the axis resized from `length` to `resized`. The source is first
// moved by `shift`; taps that fall outside it are black, so they are left out.
axis make_axis(std::int64_t length, std::int64_t resized, std::int64_t start, std::int64_t count, std::int64_t shift) {
  axis result;
  const double ratio = static_cast<double>(length) / static_cast<double>(resized);
  const double support = std::max(ratio, 1.0);
  std::vector<double> raw;
  for (std::int64_t o = start; o < start + count; ++o) {
    const double centre = (static_cast<double>(o) + 0.5) * ratio;
    const auto begin = std::max(static_cast<std::int64_t>(std::floor(centre - support + 0.5)), std::int64_t{0});
    const auto end = std::min(static_cast<std::int64_t>(std::floor(centre + support + 0.5)), length);
    raw.clear();
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      raw.push_back(std::max(0.0, 1.0 - std::abs((static_cast<double>(i) + 0.5 - centre) / support)));
      sum += raw.back();
    }
    axis::taps taps{std::clamp(begin - shift, std::int64_t{0}, length), 0, result.weights.size()};
    for (std::int64_t i = begin; i < end; ++i) {
      if (i - shift < 0 || i - shift >= length) continue;
      result.weights.push_back(static_cast<float>(raw[static_cast<std::size_t>(i - begin)] / sum));
      ++taps.count;
    }
    result.positions.push_back(taps);
  }
  return result;
}

// One channel, resized: rows first, so that each source row is read once and in order.
void resize_plane(const std::uint8_t* plane, std::int64_t row_stride, std::int64_t pixel_stride, const axis& rows,
                  const axis& columns, std::vector<float>& scratch, float* output) {
  std::int64_t first = rows.positions.front().begin;
  std::int64_t last = first;
  for (const auto& taps : rows.positions) {
    if (taps.count == 0) continue;
    first = std::min(first, taps.begin);
    last = std::max(last, taps.begin + taps.count);
  }
  const auto width = static_cast<std::int64_t>(columns.positions.size());
  scratch.resize(static_cast<std::size_t>((last - first) * width));
  float* out = scratch.data();
  for (std::int64_t y = first; y < last; ++y) {
    const std::uint8_t* row = plane + y * row_stride;
    for (const auto& taps : columns.positions) {
      const float* weight = columns.weights.data() + taps.first_weight;
      float sum = 0;
      for (std::int64_t i = 0; i < taps.count; ++i) {
        sum += weight[i] * static_cast<float>(row[(taps.begin + i) * pixel_stride]);
      }
      *out++ = sum;
    }
  }
  for (const auto& taps : rows.positions) {
    std::fill(output, output + width, 0.0F);
    for (std::int64_t i = 0; i < taps.count; ++i) {
      const float weight = rows.weights[taps.first_weight + static_cast<std::size_t>(i)];
      const float* in = scratch.data() + (taps.begin + i - first) * width;
      for (std::int64_t x = 0; x < width; ++x)
        output[x] += weight * in[x];
    }
    output += width;
  }
}

// One channel of an image that keeps its size: what the filter would make of it, without one.
void copy_plane(const std::uint8_t* plane, const pixel_view& image, const placement& where, std::int64_t size,
                float* output) {
  const auto first = std::clamp(where.shift_right - where.left, std::int64_t{0}, size);
  const auto last = std::clamp(image.width + std::min(where.shift_right, std::int64_t{0}) - where.left, first, size);
  for (std::int64_t o = 0; o < size; ++o, output += size) {
    const auto row = where.top + o;
    const auto y = row - where.shift_down;
    std::fill(output, output + size, 0.0F);
    if (row >= image.height || y < 0 || y >= image.height) continue;
    const auto origin = y * image.width + where.left - where.shift_right;
    for (std::int64_t x = first; x < last; ++x)
      output[x] = static_cast<float>(plane[(origin + x) * image.pixel_stride]);
    if (where.flip) std::reverse(output, output + size);
  }
}

} // namespace

image_transform::image_transform(std::int64_t source_channels, std::int64_t channels, std::int64_t size,
                                 const normalization& values)
    : source_channels_(source_channels), channels_(channels), size_(size) {
  check(source_channels == 1 || source_channels == 3, "images are grey or coloured");
  check(values.mean.size() == static_cast<std::size_t>(source_channels) &&
            values.deviation.size() == values.mean.size(),
        "a mean and a deviation for each channel");
  if (source_channels == 3 && channels != 3 && channels != 1) {
    throw usage_error("colour images have 3 channels (or 1, made grey), the network takes " + std::to_string(channels));
  }
  values_ = values;
  auto& mean = values_.mean;
  auto& deviation = values_.deviation;
  if (source_channels == 3 && channels == 1) {
    mean = {luma[0] * mean[0] + luma[1] * mean[1] + luma[2] * mean[2]};
    deviation = {luma[0] * deviation[0] + luma[1] * deviation[1] + luma[2] * deviation[2]};
  }
  for (std::size_t c = 0; c < mean.size(); ++c) {
    scale_.push_back(1.0F / (255.0F * deviation[c]));
    offset_.push_back(-mean[c] / deviation[c]);
  }
}

void image_transform::apply(const pixel_view& image, const placement& where, float* output) const {
  const bool keeps_its_size = where.height == image.height && where.width == image.width;
  axis rows;
  axis columns;
  if (!keeps_its_size) {
    rows = make_axis(image.height, where.height, where.top, size_, where.shift_down);
    columns = make_axis(image.width, where.width, where.left, size_, where.shift_right);
    if (where.flip) std::reverse(columns.positions.begin(), columns.positions.end());
  }
  const auto row_stride = image.width * image.pixel_stride;
  const auto area = size_ * size_;
  std::vector<float> scratch;
  const auto resize = [&](std::int64_t c, float* to) {
    const auto* plane = image.data + c * image.channel_stride;
    if (keeps_its_size)
      copy_plane(plane, image, where, size_, to);
    else
      resize_plane(plane, row_stride, image.pixel_stride, rows, columns, scratch, to);
  };
  if (source_channels_ == 3 && channels_ == 1) {
    std::vector<float> plane(static_cast<std::size_t>(area));
    std::fill(output, output + area, 0.0F);
    for (std::int64_t c = 0; c < 3; ++c) {
      resize(c, plane.data());
      for (std::int64_t i = 0; i < area; ++i)
        output[i] += luma[static_cast<std::size_t>(c)] * plane[static_cast<std::size_t>(i)];
    }
  } else {
    for (std::int64_t c = 0; c < source_channels_; ++c)
      resize(c, output + c * area);
  }
  const auto made = static_cast<std::int64_t>(scale_.size());
  for (std::int64_t c = 0; c < made; ++c) {
    const float scale = scale_[static_cast<std::size_t>(c)];
    const float offset = offset_[static_cast<std::size_t>(c)];
    for (float* value = output + c * area; value < output + (c + 1) * area; ++value)
      *value = *value * scale + offset;
  }
  for (std::int64_t c = made; c < channels_; ++c)
    std::copy(output, output + area, output + c * area);
}

} // namespace penstock::apps
