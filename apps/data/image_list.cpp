// Lists first, which is quick, then scans in parallel.
#include "apps/data/image_list.hpp"

#include "apps/data/jpeg_scan.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "kernels/usable_cores.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <system_error>
#include <thread>

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Names without the hidden ones, in byte order.
std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code reason;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, reason), end; !reason && at != end; at.increment(reason)) {
    auto name = at->path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
  }
  if (reason) throw error(folder.string() + ": cannot read: " + reason.message());
  std::sort(names.begin(), names.end());
  return names;
}

// "JPEG" for both of its endings; "other" for what is not known, which need not be an image.
std::string kind_of(const std::string& name) {
  auto ending = fs::path(name).extension().string();
  for (auto& c : ending)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (ending == ".JPG" || ending == ".JPEG") return "JPEG";
  for (const char* known : {"PNG", "GIF", "BMP", "TIFF", "TIF", "WEBP", "HEIC", "AVIF"})
    if (ending == std::string(".") + known) return known;
  return "other";
}

// Counts by kind of what is not read.
class leftovers {
public:
  void add_file(const std::string& name) { ++files_[kind_of(name)]; }
  void add_nested_folder() { ++folders_; }
  void add(const leftovers& more) {
    for (const auto& [kind, count] : more.files_)
      files_[kind] += count;
    folders_ += more.folders_;
  }

  std::string text() const {
    std::vector<std::string> parts;
    for (const auto& [kind, count] : files_)
      parts.push_back(std::to_string(count) + " " + (kind == "JPEG" ? "JPEG file outside" : kind + " file") +
                      (count == 1 || kind == "JPEG" ? "" : "s") + (kind == "JPEG" ? " class folders" : ""));
    if (folders_ > 0) parts.push_back(std::to_string(folders_) + " nested folder" + (folders_ == 1 ? "" : "s"));
    if (parts.size() < 2) return join(parts, "");
    const auto last = parts.back();
    parts.pop_back();
    return join(parts, ", ") + " and " + last;
  }

private:
  std::map<std::string, std::int64_t> files_;
  std::int64_t folders_ = 0;
};

void list_class(const fs::path& folder, std::int64_t label, std::vector<listed_image>& images, leftovers& others) {
  const auto before = images.size();
  leftovers here;
  for (const auto& name : names_in(folder)) {
    if (is_folder(folder / name))
      here.add_nested_folder();
    else if (kind_of(name) == "JPEG")
      images.push_back({(folder / name).string(), label, 1});
    else
      here.add_file(name);
  }
  others.add(here);
  if (images.size() > before) return;
  const auto held = here.text();
  throw error(folder.string() + ": a class without images, wanted .jpg or .jpeg files, " +
              (held.empty() ? "found none of any kind" : "found " + held));
}

std::vector<jpeg_scan> scan_all(const std::vector<listed_image>& images) {
  std::vector<jpeg_scan> scans(images.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (auto i = next++; i < images.size(); i = next++)
      scans[i] = scan_jpeg(images[i].file);
  };
  const auto wanted = std::min(static_cast<std::size_t>(usable_cores()), images.size() / 64);
  std::vector<std::jthread> helpers;
  try {
    while (helpers.size() + 1 < wanted)
      helpers.emplace_back(work);
  } catch (const std::system_error&) { // then by fewer
  }
  work();
  helpers.clear(); // joins
  return scans;
}

std::string broken_text(const std::vector<const listed_image*>& broken, const std::string& first_fault) {
  std::string text = broken.front()->file + ": " + first_fault;
  if (broken.size() > 1) text += "; " + broken[1]->file + (broken.size() > 2 ? " and others" : "") + " as well";
  return text;
}

} // namespace

std::vector<std::string> class_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (auto& name : names_in(folder))
    if (is_folder(folder / name)) names.push_back(std::move(name));
  return names;
}

image_list list_images(const fs::path& folder, const std::vector<std::string>& classes, bool skips_broken) {
  std::vector<listed_image> images;
  leftovers others;
  for (const auto& name : names_in(folder)) {
    if (!is_folder(folder / name)) {
      others.add_file(name);
      continue;
    }
    const auto place = std::lower_bound(classes.begin(), classes.end(), name);
    if (place == classes.end() || *place != name)
      throw error((folder / name).string() + ": no class of this name among the training images");
    list_class(folder / name, place - classes.begin(), images, others);
  }
  if (images.empty()) throw error(folder.string() + ": no class folders in it");
  const auto scans = scan_all(images);
  image_list list;
  std::vector<const listed_image*> broken;
  std::string first_fault;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (!scans[i].fault.empty()) {
      if (broken.empty()) first_fault = scans[i].fault;
      broken.push_back(&images[i]);
      continue;
    }
    list.images.push_back(images[i]);
    list.images.back().orientation = scans[i].orientation;
    if (scans[i].orientation != 1) ++list.turned;
  }
  list.left_out = others.text();
  if (broken.empty()) return list;
  const auto which = broken_text(broken, first_fault);
  const auto count = std::to_string(broken.size());
  if (!skips_broken || list.images.empty())
    throw error(which + "; " + count + " of " + std::to_string(images.size()) + " images are broken" +
                (list.images.empty() ? "" : ", --broken-images skip leaves them out"));
  list.skipped = count + " broken JPEG" + (broken.size() == 1 ? "" : "s") + " (" + which + ")";
  return list;
}

} // namespace penstock::apps
