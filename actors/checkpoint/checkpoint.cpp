// Writing a checkpoint: stage files, manifest, pointer.
#include "actors/checkpoint/checkpoint.hpp"

#include "actors/checkpoint/digest.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "kernels/input_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace penstock::actors {

namespace fs = std::filesystem;

namespace {

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
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

manifest_stage write_stage(const stage_snapshot& s, const fs::path& folder, std::size_t number) {
  const auto file = folder / ("stage-" + std::to_string(number) + ".safetensors");
  write_safetensors(file, s.tensors);
  return {file.filename().string(), fs::file_size(file), sha256_of_file(file), s.first_layer, s.layers, s.replicas,
          s.frozen_layers,          s.version,           s.optimizer_steps};
}

void write_text(const fs::path& file, const std::string& text) {
  atomic_file out(file);
  out.write(text);
  out.commit();
}

void drop_digest(const fs::path& latest, const std::string& name) {
  if (read_whole_file(latest, 4096).starts_with(name + " ")) write_text(latest, name + "\n");
}

// What is neither the newest nor the last before it, and leftovers of a run that died while writing. A later step than
// the newest is of a run that was given up: this one has gone back behind it.
void prune(const fs::path& dir, std::int64_t newest) {
  std::vector<std::int64_t> others;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(".writing-step-")) fs::remove_all(entry.path());
    if (const auto step = step_of_folder(name); step && *step != newest) others.push_back(*step);
  }
  std::int64_t before = -1;
  for (const auto step : others)
    if (step < newest) before = std::max(before, step);
  for (const auto step : others)
    if (step != before) fs::remove_all(dir / checkpoint_folder_name(step));
}

fs::path write_into(const std::vector<stage_snapshot>& all, const checkpoint_position& at, const fs::path& dir) {
  fs::create_directories(dir);
  const auto name = checkpoint_folder_name(at.step);
  const auto writing = dir / (".writing-" + name);
  fs::remove_all(writing);
  fs::create_directory(writing);
  checkpoint_manifest manifest{at, {}, {}};
  for (const auto& s : all)
    manifest.stages.push_back(write_stage(s, writing, manifest.stages.size()));
  write_text(writing / "manifest.json", to_text(manifest));
  const auto final_folder = dir / name;
  // `latest` may name this very step: for the moment in which the folders have changed places and it has not been
  // written again it must not hold the digest of the old one.
  if (fs::exists(final_folder) && fs::exists(dir / "latest")) drop_digest(dir / "latest", name);
  put_in_place(writing, final_folder);
  sync_folder(dir);
  write_text(dir / "latest", name + " " + manifest.sha256 + "\n");
  prune(dir, at.step);
  return final_folder;
}

} // namespace

fs::path write_checkpoint(const std::vector<stage_snapshot>& stages, const checkpoint_position& at,
                          const fs::path& dir) {
  const auto clean_up = [&] { // a full disk leaves no half-written folder behind
    std::error_code ignored;
    fs::remove_all(dir / (".writing-" + checkpoint_folder_name(at.step)), ignored);
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
