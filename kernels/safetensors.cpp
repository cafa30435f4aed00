// The safetensors format: u64 header length, JSON header, raw bytes. Nothing in a file is believed before it is
// checked.
#include "kernels/safetensors.hpp"

#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "kernels/file_kind.hpp"
#include "kernels/finite.hpp"
#include "kernels/input_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors bytes are little-endian");

constexpr std::uint64_t most_header_bytes = 100'000'000; // the limit of the reference implementation
constexpr std::size_t most_extents = 64;
constexpr const char* metadata_key = "__metadata__";

// Names come out of the file: shown escaped and shortened, so that a message stays one line.
std::string shown(std::string text) {
  constexpr std::size_t most = 80;
  if (text.size() > most) text = text.substr(0, most) + "...";
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

struct entry {
  std::string name;
  std::optional<std::string> type;
  std::optional<shape> dims;
  std::optional<int> offsets; // how many were given
  std::uint64_t begin = 0;    // from the header's end
  std::uint64_t end = 0;
};

// Takes the header's JSON event by event, so that neither depth nor repeated keys nor a wrong kind of value is stored.
class header_reader : public nlohmann::json_sax<nlohmann::json> {
public:
  std::vector<entry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool start_object(std::size_t) override {
    if (at_ == place::start) return go(place::top);
    if (at_ == place::top_value) {
      if (key_ == metadata_key) return go(place::metadata);
      entries.emplace_back().name = key_;
      return go(place::tensor);
    }
    return misplaced("an object");
  }

  bool end_object() override {
    if (at_ == place::tensor) {
      const auto& e = entries.back();
      if (!e.type || !e.dims || !e.offsets) {
        return fail("tensor " + shown(e.name) + " lacks " + (!e.type ? "dtype" : !e.dims ? "shape" : "data_offsets"));
      }
    }
    return go(at_ == place::top ? place::end : place::top);
  }

  bool key(std::string& name) override {
    if (at_ == place::tensor) return tensor_key(name);
    if (at_ == place::metadata) {
      key_ = name;
      if (!metadata.emplace(name, "").second) return fail("metadata " + shown(name) + " appears twice");
      return go(place::metadata_value);
    }
    if (!names_.insert(name).second) return fail("tensor " + shown(name) + " appears twice");
    key_ = name;
    return go(place::top_value);
  }

  bool string(std::string& text) override {
    if (at_ == place::metadata_value) {
      metadata[key_] = text;
      return go(place::metadata);
    }
    if (at_ != place::type) return misplaced("a string");
    entries.back().type = text;
    return go(place::tensor);
  }

  bool start_array(std::size_t) override {
    if (at_ == place::dims) {
      entries.back().dims.emplace();
      return go(place::dims_items);
    }
    if (at_ != place::offsets) return misplaced("an array");
    entries.back().offsets = 0;
    return go(place::offsets_items);
  }

  bool end_array() override {
    auto& e = entries.back();
    if (at_ == place::offsets_items && *e.offsets != 2) {
      return fail("tensor " + shown(e.name) + " has " + std::to_string(*e.offsets) + " data_offsets, wanted 2");
    }
    return go(place::tensor);
  }

  bool number_unsigned(std::uint64_t value) override {
    auto& e = entries.empty() ? nothing_ : entries.back();
    if (at_ == place::offsets_items) {
      if (*e.offsets == 2) return fail("tensor " + shown(e.name) + " has more than 2 data_offsets");
      (*e.offsets == 0 ? e.begin : e.end) = value;
      ++*e.offsets;
      return true;
    }
    if (at_ != place::dims_items) return misplaced("a number");
    if (e.dims->size() == most_extents) {
      return fail("tensor " + shown(e.name) + " has more than " + std::to_string(most_extents) + " extents");
    }
    if (value > INT64_MAX) return fail("tensor " + shown(e.name) + " has an extent of " + std::to_string(value));
    e.dims->push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool number_integer(std::int64_t value) override { return misplaced("the negative number " + std::to_string(value)); }
  bool number_float(double, const std::string&) override { return misplaced("a fraction or too large a number"); }
  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("a boolean"); }
  bool binary(nlohmann::json::binary_t&) override { return misplaced("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return fail("the header is not valid JSON (byte " + std::to_string(position) + " of it)");
  }

private:
  enum class place : std::uint8_t {
    start,
    top,
    top_value,
    metadata,
    metadata_value,
    tensor,
    type,
    dims,
    dims_items,
    offsets,
    offsets_items,
    end
  };

  bool go(place next) {
    at_ = next;
    return true;
  }

  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }

  bool misplaced(const std::string& found) {
    if (at_ == place::start) return fail("the header is not a JSON object");
    const bool in_metadata = at_ == place::metadata || at_ == place::metadata_value || key_ == metadata_key;
    if (in_metadata) return fail("the metadata holds " + found + ", wanted strings only");
    return fail("tensor " + shown(key_) + " holds " + found + " where none belongs");
  }

  bool tensor_key(const std::string& name) {
    auto& e = entries.back();
    const bool again =
        (name == "dtype" && e.type) || (name == "shape" && e.dims) || (name == "data_offsets" && e.offsets);
    if (again) return fail("tensor " + shown(e.name) + " has " + name + " twice");
    if (name == "dtype") return go(place::type);
    if (name == "shape") return go(place::dims);
    if (name == "data_offsets") return go(place::offsets);
    return fail("tensor " + shown(e.name) + " has the unknown field " + shown(name));
  }

  place at_ = place::start;
  std::string key_;
  std::set<std::string> names_;
  entry nothing_;
};

// How a type of the format is stored, and as what it is kept.
struct stored_type {
  std::size_t bytes; // of an element
  dtype kept;
};

std::optional<stored_type> stored_type_named(const std::string& name) {
  if (name == "F16") return stored_type{2, dtype::f32};
  if (name == "F64") return stored_type{8, dtype::f32};
  if (const auto type = dtype_named(name)) return stored_type{size_of(*type), *type};
  return std::nullopt;
}

// Bytes of the tensor, or nothing when the product does not fit. An extent of 0 does not excuse the others.
std::optional<std::uint64_t> byte_count(const shape& dims, std::size_t element_bytes) {
  auto product = static_cast<std::int64_t>(element_bytes);
  bool empty = false;
  for (const auto extent : dims) {
    if (extent == 0)
      empty = true;
    else if (__builtin_mul_overflow(product, extent, &product))
      return std::nullopt;
  }
  return empty ? 0 : static_cast<std::uint64_t>(product);
}

void check_entry(const input_file& file, const entry& e, std::uint64_t data_bytes) {
  const auto type = stored_type_named(*e.type);
  if (!type) {
    file.fail("tensor " + shown(e.name) + " has dtype " + shown(*e.type) +
              ", wanted F32, F64, F16, BF16, I64, I32 or U8");
  }
  const auto range = std::to_string(e.begin) + " to " + std::to_string(e.end);
  if (e.begin > e.end) file.fail("tensor " + shown(e.name) + " has data_offsets " + range);
  if (e.end > data_bytes) {
    file.fail("tensor " + shown(e.name) + " has data_offsets " + range + ", but the file holds " +
              std::to_string(data_bytes) + " bytes of data (truncated?)");
  }
  const auto bytes = byte_count(*e.dims, type->bytes);
  if (!bytes) file.fail("tensor " + shown(e.name) + " has too large a shape " + to_string(*e.dims));
  if (*bytes != e.end - e.begin) {
    file.fail("tensor " + shown(e.name) + " of shape " + to_string(*e.dims) + " and dtype " + *e.type + " has " +
              std::to_string(*bytes) + " bytes, but its data_offsets are " + range);
  }
}

// Sorted by place; every byte of the data belongs to exactly one tensor.
void check_cover(const input_file& file, std::vector<entry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const entry& a, const entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  std::uint64_t covered = 0;
  for (const auto& e : entries) {
    if (e.begin < covered) file.fail("tensor " + shown(e.name) + " overlaps the tensor before it");
    if (e.begin > covered) {
      file.fail(std::to_string(e.begin - covered) + " bytes before tensor " + shown(e.name) + " belong to no tensor");
    }
    covered = e.end;
  }
  if (covered != data_bytes) {
    file.fail(std::to_string(data_bytes - covered) + " bytes after the last tensor belong to none");
  }
}

void refuse_other_kinds(const input_file& file) {
  std::string start(std::min<std::uint64_t>(file.size(), file_kind_bytes), '\0');
  file.read(0, start.data(), start.size());
  if (const auto kind = other_file_kind(start); !kind.empty()) file.fail("not a safetensors file but " + kind);
}

std::string read_header(const input_file& file) {
  refuse_other_kinds(file);
  std::uint64_t length = 0;
  if (file.size() < sizeof length) {
    file.fail("not a safetensors file: " + std::to_string(file.size()) + " bytes, wanted at least 8");
  }
  file.read(0, &length, sizeof length);
  if (length > most_header_bytes) {
    file.fail("not a safetensors file: a header of " + std::to_string(length) + " bytes, wanted at most 100 MB");
  }
  if (length > file.size() - sizeof length) {
    file.fail("the header has " + std::to_string(length) + " bytes, but the file only " + std::to_string(file.size()) +
              " (truncated?)");
  }
  std::string header(length, '\0');
  file.read(sizeof length, header.data(), header.size());
  if (header.empty() || header.front() != '{') file.fail("not a safetensors file: the header does not begin with '{'");
  return header;
}

// Row-major values of `Stored` to f32, piece by piece; `as_double` gives the value of one.
template <class Stored, class AsDouble>
void read_converted(const input_file& file, std::uint64_t offset, const entry& e, tensor& to,
                    const AsDouble& as_double) {
  constexpr std::size_t at_once = 1 << 16;
  std::vector<Stored> piece(at_once);
  auto* values = to.data<float>();
  const auto count = static_cast<std::size_t>(to.elements());
  for (std::size_t begin = 0; begin < count; begin += at_once) {
    const auto n = std::min(at_once, count - begin);
    file.read(offset + begin * sizeof(Stored), piece.data(), n * sizeof(Stored));
    for (std::size_t i = 0; i < n; ++i) {
      const double value = as_double(piece[i]);
      values[begin + i] = static_cast<float>(value);
      if (std::isfinite(value) && !std::isfinite(values[begin + i]))
        file.fail("tensor " + shown(e.name) + " holds a number beyond F32: " +
                  value_text(values[begin + i], to.dims(), begin + i) + " after conversion from " + *e.type);
    }
  }
}

void read_values(const input_file& file, std::uint64_t offset, const entry& e, tensor& to) {
  if (*e.type == "F64")
    read_converted<double>(file, offset, e, to, [](double v) { return v; });
  else if (*e.type == "F16")
    read_converted<std::uint16_t>(file, offset, e, to, [](std::uint16_t v) { return double{float_from_f16(v)}; });
  else
    file.read(offset, to.raw(), to.bytes());
}

std::string written_header(const std::filesystem::path& file, const named_tensors& tensors,
                           const std::map<std::string, std::string>& metadata) {
  // ordered_json would compare every name with every other; pieces are enough.
  std::string header = "{";
  if (!metadata.empty()) header += "\"" + std::string(metadata_key) + "\":" + nlohmann::json(metadata).dump();
  std::uint64_t offset = 0;
  for (const auto& [name, value] : tensors) {
    check(static_cast<bool>(value) && value.is_plain(), "only plain tensors are written");
    if (name == metadata_key) throw error(file.string() + ": cannot write a tensor named " + metadata_key);
    if (header.size() > 1) header += ",";
    const auto end = offset + value.bytes();
    header += nlohmann::json(name).dump() + ":{\"dtype\":\"" + std::string(name_of(value.type())) +
              "\",\"shape\":" + nlohmann::json(value.dims()).dump() + ",\"data_offsets\":[" + std::to_string(offset) +
              "," + std::to_string(end) + "]}";
    offset = end;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > most_header_bytes) throw error(file.string() + ": cannot write: a header of over 100 MB");
  return header;
}

} // namespace

safetensors_contents read_safetensors(const std::filesystem::path& path, memory_pool& pool, memory_use use) {
  const input_file file(path);
  header_reader header;
  std::uint64_t data_start = sizeof(std::uint64_t);
  {
    const auto text = read_header(file);
    data_start += text.size();
    if (!nlohmann::json::sax_parse(text, &header)) file.fail(header.problem);
  }
  const auto data_bytes = file.size() - data_start;
  // Everything is checked before anything is allocated: all tensors together are then as large as
  // the file (twice that where it is all F16).
  for (const auto& e : header.entries)
    check_entry(file, e, data_bytes);
  check_cover(file, header.entries, data_bytes);
  safetensors_contents contents;
  contents.metadata = std::move(header.metadata);
  for (const auto& e : header.entries) {
    auto value = tensor::allocate(pool, stored_type_named(*e.type)->kept, *e.dims, use);
    read_values(file, data_start + e.begin, e, value);
    if (!dtype_named(*e.type)) contents.converted[e.name] = *e.type;
    contents.tensors.emplace(e.name, std::move(value));
  }
  return contents;
}

void write_safetensors(const std::filesystem::path& file, const named_tensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::string header;
  try {
    header = written_header(file, tensors, metadata);
  } catch (const nlohmann::json::exception&) {
    throw error(file.string() + ": cannot write: a name or metadata is not UTF-8");
  }
  atomic_file out(file);
  const std::uint64_t length = header.size();
  out.write(&length, sizeof length);
  out.write(header);
  for (const auto& [name, value] : tensors)
    out.write(value.raw(), value.bytes());
  out.commit();
}

} // namespace penstock
