// Numbers and texts as bytes, and back without trusting any of them.
#pragma once

#include "kernels/check.hpp"

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace penstock::transport {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian, and so is every host we run on");

template <std::integral Number>
void put(std::string& onto, Number value) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &value, sizeof(Number));
  onto.append(bytes, sizeof(Number));
}

inline void put_text(std::string& onto, std::string_view text) {
  put(onto, static_cast<std::uint32_t>(text.size()));
  onto.append(text);
}

/// Takes what put() and put_text() wrote. Throws error when the bytes end early; a length is checked before it is used.
class wire_reader {
public:
  explicit wire_reader(std::string_view bytes) : rest_(bytes) {}

  template <std::integral Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof(Number)).data(), sizeof(Number));
    return value;
  }
  std::string text() {
    const auto size = number<std::uint32_t>();
    return std::string(take(size));
  }
  std::string_view take(std::size_t bytes) {
    if (bytes > rest_.size())
      throw error("it ends early: " + std::to_string(bytes) + " bytes wanted, " + std::to_string(rest_.size()) +
                  " left");
    const auto taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  std::size_t left() const { return rest_.size(); }

private:
  std::string_view rest_;
};

} // namespace penstock::transport
