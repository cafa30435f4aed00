// Regular files for reading: opening one never waits, and its size is known before anything is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace penstock {

/// One regular file, links followed. What else may stand under a name (a pipe, a device, a folder) is refused, so that
/// nothing waits for a writer. Every failure is a penstock::error in one line that begins with the file's name.
class input_file {
public:
  explicit input_file(std::filesystem::path file);
  ~input_file();
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;

  std::uint64_t size() const { return size_; } ///< bytes, when it was opened
  /// Exactly so many bytes from there. Any thread.
  void read(std::uint64_t offset, void* bytes, std::size_t size) const;
  /// Up to so many; 0 at the end. Any thread.
  std::size_t read_some(std::uint64_t offset, void* bytes, std::size_t size) const;
  [[noreturn]] void fail(const std::string& what) const;

private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// All of a regular file. Throws penstock::error as input_file does, and for a file of more than `most` bytes, before
/// any is read.
std::string read_whole_file(const std::filesystem::path& file, std::uint64_t most);

} // namespace penstock
