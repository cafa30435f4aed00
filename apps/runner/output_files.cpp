// Probes with a temporary file: permissions alone do not tell of read-only or full file systems.
#include "apps/runner/output_files.hpp"

#include "kernels/check.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace penstock::apps {

namespace {

namespace fs = std::filesystem;

constexpr off_t probe_bytes = 65536;

[[noreturn]] void refuse(const std::string& option, const fs::path& path, const std::string& reason) {
  throw error(option + ": cannot write " + path.string() + ": " + reason);
}

void probe_folder(const std::string& option, const fs::path& wanted, const fs::path& folder) {
  std::string name = (folder / ".penstock-probe-XXXXXX").string();
  const int file = ::mkstemp(name.data());
  if (file < 0) refuse(option, wanted, std::strerror(errno));
  int reason = ::posix_fallocate(file, 0, probe_bytes);
  if (reason == EOPNOTSUPP || reason == EINVAL) reason = 0; // this file system cannot say
  ::unlink(name.c_str());
  ::close(file);
  if (reason != 0) refuse(option, wanted, std::strerror(reason));
}

// Opening a pipe for writing would wait for whoever reads it.
void check_reader(const std::string& option, const fs::path& pipe) {
  const int writer = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (writer < 0) refuse(option, pipe, errno == ENXIO ? "it is a pipe that nobody reads" : std::strerror(errno));
  ::close(writer);
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

} // namespace

void check_output_file(const std::string& option, const fs::path& file) {
  std::error_code ignored;
  const auto folder = folder_of(file);
  if (fs::is_directory(file, ignored) || !file.has_filename()) refuse(option, file, "it is a folder, wanted a file");
  if (!fs::exists(folder, ignored)) refuse(option, file, "there is no folder " + folder.string());
  if (!fs::is_directory(folder, ignored)) refuse(option, file, folder.string() + " is not a folder");
  if (fs::is_fifo(file, ignored)) return check_reader(option, file);
  if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored)) return; // a device says for itself
  if (std::error_code reason; !fs::exists(file, reason) && reason) refuse(option, file, reason.message()); // too long
  if (fs::exists(file, ignored) && ::access(file.c_str(), W_OK) != 0) refuse(option, file, std::strerror(errno));
  probe_folder(option, file, folder);
}

void check_output_folder(const std::string& option, const fs::path& folder) {
  std::error_code ignored;
  auto existing = folder;
  while (!fs::exists(existing, ignored) && existing.has_relative_path())
    existing = existing.has_filename() ? folder_of(existing) : existing.parent_path();
  if (!fs::is_directory(existing, ignored)) refuse(option, folder, existing.string() + " is not a folder");
  probe_folder(option, folder, existing);
}

void check_outputs(const app_options& options) {
  const std::vector<std::pair<std::string, fs::path>> files{{"--save-weights", options.run.save_weights},
                                                            {"--save-gradients", options.run.save_gradients},
                                                            {"--trace", options.run.trace},
                                                            {"--metrics", options.metrics}};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [option, file] = files[i];
    if (file.empty()) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (file.lexically_normal() == files[j].second.lexically_normal())
        throw usage_error(option + ": " + file.string() + " is the file of " + files[j].first + " as well");
    }
    check_output_file(option, file);
  }
  if (!options.run.checkpoint.empty() && !options.run.eval_only)
    check_output_folder("--checkpoint", options.run.checkpoint);
}

} // namespace penstock::apps
