// Characters by utf8proc's tables.
#include "apps/text/unicode.hpp"

#include "kernels/check.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

namespace penstock::apps::unicode {

namespace {

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool lies_in(std::uint8_t byte, unsigned least, unsigned most) {
  return byte >= least && byte <= most;
}

// Bytes of the character that begins here, 0 when it is none (the table of well-formed sequences, Unicode 3.9).
std::size_t length_here(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> std::uint8_t {
    return at + i < text.size() ? static_cast<std::uint8_t>(text[at + i]) : 0;
  };
  const auto first = byte(0);
  if (first < 0x80) return 1;
  const auto follows = [&](std::size_t i) { return lies_in(byte(i), 0x80, 0xbf); };
  if (lies_in(first, 0xc2, 0xdf)) return follows(1) ? 2 : 0;
  if (lies_in(first, 0xe0, 0xef)) {
    const bool second = lies_in(byte(1), first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && follows(2) ? 3 : 0;
  }
  if (lies_in(first, 0xf0, 0xf4)) {
    const bool second = lies_in(byte(1), first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

} // namespace

std::size_t find_bad_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto length = length_here(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

void require_utf8(std::string_view text) {
  const auto at = find_bad_utf8(text);
  if (at == std::string_view::npos) return;
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[at])));
  throw error("byte " + std::to_string(at + 1) + " is " + byte + ", wanted UTF-8");
}

char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<std::uint8_t>(text[at + i])); };
  const auto first = byte(0);
  if (first < 0x80) {
    at += 1;
    return first;
  }
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  char32_t c = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i)
    c = (c << 6) | (byte(i) & 0x3f);
  at += length;
  return c;
}

void append_character(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text)
    count += (static_cast<std::uint8_t>(c) & 0xc0) != 0x80 ? 1 : 0;
  return count;
}

bool is_other(char32_t c) {
  switch (category_of(c)) {
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
    return true;
  default:
    return false;
  }
}

bool is_unassigned(char32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_CN;
}

bool is_punctuation(char32_t c) {
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_symbol(char32_t c) {
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO;
}

bool is_nonspacing_mark(char32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_MN;
}

bool is_letter(char32_t c) {
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_number(char32_t c) {
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_space_separator(char32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_ZS;
}

bool is_white_space(char32_t c, whose_space whose) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (whose == whose_space::python && c >= 0x1c && c <= 0x1f);
  if (c == 0x85) return true;
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
}

void append_lower_case(std::string& text, char32_t c) {
  if (c == 0x130)
    text += "i\u0307";
  else
    append_character(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

std::string normalized(std::string_view text, unicode_form form) {
  auto options = static_cast<unsigned>(UTF8PROC_STABLE);
  options |= form == unicode_form::nfc || form == unicode_form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == unicode_form::nfkc || form == unicode_form::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* result = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> freed(result, std::free);
  if (length < 0) throw error(std::string("Unicode normalisation: ") + utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(length)};
}

} // namespace penstock::apps::unicode
