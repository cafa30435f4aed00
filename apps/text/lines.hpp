// Text of any size, line by line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::apps {

/// Bytes that a line of text may have; longer ones are taken for something that is no text.
inline constexpr std::size_t longest_text_line = 1 << 20;

/// Reads a regular file, or standard input where the name is "-". Lines end with LF or CR LF; a byte order mark at the
/// start is no text and is left out. Used by one thread.
class line_reader {
public:
  /// Throws error when it cannot be read.
  explicit line_reader(std::string file);
  ~line_reader();
  line_reader(const line_reader&) = delete;
  line_reader& operator=(const line_reader&) = delete;

  /// The next line without its end, until the next call; nothing at the end. Throws error: "FILE: line 3: byte 7 is
  /// 0xff, wanted UTF-8", and for a line of more than longest_text_line bytes or with a NUL.
  std::optional<std::string_view> next();
  std::uint64_t number() const { return number_; } ///< of that line, from 1
  /// Throws error with the file and the line before `what`.
  [[noreturn]] void fail(const std::string& what) const;

private:
  bool fill();

  struct source;
  std::unique_ptr<source> source_;
  std::string name_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::uint64_t number_ = 0;
  bool ended_ = false;
};

} // namespace penstock::apps
