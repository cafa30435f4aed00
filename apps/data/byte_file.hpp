// Reads a data file front to back, decompressing gzip on the way. Sizes that a file promises are not believed.
#pragma once

#include "kernels/input_file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace penstock::apps {

/// One pass over a regular file; a name that ends in ".gz" says gzip. Every failure is a penstock::error in one line
/// that begins with the file's name.
class byte_file {
public:
  explicit byte_file(std::filesystem::path file);
  ~byte_file();
  byte_file(const byte_file&) = delete;
  byte_file& operator=(const byte_file&) = delete;

  /// Exactly `size` bytes, or an error: the file ends early or is corrupt.
  void read(std::uint8_t* to, std::size_t size);
  /// The next `size` bytes. Refuses before allocating when the file cannot hold so many (deflate packs at most 1032 to
  /// 1).
  std::vector<std::uint8_t> take(std::uint64_t size);
  /// Throws unless everything was read (for gzip, its checksums included).
  void expect_end();

  /// Bytes on disk.
  std::uint64_t stored_bytes() const { return stored_.size(); }
  [[noreturn]] void fail(const std::string& what) const;

private:
  struct inflater;
  std::size_t read_stored(std::uint8_t* to, std::size_t size);
  std::size_t read_some(std::uint8_t* to, std::size_t size);

  std::filesystem::path file_;
  input_file stored_;
  std::uint64_t stored_position_ = 0;
  std::uint64_t position_ = 0; // bytes given out
  std::unique_ptr<inflater> inflater_;
};

/// A folder that exists, or an error that names it.
void require_folder(const std::filesystem::path& folder);

} // namespace penstock::apps
