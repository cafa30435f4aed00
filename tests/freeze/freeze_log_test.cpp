// Decisions written and read again; what is damaged or of another model.
#include "actors/freeze/freeze_log.hpp"
#include "apps/models/registry.hpp"
#include "kernels/check.hpp"
#include "tests/freeze/seen.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace penstock::actors {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const model& lenet() {
  static const model net = apps::find_model("lenet").build({});
  return net;
}

freeze_decision decision(std::int64_t number, int before, int depth) {
  const freeze_units units(lenet());
  freeze_decision d;
  d.number = number;
  d.policy = "gradient-norm:alpha=0.3333333333333333";
  d.guards = "off";
  d.seen = test::seen({0.1 / 3, 2e-300, not_seen, 4}, before, {1, not_seen, 3, 4});
  d.seen.units[0].layers = {{"conv1", 10, 0.1 / 3}};
  d.seen.step = 10 * number;
  d.seen.epochs = static_cast<double>(number) / 3;
  d.seen.training_loss = 2.3;
  d.seen.learning_rate = 0.1F;
  d.asked = depth;
  d.depth = depth;
  d.frozen_until = units.frozen_until(depth);
  return d;
}

std::string text_of(const freeze_log_header& of, const std::vector<freeze_decision>& decisions) {
  freeze_log_lines lines;
  auto text = lines.begin(of);
  for (const auto& d : decisions)
    text += lines.add(d);
  return text + lines.end();
}

std::string written() {
  return text_of(log_header_of(lenet()), {decision(1, 0, 1), decision(2, 1, 3)});
}

std::string fault_of(const std::string& text) {
  try {
    parse_freeze_log(text, "log.jsonl");
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

TEST(FreezeLog, GivesBackEveryNumberOfEveryDecision) {
  const auto log = parse_freeze_log(written(), "log.jsonl");
  EXPECT_TRUE(log.is_complete);
  EXPECT_EQ(log.of, log_header_of(lenet()));
  ASSERT_EQ(log.decisions.size(), 2U);
  for (const auto& d : log.decisions)
    EXPECT_EQ(json_of(d), json_of(decision(d.number, d.seen.depth, d.depth)));
  EXPECT_EQ(log.decisions[0].seen.units[0].gradient_norm, 0.1 / 3);
  EXPECT_EQ(log.decisions[0].seen.units[1].gradient_norm, 2e-300);
  EXPECT_TRUE(std::isnan(log.decisions[0].seen.units[2].gradient_norm));
  require_repeatable(log, lenet(), "log.jsonl");
}

TEST(FreezeLog, IsOneObjectALine) {
  EXPECT_THAT(written(),
              StartsWith(R"({"freeze_log":1,"model":"lenet","units":["conv1","conv2","fc1","fc2"],"check":")"));
  EXPECT_THAT(written(), HasSubstr(R"("depth_before":1,"asked":3,"depth":3,"frozen_until":"fc2","thaws":false)"));
}

TEST(FreezeLog, AFlippedBitACutAndAMissingLineAreDamage) {
  const auto whole = written();
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    auto text = whole;
    const auto at = random() % text.size();
    text[at] = static_cast<char>(text[at] ^ (1 << random() % 7));
    EXPECT_THAT(fault_of(text), StartsWith("log.jsonl: line ")) << at;
  }
  const auto lines = [&] {
    std::vector<std::string> all;
    for (std::size_t at = 0; at < whole.size();) {
      const auto end = whole.find('\n', at) + 1;
      all.push_back(whole.substr(at, end - at));
      at = end;
    }
    return all;
  }();
  EXPECT_THAT(fault_of(lines[0] + lines[2] + lines[3]), HasSubstr("line 2: does not agree with its check"));
  EXPECT_THAT(fault_of(lines[0] + lines[2] + lines[1] + lines[3]), HasSubstr("does not agree with its check"));
  EXPECT_THAT(fault_of(whole + lines[3]), HasSubstr("does not agree with its check"));
  for (std::size_t cut = 1; cut < whole.size(); cut += 7)
    if (whole[cut - 1] != '\n') {
      EXPECT_THAT(fault_of(whole.substr(0, cut)), HasSubstr("cut off")) << cut;
    }
}

TEST(FreezeLog, OtherFilesAreNone) {
  EXPECT_EQ(fault_of(""), "log.jsonl: is empty, wanted a freeze log");
  EXPECT_THAT(fault_of("{\"event\":\"step\",\"step\":1}\n"), HasSubstr("line 1: has no check at its end"));
  EXPECT_THAT(fault_of(std::string("\0\xff\n", 3)), HasSubstr("no freeze log"));
  EXPECT_EQ(fault_of(text_of({"lenet", {"conv1"}}, {decision(1, 0, 1)})),
            "log.jsonl: line 2: tells of 4 units, wanted the 1 of the first line");
}

TEST(FreezeLog, NumbersOutOfRangeAreNamed) {
  const auto fault = [](freeze_decision d) { return fault_of(text_of(log_header_of(lenet()), {d})); };
  auto d = decision(1, 0, 1);
  d.depth = 5;
  EXPECT_EQ(fault(d), "log.jsonl: line 2: \"depth\" is 5, wanted a whole number from 0 to 4");
  EXPECT_EQ(fault(decision(2, 0, 1)), "log.jsonl: line 2: \"decision\" is 2, wanted a whole number from 1 to 1");
  EXPECT_EQ(fault(decision(1, 1, 1)), "log.jsonl: line 2: \"depth_before\" is 1, wanted a whole number from 0 to 0");
}

TEST(FreezeLog, OfAnotherModelOrARunThatWasCutOffIsNotRepeated) {
  const auto refusal = [](const freeze_log& log, const model& net) {
    try {
      require_repeatable(log, net, "log.jsonl");
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  auto log = parse_freeze_log(written(), "log.jsonl");
  EXPECT_EQ(refusal(log, apps::find_model("alexnet").build({})), "log.jsonl: is of 'lenet', wanted one of alexnet");
  auto other = log;
  other.of.units.pop_back();
  EXPECT_EQ(refusal(other, lenet()), "log.jsonl: is of 3 units from 'conv1' on, lenet has 4 from 'conv1' on");
  other = log;
  other.decisions[1].frozen_until = "conv2";
  EXPECT_EQ(refusal(other, lenet()),
            "log.jsonl: decision 2 freezes 3 units and all before 'conv2', wanted all before 'fc2'");
  log.is_complete = false;
  EXPECT_EQ(refusal(log, lenet()), "log.jsonl: ends after decision 2 without its last line: the run that wrote it did "
                                   "not come to its end");
}

} // namespace
} // namespace penstock::actors
