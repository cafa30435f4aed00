// Tells our files and their neighbours apart by what they begin with.
#include "planner/profile/file_kind.hpp"

#include <algorithm>
#include <stdexcept>

namespace penstock::planner {

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
constexpr std::size_t enough = 65536; // the key that tells stands near the beginning

bool holds(std::string_view text, std::string_view word) {
  return text.substr(0, enough).find(word) != std::string_view::npos;
}

// A length of eight bytes, then JSON.
bool is_safetensors(std::string_view text) {
  return text.size() > 9 && text[8] == '{' && text[7] == '\0' && text[6] == '\0';
}

// A message of field 1, whose length and contents are no text.
bool is_trace(std::string_view text) {
  const auto head = text.substr(0, 64);
  return text.starts_with('\n') &&
         std::any_of(head.begin(), head.end(), [](unsigned char c) { return c < 9 || (c > 13 && c < 32); });
}

file_kind kind_of_json(std::string_view text) {
  if (holds(text, "\"penstock-plan\"")) return file_kind::plan;
  if (holds(text, "\"penstock-profile\"")) return file_kind::profile;
  if (text.substr(0, 64).find("\"event\"") != std::string_view::npos) return file_kind::metrics;
  if (holds(text, "\"first_layer\"") && holds(text, "\"stages\"")) return file_kind::plan;
  return file_kind::unknown;
}

} // namespace

file_kind kind_of(std::string_view text) {
  if (is_safetensors(text)) return file_kind::weights;
  if (is_trace(text)) return file_kind::trace;
  if (text.starts_with("PK\x03\x04") || text.starts_with("\x1f\x8b")) return file_kind::archive;
  if (text.starts_with("\x7f"
                       "ELF"))
    return file_kind::program;
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (text.starts_with('{')) return kind_of_json(text);
  if (text.starts_with("node") && holds(text, " -- ")) return file_kind::graph;
  if (holds(text, "[[device]]")) return file_kind::cluster;
  return file_kind::unknown;
}

std::string name_of(file_kind kind) {
  switch (kind) {
  case file_kind::plan:
    return "a plan";
  case file_kind::profile:
    return "a profile";
  case file_kind::graph:
    return "a graph.txt of PipeDream's";
  case file_kind::cluster:
    return "a cluster's TOML";
  case file_kind::trace:
    return "a trace";
  case file_kind::weights:
    return "a safetensors file";
  case file_kind::metrics:
    return "a run's metrics";
  case file_kind::archive:
    return "a compressed file or a zip archive";
  case file_kind::program:
    return "a program";
  case file_kind::unknown:
    break;
  }
  return "another file";
}

void refuse_other_kind(std::string_view text, const std::string& source, file_kind kind, const std::string& wanted,
                       file_kind also) {
  const auto found = kind_of(text);
  if (found != file_kind::unknown && found != kind && found != also)
    throw std::invalid_argument(source + ": found " + name_of(found) + ", wanted " + wanted);
}

} // namespace penstock::planner
