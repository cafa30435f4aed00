// What the tests of the all-reduce share.
#include "tests/transport/reduction.hpp"

#include <bit>
#include <cstring>
#include <exception>
#include <random>

namespace penstock::transport {

void add_floats(std::byte* onto, const std::byte* from, std::size_t bytes) {
  auto* sum = reinterpret_cast<float*>(onto);
  const auto* values = reinterpret_cast<const float*>(from);
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i)
    sum[i] += values[i];
}

std::vector<float> contribution_of(std::size_t member, std::uint64_t key, std::size_t count) {
  std::minstd_rand random(static_cast<unsigned>(1 + member * 7919 + key * 104'729));
  std::vector<float> values(count);
  for (float& v : values) {
    // Sign, 41 powers of two around one, and whatever else the bits say.
    const auto r = static_cast<std::uint32_t>(random());
    v = std::bit_cast<float>((r & 0x7f'ffffu) ^ (r << 31) ^ ((107 + r / 8'388'608 % 41) << 23));
  }
  return values;
}

std::vector<float> plain_sum(const std::vector<std::vector<float>>& by_member) {
  std::vector<float> sum;
  for (const auto& values : by_member) {
    if (values.empty()) continue;
    if (sum.empty())
      sum = values;
    else
      add_floats(reinterpret_cast<std::byte*>(sum.data()), reinterpret_cast<const std::byte*>(values.data()),
                 values.size() * sizeof(float));
  }
  return sum;
}

std::vector<part> in_parts(memory_pool& pool, const std::vector<float>& values, std::uint64_t key) {
  std::minstd_rand random(static_cast<unsigned>(key + 1));
  std::vector<part> parts;
  std::size_t done = 0;
  for (std::size_t i = 0; done < values.size() || i < 3; ++i) {
    std::size_t count = std::min(values.size() - done, random() % (values.size() / 3 + 2));
    if (random() % 4 == 0) count = 0;
    if (i >= 20) count = values.size() - done;
    const std::size_t offset = random() % 16 * sizeof(float);
    parts.push_back(
        {pool.allocate(offset + count * sizeof(float), memory_use::gradients), offset, count * sizeof(float)});
    if (count > 0) std::memcpy(parts.back().data(), values.data() + done, count * sizeof(float));
    done += count;
  }
  return parts;
}

std::vector<float> from_parts(const std::vector<part>& parts) {
  std::vector<float> values;
  for (const part& p : parts) {
    const auto* from = reinterpret_cast<const float*>(p.data());
    values.insert(values.end(), from, from + p.size / sizeof(float));
  }
  return values;
}

all_reduce::completion outcomes::next() {
  return [this](const std::exception_ptr& why) {
    std::string text;
    try {
      if (why) std::rethrow_exception(why);
    } catch (const std::exception& e) {
      text = e.what();
    }
    const std::lock_guard lock(mutex_);
    texts_.push_back(text);
    came_.notify_all();
  };
}

bool outcomes::wait_for(std::size_t count) {
  std::unique_lock lock(mutex_);
  return came_.wait_for(lock, long_enough, [&] { return texts_.size() >= count; });
}

std::vector<std::string> outcomes::texts() const {
  const std::lock_guard lock(mutex_);
  return texts_;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

} // namespace penstock::transport
