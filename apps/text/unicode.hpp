// UTF-8 and what Unicode says of characters. utf8proc (Unicode 15) is seen by the .cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::apps::unicode {

/// Where the first byte lies that is no UTF-8 (overlong forms, surrogates and what lies above U+10FFFF are none), or
/// npos.
std::size_t find_bad_utf8(std::string_view text);
/// Throws error: "byte 13 is 0xff, wanted UTF-8"; counted from 1.
void require_utf8(std::string_view text);

// What follows takes valid UTF-8.

/// The character that begins at `at`, which moves behind it.
char32_t next_character(std::string_view text, std::size_t& at);
void append_character(std::string& text, char32_t c);
std::size_t count_characters(std::string_view text);

enum class whose_space : std::uint8_t { python, rust };

bool is_other(char32_t c);      ///< categories Cc, Cf, Cs, Co
bool is_unassigned(char32_t c); ///< Cn
bool is_punctuation(char32_t c);
bool is_symbol(char32_t c);
bool is_nonspacing_mark(char32_t c); ///< Mn
bool is_letter(char32_t c);
bool is_number(char32_t c);
bool is_space_separator(char32_t c); ///< Zs
/// What str.split() of Python, or char::is_whitespace of Rust, takes for white space: Python's has U+001C to U+001F
/// too.
bool is_white_space(char32_t c, whose_space whose);

/// One character's full lower-case mapping without context, which is one character but for U+0130.
void append_lower_case(std::string& text, char32_t c);

enum class unicode_form : std::uint8_t { nfc, nfd, nfkc, nfkd };
std::string normalized(std::string_view text, unicode_form form);

} // namespace penstock::apps::unicode
