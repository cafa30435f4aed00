// The command line of a program, as plain declarations. CLI11, which compiles slowly, is seen by the .cpp alone.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace penstock::apps {

/// Declares options ("--batch", or with a short name before: "-o,--output"), each bound to a variable that holds its
/// default and must outlive this object. No option takes an empty value. A later use of an option wins over an earlier
/// one. Help that ends with
/// "[words]" says the default in words; then the variable's first value means that nothing was given.
class command_line {
public:
  command_line(std::string program, std::string description);
  ~command_line();
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;

  void group(std::string title); ///< of the options that follow, in --help
  void positional(const std::string& name, std::string& value, const std::string& help);
  /// One or more words, behind the other positional ones.
  void positionals(const std::string& name, std::vector<std::string>& values, const std::string& help);
  void footer(const std::string& text); ///< follows the options in --help

  void text(const std::string& option, std::string& value, const std::string& placeholder, const std::string& help);
  void texts(const std::string& option, std::vector<std::string>& values, const std::string& placeholder,
             const std::string& help); ///< may be given several times
  /// One of `words`.
  void choice(const std::string& option, std::string& value, const std::vector<std::string>& words,
              const std::string& help);
  void flag(const std::string& option, bool& value, const std::string& help);
  /// An option that may stand alone, which gives `value` the first of `words`, or be followed by one of them.
  void optional_choice(const std::string& option, std::string& value, const std::vector<std::string>& words,
                       const std::string& help);
  /// A switch that turns something off: `value` becomes false.
  void off(const std::string& option, bool& value, const std::string& help);

  template <std::integral T>
  void whole(const std::string& option, T& value, std::int64_t least, const std::string& help) {
    const auto most = std::in_range<std::int64_t>(std::numeric_limits<T>::max())
                          ? static_cast<std::int64_t>(std::numeric_limits<T>::max())
                          : std::numeric_limits<std::int64_t>::max();
    whole(option, value, least, most, help);
  }
  template <std::integral T>
  void whole(const std::string& option, T& value, std::int64_t least, std::int64_t most, const std::string& help) {
    add_whole(
        option, least, most, [&value](std::int64_t v) { value = static_cast<T>(v); },
        [&value] { return std::to_string(value); }, help);
  }
  template <std::floating_point T>
  void real(const std::string& option, T& value, double least, double most, const std::string& help) {
    add_real(
        option, least, std::min(most, static_cast<double>(std::numeric_limits<T>::max())),
        [&value](double v) { value = static_cast<T>(v); }, [&value] { return static_cast<double>(value); }, help);
  }

  /// Returns true when the program should go on, false when help or the version was asked for, which is then in
  /// help_text(). Throws usage_error, one line that names the option, what was found and what was wanted; an unknown
  /// one suggests the nearest, or what a peer's option of that name is called here.
  bool parse(std::span<const std::string> arguments);
  std::string help_text() const;
  /// Was this option given?
  bool given(const std::string& option) const;

  struct setting {
    std::string name; ///< without the dashes
    std::string json; ///< the value as it stands, as JSON; null where nothing was given
  };
  /// Every option that has a value, in the order of declaration.
  std::vector<setting> settings() const;

private:
  void add_whole(const std::string& option, std::int64_t least, std::int64_t most,
                 const std::function<void(std::int64_t)>& set, const std::function<std::string()>& get,
                 const std::string& help);
  void add_real(const std::string& option, double least, double most, const std::function<void(double)>& set,
                const std::function<double()>& get, const std::string& help);

  struct implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace penstock::apps
