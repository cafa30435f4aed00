// Looks through a model before the library does, which follows offsets in it unchecked. No libprotobuf here: the
// library has its own within, and two in one program abort.
#include "apps/text/sentencepiece.hpp"
#include "apps/text/unicode.hpp"
#include "apps/text/vocabulary.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <protozero/pbf_reader.hpp>

#include <cmath>
#include <cstring>
#include <unordered_map>

namespace penstock::apps {

using namespace unicode;

namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

// The fields of sentencepiece_model.proto that are looked at.
namespace field {
constexpr protozero::pbf_tag_type pieces = 1, trainer = 2, normalizer = 3, denormalizer = 5;
constexpr protozero::pbf_tag_type piece_text = 1, piece_score = 2, piece_type = 3;
constexpr protozero::pbf_tag_type model_type = 3;
constexpr protozero::pbf_tag_type rules = 2;
} // namespace field

constexpr int unknown_type = 2;
constexpr int last_type = 6;
constexpr int last_model_type = 4;

void expect_type(const pbf_reader& reader, pbf_wire_type wanted, const char* what) {
  if (reader.wire_type() != wanted) throw error(std::string(what) + " is of a wrong wire type");
}

std::string_view bytes_of(pbf_reader& reader, const char* what) {
  expect_type(reader, pbf_wire_type::length_delimited, what);
  const auto view = reader.get_view();
  return {view.data(), view.size()};
}

struct piece {
  std::string_view text;
  float score = 0;
  std::int64_t type = 1;
};

piece piece_of(std::string_view bytes) {
  piece p;
  pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    if (reader.tag() == field::piece_text) {
      p.text = bytes_of(reader, "its text");
    } else if (reader.tag() == field::piece_score) {
      expect_type(reader, pbf_wire_type::fixed32, "its score");
      p.score = reader.get_float();
    } else if (reader.tag() == field::piece_type) {
      expect_type(reader, pbf_wire_type::varint, "its type");
      p.type = reader.get_enum();
    } else {
      reader.skip();
    }
  }
  if (p.text.empty()) throw error("has no text");
  if (p.text.size() > longest_token_bytes) throw error("has " + std::to_string(p.text.size()) + " bytes");
  require_utf8(p.text);
  if (!std::isfinite(p.score)) throw error("has a score that is no number");
  if (p.type < 1 || p.type > last_type) throw error("is of the unknown type " + std::to_string(p.type));
  return p;
}

// A double array (Darts-clone): from a unit, the next character leads to unit `at ^ offset ^ character`. Units of
// arrays as the library builds them stay within their block of 256.
void check_trie(std::string_view trie, std::size_t texts_bytes) {
  const auto count = trie.size() / 4;
  for (std::size_t at = 0; at < count; ++at) {
    std::uint32_t unit = 0;
    std::memcpy(&unit, trie.data() + 4 * at, 4);
    constexpr std::uint32_t leaf = 1U << 31;
    if ((unit & leaf) != 0) {
      if ((unit & ~leaf) >= texts_bytes) throw error("its normalisation rules lead to a text outside of them");
      continue;
    }
    const std::size_t offset = (unit >> 10) << ((unit & (1U << 9)) >> 6);
    if (((at ^ offset) | 255) >= count) throw error("its normalisation rules lead outside of their trie");
  }
}

void check_rules(std::string_view rules) {
  if (rules.empty()) return;
  std::uint32_t trie_bytes = 0;
  if (rules.size() <= 4) throw error("its normalisation rules are cut off");
  std::memcpy(&trie_bytes, rules.data(), 4);
  if (trie_bytes >= rules.size() - 4 || trie_bytes % 4 != 0 || trie_bytes == 0)
    throw error("its normalisation rules say that " + std::to_string(trie_bytes) + " of their " +
                std::to_string(rules.size() - 4) + " bytes are a trie");
  const auto texts = rules.substr(4 + trie_bytes);
  if (texts.back() != '\0') throw error("its normalisation rules do not end with a NUL");
  check_trie(rules.substr(4, trie_bytes), texts.size());
}

void check_normalizer(std::string_view bytes) {
  pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    if (reader.tag() == field::rules)
      check_rules(bytes_of(reader, "its normalisation rules"));
    else
      reader.skip();
  }
}

int model_type_of(std::string_view bytes) {
  int type = 1;
  pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    if (reader.tag() != field::model_type) {
      reader.skip();
      continue;
    }
    expect_type(reader, pbf_wire_type::varint, "its model type");
    type = reader.get_enum();
  }
  if (type < 1 || type > last_model_type) throw error("is of the unknown model type " + std::to_string(type));
  return type;
}

class piece_list {
public:
  void add(std::string_view bytes) {
    const auto number = std::to_string(places_.size());
    try {
      const auto p = piece_of(bytes);
      const auto [found, is_new] = places_.emplace(p.text, places_.size());
      if (!is_new)
        throw error("is " + in_quotes(p.text) + ", as piece " + std::to_string(found->second) +
                    " is; wanted each once");
      unknown_ += p.type == unknown_type ? 1 : 0;
    } catch (const error& fault) {
      throw error("piece " + number + " " + fault.what());
    }
  }
  std::size_t finish() const {
    if (places_.empty()) throw error("has no pieces");
    if (unknown_ != 1) throw error("has " + std::to_string(unknown_) + " unknown pieces, wanted one");
    return places_.size();
  }

private:
  std::unordered_map<std::string_view, std::size_t> places_;
  std::size_t unknown_ = 0;
};

} // namespace

bool is_sentencepiece(std::string_view start) {
  // Field 1, its length, field 1 of that and the length of the text.
  return start.size() > 3 && start[0] == '\x0a' && start[2] == '\x0a' && start[1] > 2 && start[3] <= start[1] - 2;
}

sentencepiece_facts check_sentencepiece(std::string_view model) {
  sentencepiece_facts facts;
  piece_list pieces;
  try {
    pbf_reader reader(model.data(), model.size());
    while (reader.next()) {
      switch (reader.tag()) {
      case field::pieces:
        pieces.add(bytes_of(reader, "a piece"));
        break;
      case field::trainer:
        facts.model_type = model_type_of(bytes_of(reader, "its trainer"));
        break;
      case field::normalizer:
      case field::denormalizer:
        check_normalizer(bytes_of(reader, "its normalisation"));
        break;
      default:
        reader.skip();
      }
    }
  } catch (const protozero::exception& fault) {
    throw error(std::string("is cut off or damaged (") + fault.what() + ")");
  }
  facts.pieces = pieces.finish();
  return facts;
}

} // namespace penstock::apps
