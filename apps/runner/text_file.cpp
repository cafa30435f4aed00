// Reads a file piece by piece.
#include "apps/runner/text_file.hpp"

#include "kernels/check.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace penstock::apps {

namespace {

constexpr std::uintmax_t largest_file = 256'000'000;

[[noreturn]] void cannot_read(const std::string& file, int code) {
  throw error("cannot read " + file + ": " + std::strerror(code != 0 ? code : EIO));
}

} // namespace

std::string read_text_file(const std::string& file) {
  std::error_code failure;
  if (std::filesystem::is_directory(file, failure)) cannot_read(file, EISDIR);
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) cannot_read(file, errno);
  std::string text;
  std::vector<char> part(1 << 16);
  while (in.read(part.data(), static_cast<std::streamsize>(part.size())), in.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > largest_file)
      throw std::invalid_argument(file + ": found more than 256 MB, wanted a smaller file");
  }
  if (in.bad()) cannot_read(file, errno);
  return text;
}

} // namespace penstock::apps
