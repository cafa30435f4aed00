// Broken and hostile traces through every command: an answer or a line (and a warning), quickly, and little memory.
#include "actors/trace/track_event.hpp"
#include "tests/trace/split_run.hpp"
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/command.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <limits>
#include <random>
#include <sstream>
#include <sys/resource.h>

namespace penstock::actors {
namespace {

namespace te = track_event;

/// The most memory that this process has had so far.
std::int64_t peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * std::int64_t{1024};
}

/// Runs every command on the file; each gives an answer or one line on stderr, after a warning that the trace is
/// incomplete. A merge waits for the disk, so not all do it.
void expect_answers(const std::string& name, const std::string& about, bool merges) {
  const scratch_file merged("merged.pftrace");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"summary", name},
                                                {"summary", name, "--json"},
                                                {"timeline", name},
                                                {"lifeline", name, "1"},
                                                {"check", name},
                                                {"diff", name, name},
                                                {"merge", name, "-o", merged.path().string()}}) {
    if (words[0] == "merge" && !merges) continue;
    std::ostringstream out, err;
    const int code = trace_command(words, out, err);
    const auto said = err.str();
    ASSERT_LE(code, 1) << words[0] << ", " << about << ": " << said;
    ASSERT_LE(std::count(said.begin(), said.end(), '\n'), 2) << words[0] << ", " << about << ": " << said;
    ASSERT_LE(said.size(), 4000U) << words[0] << ", " << about;
  }
}

std::string bytes_of(const synthetic_run& run) {
  const scratch_file file("bytes.pftrace");
  run.write(file.path());
  return file.bytes();
}

synthetic_run changing_run() {
  return make_changing_run({{{.name = "pipedream", .replicas = {2, 1}}, {3}},
                            {{.name = "1f1b", .replicas = {1, 1, 1}, .microbatches = 2, .frozen_stages = 1}, {2}}});
}

std::string header_packet(const std::string& json) {
  std::string bytes;
  {
    protozero::pbf_writer trace(bytes);
    protozero::pbf_writer packet(trace, te::trace::packet);
    protozero::pbf_writer event(packet, te::packet::event);
    event.add_int32(te::event::type, te::event::instant);
    event.add_string(te::event::name, te::header_event.data(), te::header_event.size());
    protozero::pbf_writer annotation(event, te::event::annotations);
    annotation.add_string(te::annotation::name, te::header_annotation.data(), te::header_annotation.size());
    annotation.add_string(te::annotation::string_value, json);
  }
  return bytes;
}

/// The trace's packets without its headers, and the last header.
std::pair<std::string, std::string> without_headers(const std::string& bytes) {
  std::string rest, header;
  protozero::pbf_reader trace(bytes);
  while (trace.next(te::trace::packet)) {
    const auto packet = trace.get_view();
    const std::string text(packet.data(), packet.size());
    const auto json = std::min(text.find("{\"clock"), text.find("{\"changes"));
    if (json != std::string::npos) {
      header = text.substr(json);
      continue;
    }
    protozero::pbf_writer(rest).add_message(te::trace::packet, text);
  }
  return {rest, header};
}

TEST(HostileTrace, MutatedBytesGiveAnAnswerOrOneLineInLittleMemory) {
  const auto whole = make_run({.name = "1f1b", .replicas = {2, 1}, .microbatches = 2}, {3, 2});
  const split_run ranks({whole.header, whole.records, {}}, {{0, 1}, {1}}, {{.host = "a"}, {.host = "b"}});
  const std::vector<std::string> originals{bytes_of(whole), bytes_of(ranks.parts[1]), bytes_of(changing_run())};
  const auto before = peak_bytes();
  std::mt19937 random(5);
  const scratch_file file("mutated.pftrace");
  for (int i = 0; i < 800; ++i) {
    auto bytes = originals[static_cast<std::size_t>(i) % originals.size()];
    const auto at = random() % bytes.size();
    switch (random() % 4) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 2: // a varint that is as large as one can be
      bytes.replace(at, 1, std::string(9, '\xff') + "\x01");
      break;
    default:
      bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 300));
    }
    file.replace(bytes);
    expect_answers(file.path().string(), "mutation " + std::to_string(i), i % 8 < 2);
    if (HasFatalFailure()) return;
  }
  EXPECT_LT(peak_bytes() - before, std::int64_t{256} << 20);
}

TEST(HostileTrace, HeadersOfAnyNumbersGiveAnAnswerOrOneLineInLittleMemory) {
  const auto whole = make_run({.name = "pipedream", .replicas = {2, 1}}, {4});
  const split_run ranks({whole.header, whole.records, {}}, {{0, 1}, {1}}, {{.host = "a"}, {.host = "b"}});
  const auto [rest, text] = without_headers(bytes_of(ranks.parts[0]));
  const auto original = nlohmann::json::parse(text);
  const std::vector<std::int64_t> numbers{-1,
                                          0,
                                          1,
                                          2,
                                          9'999,
                                          32'767,
                                          2147483647,
                                          std::int64_t{1} << 53,
                                          std::numeric_limits<std::int64_t>::max(),
                                          std::numeric_limits<std::int64_t>::min()};
  const auto before = peak_bytes();
  const scratch_file file("header.pftrace");
  std::mt19937 random(6);
  const auto try_it = [&](const nlohmann::json& header) {
    for (const bool has_records : {false, true}) {
      file.replace(header_packet(header.dump()) + (has_records ? rest : ""));
      expect_answers(file.path().string(), header.dump().substr(0, 400), random() % 8 == 0);
      if (HasFatalFailure()) return;
    }
  };
  for (const auto& [key, value] : original.items())
    for (const auto number : numbers) {
      auto changed = original;
      if (value.is_array() && !value.empty() && value[0].is_number())
        changed[key][0] = number;
      else
        changed[key] = number;
      try_it(changed);
      changed["replicas"] = changed["credits"] = std::vector<std::int64_t>(100, std::abs(number % 40'000));
      changed["rank"] = -1;
      changed["ranks"] = changed["hosts"] = changed["stage_layers"] = nlohmann::json::array();
      changed["complete"] = random() % 2 == 0;
      changed["schedule"] = std::vector<std::string>{"pipedream", "gpipe", "1f1b", "2bw"}[random() % 4];
      try_it(changed);
      if (HasFatalFailure()) return;
    }
  EXPECT_LT(peak_bytes() - before, std::int64_t{256} << 20);
}

TEST(HostileTrace, ChangesOfAnyNumbersGiveAnAnswerOrOneLineInLittleMemory) {
  const auto [rest, text] = without_headers(bytes_of(changing_run()));
  const auto original = nlohmann::json::parse(text);
  const auto before = peak_bytes();
  const scratch_file file("changes.pftrace");
  for (const auto& [key, value] : original.at("changes").at(0).items())
    for (const std::int64_t number : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{4},
                                      std::int64_t{32'767}, std::int64_t{2147483647}, std::int64_t{1} << 53}) {
      auto header = original;
      auto& change = header["changes"][0][key];
      if (value.is_array() && !value.empty() && value[0].is_number())
        change[0] = number;
      else
        change = number;
      file.replace(header_packet(header.dump()) + rest);
      expect_answers(file.path().string(), header.dump().substr(0, 400), false);
      if (HasFatalFailure()) return;
    }
  auto header = original;
  header["hosts"] = std::vector<std::string>(32'000, "");
  header["changes"] = std::vector<nlohmann::json>(4'096, original.at("changes").at(0));
  file.replace(header_packet(header.dump()) + rest);
  expect_answers(file.path().string(), "thousands of changes", true);
  EXPECT_LT(peak_bytes() - before, std::int64_t{256} << 20);
  header["changes"].push_back(original.at("changes").at(0));
  file.replace(header_packet(header.dump()) + rest);
  std::ostringstream out, err;
  EXPECT_EQ(trace_command(std::vector<std::string>{"check", file.path().string()}, out, err), 1);
  EXPECT_NE(err.str().find("'changes' is not a list of at most 4096 plans"), std::string::npos) << err.str();
}

TEST(HostileTrace, AHeaderThatStandsForMillionsOfReplicasIsRefused) {
  auto [rest, text] = without_headers(bytes_of(make_run({.name = "pipedream", .replicas = {1, 1}}, {4})));
  auto header = nlohmann::json::parse(text);
  header["replicas"] = std::vector<int>(10'000, 32'767);
  header["credits"] = std::vector<int>(10'000, 1);
  header["stage_layers"] = nlohmann::json::array();
  header.erase("recompute");
  const scratch_file file("millions.pftrace");
  file.replace(header_packet(header.dump()) + rest);
  std::ostringstream out, err;
  EXPECT_EQ(trace_command(std::vector<std::string>{"check", file.path().string()}, out, err), 1);
  EXPECT_NE(err.str().find("327670000 replicas of 10000 stages, at most 32767 are read"), std::string::npos)
      << err.str();
}

} // namespace
} // namespace penstock::actors
