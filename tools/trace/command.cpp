// Reads the words, reads the file, and hands it to what was asked for.
#include "tools/trace/command.hpp"

#include "actors/trace/merge.hpp"
#include "actors/trace/plan_epochs.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "kernels/text_table.hpp"
#include "tools/trace/diff.hpp"
#include "tools/trace/history.hpp"
#include "tools/trace/lifeline.hpp"
#include "tools/trace/summary.hpp"
#include "tools/trace/table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <ostream>
#include <vector>

namespace penstock::actors {

namespace {

constexpr std::int64_t shown_minibatches = 8; // of a timeline, unless told
constexpr const char* warning = "penstock: trace: warning: ";

const std::vector<std::string> commands{"summary", "timeline", "lifeline", "check", "diff", "merge"};

constexpr const char* help =
    "usage: penstock trace COMMAND FILE...\n"
    "  summary FILE [--json]            how busy each stage was, why it waited, how stale it was\n"
    "  timeline FILE [--from N] [--to N] [--width N]\n"
    "                                   minibatches N to N as text, one row a stage replica\n"
    "  lifeline FILE MINIBATCH          one minibatch's way through the stages\n"
    "  check FILE                       did the run do what its schedule promises?\n"
    "  diff A B [--json]                two traces of one model: predicted and run, before and after, one plan and "
    "another\n"
    "  merge FILE... -o OUT             the files of a run's ranks as one trace, on rank 0's clock\n";

struct request {
  std::string command;
  std::vector<std::string> words; // the file and what follows it
  std::map<std::string, std::int64_t> numbers;
  std::string output;
  bool json = false;
  bool help = false;
};

std::int64_t parse_number(const request& r, const std::string& what, const std::string& text, std::int64_t least,
                          std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw usage_error("trace " + r.command + ": " + what + " is '" + text + "', wanted a whole number from " +
                      std::to_string(least) + " to " + std::to_string(most));
  return value;
}

std::vector<std::string> options_of(const std::string& command) {
  if (command == "summary" || command == "diff") return {"--json", "--help"};
  if (command == "timeline") return {"--from", "--to", "--width", "--help"};
  if (command == "merge") return {"-o", "--output", "--help"};
  return {"--help"};
}

/// The option's value: what follows '=' or the next word.
std::string value_of(const std::string& command, const std::string& name, std::optional<std::string> attached,
                     std::span<const std::string> args, std::size_t& at) {
  if (attached) return *attached;
  if (++at >= args.size()) throw usage_error("trace " + command + ": option " + name + " lacks its value");
  return args[at];
}

request parse(std::span<const std::string> args) {
  if (args.empty()) throw usage_error("trace: no command, wanted one of " + join(commands, ", "));
  request r;
  r.command = args[0];
  if (r.command == "--help" || r.command == "-h") {
    r.help = true;
    return r;
  }
  if (std::find(commands.begin(), commands.end(), r.command) == commands.end())
    throw usage_error("trace: unknown command '" + r.command + "'" + did_you_mean(r.command, commands) +
                      ", wanted one of " + join(commands, ", "));
  const auto options = options_of(r.command);
  for (std::size_t i = 1; i < args.size(); ++i) {
    const std::string& word = args[i];
    if (word.size() < 2 || word[0] != '-' || (word[1] >= '0' && word[1] <= '9')) {
      r.words.push_back(word);
      continue;
    }
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals);
    const auto attached = equals == std::string::npos ? std::nullopt : std::optional(word.substr(equals + 1));
    if (name == "-h" || name == "--help") {
      r.help = true;
    } else if (std::find(options.begin(), options.end(), name) == options.end()) {
      throw usage_error("trace " + r.command + ": unknown option '" + name + "'" + did_you_mean(name, options));
    } else if (name == "--json") {
      if (attached) throw usage_error("trace " + r.command + ": option --json takes no value");
      r.json = true;
    } else {
      const auto text = value_of(r.command, name, attached, args, i);
      if (r.command == "merge")
        r.output = text;
      else
        r.numbers[name] = name == "--width" ? parse_number(r, name, text, 10, 100'000)
                                            : parse_number(r, name, text, 0, std::int64_t{1} << 53);
    }
  }
  return r;
}

void check_words(const request& r) {
  const std::size_t wanted = r.command == "lifeline" || r.command == "diff" ? 2 : 1;
  if (r.words.empty()) throw usage_error("trace " + r.command + ": no FILE given");
  if (r.command == "merge") {
    if (r.output.empty()) throw usage_error("trace merge: no -o OUT given, where the merged trace goes");
    return;
  }
  if (r.words.size() < wanted)
    throw usage_error("trace " + r.command + ": no " + (r.command == "diff" ? "second FILE" : "MINIBATCH") + " given");
  if (r.words.size() > wanted)
    throw usage_error("trace " + r.command + ": one word too many, '" + r.words[wanted] + "'");
}

std::int64_t number_or(const request& r, const char* name, std::int64_t otherwise) {
  const auto at = r.numbers.find(name);
  return at == r.numbers.end() ? otherwise : at->second;
}

/// Columns of time that fit beside the rows' names.
std::int64_t room_of(const trace_header& h) {
  constexpr std::int64_t least = 10, without_terminal = 120;
  const auto columns = static_cast<std::int64_t>(output_columns());
  if (columns == 0) return without_terminal;
  std::size_t names = 0;
  for (std::size_t epoch = 0; epoch < epoch_count(h); ++epoch) {
    const auto& plan = plan_of(h, epoch);
    auto longest = std::string("stage " + std::to_string(plan.stages.size() - 1)).size();
    if (const auto most = std::ranges::max(replicas_of(plan)); most > 1) longest += 1 + std::to_string(most - 1).size();
    names = std::max(names, longest);
  }
  return std::max(least, columns - static_cast<std::int64_t>(names + std::string(" ||").size()));
}

std::string draw(const request& r, const trace_file& file) {
  const auto first = std::max<std::int64_t>(0, file.header.first_minibatch);
  const auto from = number_or(r, "--from", first);
  const auto to = number_or(r, "--to", from + shown_minibatches - 1);
  if (to < from)
    throw usage_error("trace timeline: --to is " + std::to_string(to) + ", before --from " + std::to_string(from));
  return timeline(file, from, to + 1, static_cast<int>(number_or(r, "--width", room_of(file.header))));
}

void merge(const request& r, std::ostream& out, std::ostream& err) {
  const auto merged = merge_traces({r.words.begin(), r.words.end()}, r.output);
  const auto& h = merged.header;
  out << merged.records << " records of " << rank_count(h) << " ranks in '" << r.output
      << "', measured clocks corrected by up to "
      << format("%.1f us\n", static_cast<double>(merged.most_corrected_ns) * 1e-3);
  if (h.clock_conflict_ns > 0)
    err << warning << "the ranks' clocks disagree by up to "
        << format("%.1f us", static_cast<double>(h.clock_conflict_ns) * 1e-3)
        << ": some messages are received before they are sent\n";
  if (!h.missing.empty()) err << warning << "the trace is incomplete: " << one_line(h.missing) << '\n';
}

/// A file's word as a terminal may have it: without control characters, in UTF-8 either, and not endless.
std::string shown(std::string text) {
  constexpr std::size_t most = 1000;
  const auto is_control = [&](std::size_t i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto before = i > 0 ? static_cast<unsigned char>(text[i - 1]) : 0;
    return c < ' ' || c == 0x7f || (before == 0xc2 && c >= 0x80 && c < 0xa0);
  };
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_control(i)) {
      if (static_cast<unsigned char>(text[i]) >= 0x80) text[i - 1] = '?';
      text[i] = '?';
    }
  if (text.size() <= most) return text;
  auto end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80)
    --end;
  return text.substr(0, end) + "...";
}

trace_file read_to_show(const std::string& name) {
  auto file = read_trace(name);
  auto& h = file.header;
  for (auto* text : {&h.model, &h.missing, &file.missing})
    *text = shown(std::move(*text));
  for (auto& text : h.hosts)
    text = shown(std::move(text));
  const auto show = [](planner::execution_plan& plan) {
    plan.schedule = shown(std::move(plan.schedule));
    for (auto& stage : plan.stages)
      for (auto* text : {&stage.first_layer, &stage.last_layer})
        *text = shown(std::move(*text));
  };
  show(h.plan);
  for (auto& change : h.changes)
    show(change.plan);
  return file;
}

int run(const request& r, std::ostream& out, std::ostream& err) {
  if (r.help) {
    out << help;
    return 0;
  }
  check_words(r);
  if (r.command == "merge") {
    merge(r, out, err);
    return 0;
  }
  std::int64_t minibatch = 0;
  if (r.command == "lifeline") minibatch = parse_number(r, "MINIBATCH", r.words[1], 0, std::int64_t{1} << 53);
  const auto file = read_to_show(r.words[0]);
  if (r.command == "diff") {
    const auto other = read_to_show(r.words[1]);
    const auto difference = compare_traces(file, other);
    out << (r.json ? to_json(difference, file, other) + "\n" : to_text(difference, file, other));
    return 0;
  }
  if (r.command == "check") {
    const auto verdict = check_history(file);
    const bool holds = verdict.found == history_verdict::outcome::holds;
    (holds ? out : err) << verdict.line << '\n';
    return holds ? 0 : 1;
  }
  if (r.command == "summary") {
    const auto summary = summarize(file);
    out << (r.json ? to_json(summary, file) + "\n" : to_text(summary, file));
    return 0;
  }
  if (!file.complete()) err << warning << "the trace is incomplete: " << one_line(file.missing) << '\n';
  out << (r.command == "lifeline" ? lifeline(file, minibatch) : draw(r, file));
  return 0;
}

} // namespace

int trace_command(std::span<const std::string> args, std::ostream& out, std::ostream& err) {
  try {
    return run(parse(args), out, err);
  } catch (const usage_error& refused) {
    err << "penstock: " << one_line(refused.what()) << '\n';
    return 2;
  } catch (const error& failed) {
    err << "penstock: trace: " << one_line(failed.what()) << '\n';
    return 1;
  }
}

} // namespace penstock::actors
