// Writing a checkpoint: stage files, manifest, pointer.
#include "actors/checkpoint.hpp"

#include "actors/digest.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace penstock::actors {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int format_version = 1;
constexpr std::size_t kept = 2;

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

std::string folder_name(std::int64_t step) {
  auto digits = std::to_string(step);
  return "step-" + std::string(digits.size() < 10 ? 10 - digits.size() : 0, '0') + digits;
}

// A folder of the same step may be there, and `latest` may name it: the two change places in one step.
void put_in_place(const fs::path& writing, const fs::path& final_folder) {
  if (!fs::exists(final_folder)) {
    fs::rename(writing, final_folder);
    return;
  }
  if (::renameat2(AT_FDCWD, writing.c_str(), AT_FDCWD, final_folder.c_str(), RENAME_EXCHANGE) != 0)
    throw error("[checkpoint] cannot replace " + final_folder.string() + ": " + std::strerror(errno));
  fs::remove_all(writing);
}

json stage_entry(const stage_snapshot& s, const fs::path& file) {
  return {{"file", file.filename().string()},
          {"bytes", fs::file_size(file)},
          {"sha256", sha256_of_file(file)},
          {"first_layer", s.first_layer},
          {"layers", s.layers},
          {"replicas", s.replicas},
          {"version", s.version},
          {"optimizer_steps", s.optimizer_steps}};
}

// Older complete checkpoints and leftovers of a run that died while writing.
void prune(const fs::path& dir, const fs::path& newest) {
  std::vector<fs::path> complete;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(".writing-step-"))
      fs::remove_all(entry.path());
    else if (name.starts_with("step-") && entry.path() != newest)
      complete.push_back(entry.path());
  }
  std::sort(complete.rbegin(), complete.rend());
  for (std::size_t i = kept - 1; i < complete.size(); ++i)
    fs::remove_all(complete[i]);
}

fs::path write_into(const std::vector<stage_snapshot>& all, const checkpoint_position& at, const fs::path& dir) {
  fs::create_directories(dir);
  const auto name = folder_name(at.step);
  const auto writing = dir / (".writing-" + name);
  fs::remove_all(writing);
  fs::create_directory(writing);
  json stages = json::array();
  for (const auto& s : all) {
    const auto file = writing / ("stage-" + std::to_string(stages.size()) + ".safetensors");
    write_safetensors(file, s.tensors);
    stages.push_back(stage_entry(s, file));
  }
  const json manifest{{"format", format_version},  {"model", at.model},
                      {"optimizer", at.optimizer}, {"schedule", at.schedule},
                      {"step", at.step},           {"batch", at.batch},
                      {"samples", at.samples},     {"seed", at.seed},
                      {"drains", at.drains},       {"last_batch", at.drops_last_batch ? "drop" : "keep"},
                      {"stages", stages}};
  atomic_file out(writing / "manifest.json");
  out.write(manifest.dump(1) + "\n");
  out.commit();
  const auto final_folder = dir / name;
  put_in_place(writing, final_folder);
  sync_folder(dir);
  atomic_file latest(dir / "latest");
  latest.write(name + "\n");
  latest.commit();
  prune(dir, final_folder);
  return final_folder;
}

} // namespace

fs::path write_checkpoint(const std::vector<stage_snapshot>& stages, const checkpoint_position& at,
                          const fs::path& dir) {
  const auto clean_up = [&] { // a full disk leaves no half-written folder behind
    std::error_code ignored;
    fs::remove_all(dir / (".writing-" + folder_name(at.step)), ignored);
  };
  try {
    return write_into(stages, at, dir);
  } catch (const fs::filesystem_error& e) {
    clean_up();
    throw error("[checkpoint] cannot write to " + dir.string() + ": " + e.code().message());
  } catch (const error&) {
    clean_up();
    throw;
  }
}

} // namespace penstock::actors
