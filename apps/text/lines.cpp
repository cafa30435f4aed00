// Reads in large pieces and gives out lines that were looked at.
#include "apps/text/lines.hpp"

#include "apps/text/unicode.hpp"
#include "kernels/check.hpp"
#include "kernels/input_file.hpp"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace penstock::apps {

using namespace unicode;

namespace {

constexpr std::size_t piece_bytes = 1 << 16;

std::size_t read_standard_input(char* to, std::size_t size) {
  for (;;) {
    const auto got = ::read(STDIN_FILENO, to, size);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) throw error(std::string("cannot read standard input: ") + std::strerror(errno));
  }
}

} // namespace

struct line_reader::source {
  std::optional<input_file> file; // none: standard input
  std::uint64_t offset = 0;

  std::size_t read(char* to, std::size_t size) {
    const auto got = file ? file->read_some(offset, to, size) : read_standard_input(to, size);
    offset += got;
    return got;
  }
};

line_reader::line_reader(std::string file) : source_(std::make_unique<source>()), name_(std::move(file)) {
  if (name_ == "-")
    name_ = "standard input";
  else
    source_->file.emplace(name_);
}

line_reader::~line_reader() = default;

void line_reader::fail(const std::string& what) const {
  throw error(name_ + ": line " + std::to_string(number_) + ": " + what);
}

// False at the end of the file.
bool line_reader::fill() {
  if (ended_) return false;
  buffer_.erase(0, at_);
  at_ = 0;
  const auto held = buffer_.size();
  buffer_.resize(held + piece_bytes);
  const auto got = source_->read(buffer_.data() + held, piece_bytes);
  buffer_.resize(held + got);
  ended_ = got == 0;
  return !ended_;
}

std::optional<std::string_view> line_reader::next() {
  std::size_t looked_at = 0;
  std::size_t end = 0;
  for (;;) {
    end = buffer_.find('\n', at_ + looked_at);
    if (end != std::string::npos) break;
    looked_at = buffer_.size() - at_;
    if (looked_at > longest_text_line + 1) break;
    if (!fill()) break;
  }
  if (end == std::string::npos && at_ == buffer_.size()) return std::nullopt;
  ++number_;
  const auto past = std::min(end, buffer_.size());
  auto line = std::string_view(buffer_).substr(at_, past - at_);
  at_ = end == std::string::npos ? buffer_.size() : end + 1;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (number_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  if (line.size() > longest_text_line)
    fail("has more than " + std::to_string(longest_text_line) + " bytes, wanted at most so many");
  if (line.find('\0') != std::string_view::npos) fail("has a NUL, wanted text");
  if (find_bad_utf8(line) != std::string_view::npos) {
    try {
      require_utf8(line);
    } catch (const error& fault) {
      fail(fault.what());
    }
  }
  return line;
}

} // namespace penstock::apps
