// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace penstock {

/// Bytes into a temporary file beside `file`; commit() makes them durable and renames. Destroyed before that, it leaves
/// nothing. Throws penstock::error with the file's name and the system's reason (unwritable folder, full disk).
class atomic_file {
public:
  explicit atomic_file(std::filesystem::path file);
  ~atomic_file();
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;

  void write(const void* bytes, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

private:
  std::filesystem::path file_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::size_t noted_ = 0; ///< where remove_unfinished_files() finds it
};

/// For who is about to end the process at once, a signal handler too: removes the temporary files that are being
/// written (of 32 at a time at most). Calls nothing but unlink(2).
void remove_unfinished_files() noexcept;

} // namespace penstock
