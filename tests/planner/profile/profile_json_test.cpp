// Profiles to JSON and back, and JSON that is none.
#include "planner/profile/profile.hpp"
#include "tests/planner/profile/example_profile.hpp"
#include "tests/planner/profile/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace penstock::planner {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string refusal_of(const std::string& text) {
  return refusal([&] { profile_from_json(text, "p.json"); });
}

std::string refusal_with(const std::string& from, const std::string& to) {
  return refusal_of(replaced(to_json(example_profile()), from, to));
}

void expect_equal(const profile& a, const profile& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.model_options, b.model_options);
  EXPECT_EQ(a.input_bytes_per_sample, b.input_bytes_per_sample);
  EXPECT_EQ(a.machine, b.machine);
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    EXPECT_EQ(a.layers[i].name, b.layers[i].name);
    EXPECT_EQ(a.layers[i].kind, b.layers[i].kind);
    EXPECT_EQ(a.layers[i].inputs, b.layers[i].inputs);
    EXPECT_EQ(a.layers[i].weight_bytes, b.layers[i].weight_bytes);
    EXPECT_EQ(a.layers[i].forward_flops, b.layers[i].forward_flops);
    EXPECT_EQ(a.layers[i].fused_with_previous, b.layers[i].fused_with_previous);
  }
  ASSERT_EQ(a.measurements.size(), b.measurements.size());
  for (std::size_t k = 0; k < a.measurements.size(); ++k) {
    const auto& m = a.measurements[k];
    const auto& n = b.measurements[k];
    EXPECT_EQ(m.samples, n.samples);
    EXPECT_EQ(m.threads, n.threads);
    EXPECT_EQ(m.update_seconds, n.update_seconds);
    ASSERT_EQ(m.layers.size(), n.layers.size());
    for (std::size_t i = 0; i < m.layers.size(); ++i) {
      EXPECT_EQ(m.layers[i].forward_seconds, n.layers[i].forward_seconds);
      EXPECT_EQ(m.layers[i].backward_seconds, n.layers[i].backward_seconds);
      EXPECT_EQ(m.layers[i].accumulate_seconds, n.layers[i].accumulate_seconds);
      EXPECT_EQ(m.layers[i].output_bytes, n.layers[i].output_bytes);
      EXPECT_EQ(m.layers[i].kept_bytes, n.layers[i].kept_bytes);
      EXPECT_EQ(m.layers[i].workspace_bytes, n.layers[i].workspace_bytes);
    }
  }
}

TEST(ProfileJson, ReadsBackExactly) {
  const auto p = example_profile();
  const auto text = to_json(p);
  const auto back = profile_from_json(text, "p.json");
  expect_equal(p, back);
  EXPECT_EQ(to_json(back), text);
}

TEST(ProfileJson, LayersThatShareATensorAreNamed) {
  auto p = example_profile();
  ASSERT_GT(p.layers.size(), 2U);
  p.tied = {{0, 2}};
  EXPECT_EQ(profile_from_json(to_json(p), "p").tied, p.tied);
  p.tied = {{2, 0}};
  EXPECT_THROW(to_json(p), std::invalid_argument);
  p.tied = {{1}};
  EXPECT_THROW(to_json(p), std::invalid_argument);
}

TEST(ProfileJson, RandomNumbersReadBackExactly) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-12, 5);
  for (int round = 0; round < 100; ++round) {
    auto p = example_profile();
    for (auto& m : p.measurements)
      for (auto& c : m.layers)
        c.forward_seconds = c.backward_seconds = c.kept_bytes = std::pow(10, exponent(random));
    expect_equal(p, profile_from_json(to_json(p), "p.json"));
  }
}

TEST(ProfileJson, OneLayerIsOneLine) {
  const auto text = to_json(example_profile());
  EXPECT_THAT(text, HasSubstr("\n    {\"name\": \"conv1\", \"kind\": \"conv2d\", \"inputs\": [\"input\"], "
                              "\"weight_bytes\": 1792, \"forward_flops\": 1100000},\n"));
  EXPECT_THAT(text, HasSubstr("\n      \"conv1\": {\"forward_seconds\": 0.1, \"backward_seconds\": 0.2, "));
}

TEST(ProfileJson, WhatIsNotMeasuredMayBeLeftOut) {
  const auto p = profile_from_json(R"({"format": "penstock-profile", "version": 1, "model": "m",
    "input_bytes_per_sample": 4, "layers": [{"name": "a", "inputs": ["input"], "weight_bytes": 8}],
    "measurements": [{"samples": 1.0, "threads": 1, "layers": {"a":
      {"forward_seconds": 1, "backward_seconds": 2, "output_bytes": 3, "kept_bytes": 4}}}]})",
                                   "p.json");
  EXPECT_EQ(p.layers[0].inputs, std::vector<int>{-1});
  EXPECT_EQ(p.measurements[0].layers[0].workspace_bytes, 0);
  EXPECT_TRUE(p.measurements[0].update_seconds.empty());
}

TEST(ProfileJson, ByteOrderMarkAndCarriageReturnsAreFine) {
  std::string text = "\xef\xbb\xbf";
  for (const auto c : to_json(example_profile()))
    text += c == '\n' ? "\r\n" : std::string(1, c);
  expect_equal(example_profile(), profile_from_json(text, "p.json"));
}

TEST(ProfileJson, NothingIsWrittenThatIsNotRight) {
  auto p = example_profile();
  p.measurements[0].layers[0].forward_seconds = std::nan("");
  EXPECT_THAT(refusal([&] { to_json(p); }), HasSubstr("forward_seconds is nan"));
}

TEST(ProfileJson, TextThatIsNoJsonIsRefused) {
  for (const std::string text : {"", " ", "{", "null x", "\xff\xfe", "{\"format\": nan}", "[1e999]", "{'a': 1}"})
    EXPECT_THAT(refusal_of(text), AllOf(StartsWith("p.json: "), HasSubstr("wanted JSON"))) << text;
  const auto whole = to_json(example_profile());
  for (std::size_t size = 0; size + 3 < whole.size(); size += 7)
    EXPECT_THAT(refusal_of(whole.substr(0, size)), AllOf(StartsWith("p.json: "), HasSubstr("wanted JSON"))) << size;
}

TEST(ProfileJson, DeepNestingIsRefusedAndNotFollowed) {
  EXPECT_THAT(refusal_of(std::string(1'000'000, '[')), HasSubstr("nested deeper than"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i)
    objects += "{\"a\":";
  EXPECT_THAT(refusal_of(objects), HasSubstr("nested deeper than"));
}

TEST(ProfileJson, TheFormatAndItsVersionAreChecked) {
  EXPECT_EQ(refusal_of("[]"), "p.json: found a list of 0, wanted an object");
  EXPECT_EQ(refusal_of("{}"), "p.json: the key 'format' is missing");
  EXPECT_THAT(refusal_with("penstock-profile", "penstock-plan"), StartsWith("p.json: found a plan, wanted a profile"));
  EXPECT_EQ(refusal_with("penstock-profile", "another"),
            "p.json: format: found \"another\", wanted 'penstock-profile'");
  EXPECT_EQ(refusal_with("\"version\": 1", "\"version\": 2"),
            "p.json: version: found 2, wanted a whole number from 1 to 1");
}

TEST(ProfileJson, EveryKeyIsMissedByItsPath) {
  EXPECT_EQ(refusal_with("\"name\": \"conv1\", ", ""), "p.json: layers[0]: the key 'name' is missing");
  EXPECT_EQ(refusal_with("\"samples\": 4, ", ""), "p.json: measurements[0]: the key 'samples' is missing");
  EXPECT_EQ(refusal_with("\"output_bytes\": 4096, ", ""),
            "p.json: measurements[0].layers.conv1: the key 'output_bytes' is missing");
  auto p = example_profile();
  p.layers.push_back({.name = "last", .inputs = {3}});
  for (auto& m : p.measurements)
    m.layers.push_back({.forward_seconds = 9});
  p.measurements[0].update_seconds.push_back(0);
  p.measurements[1].update_seconds.push_back(0);
  EXPECT_EQ(
      refusal_of(replaced(
          to_json(p),
          R"(,
      "last": {"forward_seconds": 9, "backward_seconds": 0, "accumulate_seconds": 0, "output_bytes": 0, "kept_output_bytes": 0, )"
          R"("kept_bytes": 0, "workspace_bytes": 0, "backward_workspace_bytes": 0, "weight_seconds": 0, "delayed_bytes": 0, "update_seconds": 0})",
          "")),
      "p.json: measurements[0].layers: the key 'last' is missing");
}

TEST(ProfileJson, AFileThatDoesNotSplitTheBackwardIsTakenToHalveItWhereThereAreWeights) {
  auto text = to_json(example_profile());
  for (const std::string key : {"weight_seconds", "delayed_bytes"})
    for (auto at = text.find(", \"" + key); at != std::string::npos; at = text.find(", \"" + key))
      text.erase(at, text.find_first_of(",}", at + 1) - at);
  const auto p = profile_from_json(text, "old.json");
  const auto& m = p.measurements[0];
  EXPECT_EQ(m.layers[0].weight_seconds, m.layers[0].backward_seconds / 2);
  EXPECT_EQ(m.layers[1].weight_seconds, 0) << "it has no weights";
  EXPECT_EQ(m.layers[3].weight_seconds, m.layers[3].backward_seconds / 2);
  EXPECT_EQ(m.layers[0].delayed_bytes, m.layers[0].output_bytes) << "it reads the model's input, which is nobody's";
  EXPECT_EQ(m.layers[2].delayed_bytes, 0);
  EXPECT_EQ(m.layers[3].delayed_bytes, m.layers[2].output_bytes + m.layers[3].output_bytes);
}

TEST(ProfileJson, WeightsTakeNoMoreThanTheirBackward) {
  auto p = example_profile();
  p.measurements[0].layers[0].weight_seconds = 0.3;
  EXPECT_THAT([&] { to_json(p); }, testing::ThrowsMessage<std::invalid_argument>(HasSubstr(
                                       "'conv1': weight_seconds is 0.3, wanted at most backward_seconds, 0.2")));
}

TEST(ProfileJson, AnOlderProfileIsOfTheSameModel) {
  auto old = example_profile();
  old.model_options = "bert vocabulary=0 classes=10 width=1";
  EXPECT_EQ(profile_from_json(to_json(old), "p").model_options, "bert classes=10 width=1");
}

TEST(ProfileJson, GroupsThatStayTogetherAreWrittenWhereThereAreAny) {
  auto p = example_profile();
  EXPECT_EQ(to_json(p).find("kept_together"), std::string::npos) << "an old file's bytes";
  p.kept_together = {{0, 2}, {1, 2, 3}};
  const auto text = to_json(p);
  EXPECT_THAT(text, HasSubstr(R"("kept_together": [["conv1", "add"], ["relu1", "add", "fc"]])"));
  EXPECT_EQ(profile_from_json(text, "p").kept_together, p.kept_together);
  EXPECT_EQ(refusal_of(replaced(text, R"([["conv1", "add"])", R"([["conv1", "adds"])")),
            "p.json: kept_together[0][1]: found 'adds', wanted a layer (did you mean 'add'?)");
  EXPECT_EQ(refusal_of(replaced(text, R"([["conv1", "add"])", R"([["add"])")),
            "p.json: a group of layers kept together has 1, wanted at least 2");
  EXPECT_EQ(refusal_of(replaced(text, R"([["conv1", "add"])", R"([["add", "conv1"])")),
            "p.json: a group of layers kept together names layer 0, wanted layers in their order");
}

TEST(ProfileJson, UnknownKeysAreRefusedWithTheNearest) {
  EXPECT_EQ(refusal_with("\"model_options\"", "\"model_option\""),
            "p.json: found the unknown key 'model_option' (did you mean 'model_options'?)");
  EXPECT_EQ(refusal_with("\"weight_bytes\": 1792", "\"weight_byte\": 1792"),
            "p.json: layers[0]: found the unknown key 'weight_byte' (did you mean 'weight_bytes'?)");
  EXPECT_EQ(refusal_with("\"workspace_bytes\"", "\"workspace\""),
            "p.json: measurements[0].layers.conv1: found the unknown key 'workspace'");
}

TEST(ProfileJson, TypesAreChecked) {
  EXPECT_THAT(refusal_with("\"weight_bytes\": 1792", "\"weight_bytes\": \"1792\""),
              StartsWith("p.json: layers[0].weight_bytes: found \"1792\", wanted a number"));
  EXPECT_THAT(refusal_with("\"weight_bytes\": 1792", "\"weight_bytes\": null"),
              HasSubstr("found null, wanted a number"));
  EXPECT_THAT(refusal_with("\"samples\": 4", "\"samples\": 4.5"),
              StartsWith("p.json: measurements[0].samples: found 4.5, wanted a whole number"));
  EXPECT_THAT(refusal_with("\"samples\": 4", "\"samples\": 1e30"), HasSubstr("wanted a whole number"));
  EXPECT_THAT(refusal_with("\"threads\": 1", "\"threads\": 4294967297"), HasSubstr("threads: found 4294967297"));
  EXPECT_EQ(refusal_with("\"inputs\": [\"input\"]", "\"inputs\": \"input\""),
            "p.json: layers[0].inputs: found \"input\", wanted a list");
  EXPECT_EQ(refusal_with("\"inputs\": [\"input\"]", "\"inputs\": [-1]"),
            "p.json: layers[0].inputs[0]: found -1, wanted a text");
  EXPECT_THAT(refusal_with("\"fused_with_previous\": true", "\"fused_with_previous\": 1"),
              HasSubstr("wanted true or false"));
  EXPECT_THAT(refusal_with("\"oneDNN 2.6\"", "2.6"), HasSubstr("machine.library: found 2.6, wanted a text"));
  EXPECT_THAT(refusal_with("\"conv1\": {", "\"conv1\": 1, \"zz\": {"),
              HasSubstr("layers.conv1: found 1, wanted an object"));
}

TEST(ProfileJson, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(refusal_with("\"forward_seconds\": 0.1", "\"forward_seconds\": -0.1"),
              StartsWith("p.json: measurements[0].layers.conv1.forward_seconds: found -0.1, wanted a number from 0"));
  EXPECT_EQ(refusal_with("\"forward_seconds\": 0.1", "\"forward_seconds\": 1e7"),
            "p.json: measurement of 4 samples on 1 thread, layer 'conv1': forward_seconds is 10000000, wanted a number "
            "from 0 to 1000000");
  EXPECT_THAT(refusal_with("\"forward_seconds\": 0.1", "\"forward_seconds\": 1e999"), HasSubstr("wanted JSON"));
  EXPECT_THAT(refusal_with("\"forward_seconds\": 0.1", "\"forward_seconds\": NaN"), HasSubstr("wanted JSON"));
  EXPECT_THAT(refusal_with("\"samples\": 4", "\"samples\": 0"), HasSubstr("measurements[0].samples: found 0"));
}

TEST(ProfileJson, NamesAreChecked) {
  EXPECT_EQ(refusal_with("\"inputs\": [\"conv1\"]", "\"inputs\": [\"conv\"]"),
            "p.json: layers[1].inputs[0]: found 'conv', wanted 'input' or a layer above (did you mean 'conv1'?)");
  EXPECT_THAT(refusal_with("\"inputs\": [\"conv1\"]", "\"inputs\": [\"fc\"]"),
              HasSubstr("wanted 'input' or a layer above"));
  EXPECT_EQ(refusal_with("\"name\": \"add\"", "\"name\": \"relu1\""),
            "p.json: layers[2].name: found 'relu1', which is the name of an earlier layer");
  EXPECT_THAT(refusal_with("\"name\": \"conv1\"", "\"name\": \"input\""), HasSubstr("the name of the model's input"));
  EXPECT_EQ(refusal_with("\"fc\": {", "\"fcx\": {"),
            "p.json: measurements[0].layers: found 'fcx', which is no layer (did you mean 'fc'?)");
  EXPECT_THAT(refusal_with("\"fc\": {", "\"input\": {}, \"fc\": {"), HasSubstr("found 'input', which is no layer"));
}

TEST(ProfileJson, KeysThatAreThereTwiceAreRefused) {
  EXPECT_THAT(refusal_with("\"model\": \"tiny\"", "\"model\": \"tiny\", \"model\": \"tinier\""),
              StartsWith("p.json: found the key 'model' twice"));
  EXPECT_THAT(refusal_with("\"fc\": {", "\"conv1\": {}, \"fc\": {"), StartsWith("p.json: found the key 'conv1' twice"));
}

TEST(ProfileJson, UpdatesAreMeasuredForAllLayersOrNone) {
  EXPECT_EQ(refusal_with(", \"update_seconds\": 1e-05", ""),
            "p.json: measurements[0]: found update_seconds for 3 layers, wanted all 4 or none");
}

TEST(ProfileJson, MutatedFilesAreReadOrRefusedAndNothingElse) {
  const auto whole = to_json(example_profile());
  std::mt19937 random(11);
  int read = 0;
  for (int round = 0; round < 10'000; ++round) {
    const auto text = mutated(whole, random);
    profile p;
    if (!refusal([&] { p = profile_from_json(text, "p.json"); }).empty()) continue;
    ++read;
    ASSERT_EQ(refusal([&] { check_profile(p); }), "") << text;
    expect_equal(p, profile_from_json(to_json(p), "p.json"));
  }
  EXPECT_GT(read, 250); // digits and spaces change, so both ways are taken
  EXPECT_LT(read, 7'500);
}

} // namespace
} // namespace penstock::planner
