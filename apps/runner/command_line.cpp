// CLI11 behind our declarations: its parsing and help, our messages.
#include "apps/runner/command_line.hpp"

#include "apps/runner/peer_options.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "kernels/text_table.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace penstock::apps {

namespace {

constexpr const char* version = "penstock " PENSTOCK_VERSION;

template <class T>
std::string number_text(T value) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

std::string range_text(std::int64_t least) {
  return "a whole number of at least " + std::to_string(least);
}

std::string range_text(std::int64_t least, std::int64_t most) {
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

std::string range_text(double least, double most) {
  constexpr double without_limit = 1e30; // a float's or a double's largest says nothing to a person
  return most < without_limit ? "a number from " + number_text(least) + " to " + number_text(most)
                              : "a number of at least " + number_text(least);
}

constexpr std::size_t names_width = 34; // of --help's options, behind which their texts stand

// CLI11's help, its texts broken to fit the terminal. CLI11 sets in what follows a line's end.
class fitted_help : public CLI::Formatter {
public:
  fitted_help() { column_width(names_width); }

  std::string make_option_desc(const CLI::Option* option) const override {
    const auto columns = output_columns();
    constexpr std::size_t least = 20; // a narrower column is no help
    auto text = fold_lines(CLI::Formatter::make_option_desc(option) + "\n",
                           columns == 0 ? 0 : std::max(columns, names_width + least) - names_width);
    text.pop_back();
    return text;
  }
};

// A file's name may be any bytes; JSON holds UTF-8 alone.
std::string json_text(const nlohmann::json& words) {
  return words.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// "-n,--np" goes by its long name.
std::string long_name(const std::string& option) {
  return option.substr(option.rfind(',') + 1);
}

[[noreturn]] void refuse(const std::string& option, const std::string& found, const std::string& wanted) {
  throw usage_error(option + ": found " + in_quotes(found) + ", wanted " + wanted);
}

// The whole text must be the number.
template <class T>
std::errc parse_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  return fault == std::errc{} && rest != end ? std::errc::invalid_argument : fault;
}

} // namespace

struct command_line::implementation {
  struct binding {
    CLI::Option* option = nullptr;
    std::string name;                               // with the dashes
    std::function<void(const std::string&)> assign; // of one given value
    std::function<std::string()> json;
    bool is_switch = false;
    bool takes_text = true; // and not numbers, which say better what they want
    std::string alone{};    // what it means without a value, where it may have none
  };

  // "Stages [1]": the help's own words, and the variable's first value only means that nothing was given.
  static bool says_default(const std::string& help) { return help.ends_with("]"); }

  static std::function<std::string()> json_number(const std::function<std::string()>& get, const std::string& help) {
    if (!says_default(help)) return get;
    return [get, unset = get()] { return get() == unset ? std::string("null") : get(); };
  }

  CLI::App app;
  std::string group = "Options";
  std::vector<std::unique_ptr<std::vector<std::string>>> raw; // what CLI11 writes to; addresses must stay
  std::vector<binding> bindings;
  bool asks_version = false;

  std::vector<std::string> option_names() const {
    std::vector<std::string> names{"--help", "--version"};
    for (const auto& b : bindings) {
      if (b.name.starts_with("-")) names.push_back(b.name);
    }
    return names;
  }

  CLI::Option* add(const std::string& name, const std::string& placeholder, const std::string& shown,
                   const std::string& help, binding b) {
    raw.push_back(std::make_unique<std::vector<std::string>>());
    auto* option = app.add_option(name, *raw.back(), help);
    option->expected(1)->group(group)->type_name(placeholder);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->allow_extra_args(false);
    if (!shown.empty() && !says_default(help)) option->default_str(shown);
    b.option = option;
    b.name = long_name(name);
    bindings.push_back(std::move(b));
    return option;
  }

  void add_flag(const std::string& name, bool& value, bool to, const std::string& help) {
    auto* option = app.add_flag(name, help);
    option->group(group)->disable_flag_override(true);
    bindings.push_back({option, name, [&value, to](const std::string&) { value = to; },
                        [&value, to] { return value == to ? std::string("true") : std::string("false"); }, true});
  }

  // CLI11 takes the next argument for "--data=", and says little of "--nesterov=3".
  void check_equal_sign(const std::string& word) const {
    const auto at = word.find('=');
    if (!word.starts_with("--") || at == std::string::npos) return;
    const auto name = word.substr(0, at);
    for (const auto& b : bindings) {
      if (b.name != name) continue;
      if (b.is_switch) refuse(name, word.substr(at + 1), "no value: it is a switch");
      if (at + 1 == word.size()) throw usage_error(name + ": a value is missing");
    }
  }

  // "--resume --trace t" as "--resume=last --trace t", so that CLI11 sees a value in any case.
  std::vector<std::string> with_values(std::span<const std::string> arguments) const {
    std::vector<std::string> all(arguments.begin(), arguments.end());
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const auto& b : bindings)
        if (!b.alone.empty() && all[i] == b.name && (i + 1 == all.size() || all[i + 1].starts_with("-")))
          all[i] += "=" + b.alone;
    return all;
  }

  // "--stages --trace t": an option as another's value is a value forgotten.
  void check_values() const {
    const auto names = option_names();
    for (const auto& b : bindings) {
      if (b.is_switch) continue;
      for (const auto& value : b.option->results()) {
        if (value.empty() && b.takes_text) throw usage_error(b.name + ": found '', wanted a value");
        if (std::find(names.begin(), names.end(), value) != names.end())
          throw usage_error(b.name + ": a value is missing before " + in_quotes(value) + "");
      }
    }
  }

  // A peer's name for one of ours, else one of ours that is near, else what a peer has and this has not.
  std::string hint(const std::string& name) const {
    const auto names = option_names();
    for (const auto& text : {peers_option(name, names), did_you_mean(name, names)})
      if (!text.empty()) return text;
    return peers_word(name, names);
  }

  [[noreturn]] void refuse_unknown(const std::vector<std::string>& words) const {
    for (const auto& word : words) {
      if (!word.starts_with("-")) continue;
      const auto name = word.substr(0, word.find('='));
      throw usage_error("unknown option " + in_quotes(name) + hint(name) + "; --help lists all");
    }
    if (words.front() == "help") throw usage_error("unexpected argument 'help' (did you mean '--help'?)");
    throw usage_error("unexpected argument " + in_quotes(words.front()) + "; --help lists what there is");
  }
};

command_line::command_line(std::string program, std::string description) : self_(std::make_unique<implementation>()) {
  self_->app.name(std::move(program));
  self_->app.description(std::move(description));
  self_->app.allow_extras();
  self_->app.formatter(std::make_shared<fitted_help>());
  self_->app.set_help_flag("-h,--help", "This text")->group("Help");
  self_->app.set_version_flag("-V,--version", version, "Penstock's version")->group("Help");
}

command_line::~command_line() = default;

void command_line::group(std::string title) {
  self_->group = std::move(title);
}
void command_line::footer(const std::string& text) {
  self_->app.footer(text);
}

void command_line::positional(const std::string& name, std::string& value, const std::string& help) {
  self_->add(name, "", "", help, {nullptr, name, [&value](const std::string& v) { value = v; }, {}});
}

void command_line::text(const std::string& option, std::string& value, const std::string& placeholder,
                        const std::string& help) {
  self_->add(option, placeholder, value, help,
             {nullptr, option, [&value](const std::string& v) { value = v; },
              [&value] { return value.empty() ? std::string("null") : json_text(value); }});
}

void command_line::choice(const std::string& option, std::string& value, const std::vector<std::string>& words,
                          const std::string& help) {
  const auto wanted = join(std::span(words).first(words.size() - 1), ", ") + " or " + words.back();
  const auto assign = [=, &value](const std::string& word) {
    if (std::find(words.begin(), words.end(), word) == words.end())
      throw usage_error(option + ": found '" + shortened(word) + "'" + did_you_mean(word, words) + ", wanted " +
                        wanted);
    value = word;
  };
  self_->add(option, "NAME", value, help, {nullptr, option, assign, [&value] { return json_text(value); }});
}

void command_line::positionals(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  constexpr int most_words = 100'000;
  auto* added = self_->add(name, "", "", help,
                           {nullptr, name, [&values](const std::string& v) { values.push_back(v); },
                            [&values] { return json_text(values); }});
  added->expected(1, most_words)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(true);
}

void command_line::texts(const std::string& option, std::vector<std::string>& values, const std::string& placeholder,
                         const std::string& help) {
  auto* added = self_->add(option, placeholder, "", help,
                           {nullptr, option, [&values](const std::string& v) { values.push_back(v); },
                            [&values] { return json_text(values); }});
  added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
}

void command_line::flag(const std::string& option, bool& value, const std::string& help) {
  self_->add_flag(option, value, true, help);
}

void command_line::optional_choice(const std::string& option, std::string& value, const std::vector<std::string>& words,
                                   const std::string& help) {
  const auto assign = [&value, option, words](const std::string& given) {
    if (std::find(words.begin(), words.end(), given) == words.end())
      refuse(option, given, join(std::span(words).subspan(1), " or ") + ", or no value");
    value = given;
  };
  self_->add(option, "[" + join(std::span(words).subspan(1), "|") + "]", "", help,
             {nullptr, option, assign, [&value] { return value.empty() ? std::string("null") : json_text(value); },
              false, true, words.front()});
}

void command_line::off(const std::string& option, bool& value, const std::string& help) {
  self_->add_flag(option, value, false, help);
}

void command_line::add_whole(const std::string& option, std::int64_t least, std::int64_t most,
                             const std::function<void(std::int64_t)>& set, const std::function<std::string()>& get,
                             const std::string& help) {
  const auto assign = [=, name = long_name(option)](const std::string& text) {
    std::int64_t value = 0;
    const auto fault = parse_number(text, value);
    if (fault == std::errc::result_out_of_range || (fault == std::errc{} && value > most))
      refuse(name, text, range_text(least, most));
    if (fault != std::errc{} || value < least) refuse(name, text, range_text(least));
    set(value);
  };
  self_->add(option, "N", get(), help, {nullptr, option, assign, implementation::json_number(get, help), false, false});
}

void command_line::add_real(const std::string& option, double least, double most,
                            const std::function<void(double)>& set, const std::function<double()>& get,
                            const std::string& help) {
  const auto assign = [=, name = long_name(option)](const std::string& text) {
    double value = 0;
    if (parse_number(text, value) != std::errc{} || !std::isfinite(value) || value < least || value > most)
      refuse(name, text, range_text(least, most));
    set(value);
  };
  // Floats are shown with a float's digits: 0.1 and not 0.100000001.
  const auto shown = [get] { return number_text(static_cast<float>(get())); };
  self_->add(option, "X", shown(), help,
             {nullptr, option, assign, implementation::json_number(shown, help), false, false});
}

bool command_line::parse(std::span<const std::string> arguments) {
  for (const auto& word : arguments)
    self_->check_equal_sign(word);
  auto reversed = self_->with_values(arguments);
  std::reverse(reversed.begin(), reversed.end()); // as CLI11 takes them
  try {
    self_->app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::CallForVersion&) {
    self_->asks_version = true;
    return false;
  } catch (const CLI::ArgumentMismatch&) { // the last option wants a value
    throw usage_error((arguments.empty() ? std::string("an option") : arguments.back()) + ": a value is missing");
  } catch (const CLI::ParseError& fault) {
    throw usage_error(fault.what());
  }
  self_->check_values();
  if (const auto rest = self_->app.remaining(); !rest.empty()) self_->refuse_unknown(rest);
  for (const auto& b : self_->bindings) {
    for (const auto& value : b.option->reduced_results())
      b.assign(value);
  }
  return true;
}

std::string command_line::help_text() const {
  if (self_->asks_version) return version + std::string("\n");
  auto text = self_->app.help();
  for (auto at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at))
    text.erase(at, 1);
  return fold_lines(text, output_columns());
}

bool command_line::given(const std::string& option) const {
  for (const auto& b : self_->bindings) {
    if (b.name == option) return b.option->count() > 0;
  }
  check(false, "an option that was never declared");
  return false;
}

std::vector<command_line::setting> command_line::settings() const {
  std::vector<setting> all;
  for (const auto& b : self_->bindings) {
    if (b.json) all.push_back({b.name.substr(b.name.find_first_not_of('-')), b.json()});
  }
  return all;
}

} // namespace penstock::apps
