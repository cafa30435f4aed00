// PipeDream's graph.txt: small ones here, and the published ones.
#include "tests/planner/profile/example_profile.hpp"
#include "tests/planner/profile/refusal.hpp"
#include "tests/support/published_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string node(const std::string& name, const std::string& description, const std::string& forward = "1.000",
                 const std::string& activation = "100.000", const std::string& parameters = "0.000") {
  return name + " -- " + description + " -- forward_compute_time=" + forward +
         ", backward_compute_time=2.500, activation_size=" + activation + ", parameter_size=" + parameters + "\n";
}

std::string edge(const std::string& from, const std::string& to) {
  return "\t" + from + " -- " + to + "\n";
}

/// Out of order, with an input, a tuple of which one item is read, and a residual addition.
std::string small_graph() {
  return node("node5", "Add") + node("node1", "Input", "17.972", "640.000") + node("node4", "__getitem__(1)") +
         node("node2", "LSTM(8, 8)", "2.000", "[100.0; 20.0; 3.0]", "4096.000") + node("node3", "__getitem__(0)") +
         edge("node3", "node5") + edge("node2", "node3") + edge("node2", "node4") + edge("node1", "node2") +
         edge("node1", "node5");
}

TEST(ProfileFromGraph, ReadsNodesAndEdgesInAnyOrder) {
  const auto p = profile_from_graph(small_graph(), "profiles/lstm.txt", 10);
  EXPECT_EQ(p.model, "lstm");
  EXPECT_EQ(p.input_bytes_per_sample, 64);
  ASSERT_EQ(p.layers.size(), 3U);
  EXPECT_EQ(p.layers[0].name, "node2");
  EXPECT_EQ(p.layers[0].kind, "LSTM(8, 8)");
  EXPECT_EQ(p.layers[0].weight_bytes, 4096);
  EXPECT_EQ(p.layers[1].name, "node3");
  EXPECT_EQ(p.layers[2].name, "node5");
  ASSERT_EQ(p.measurements.size(), 1U);
  const auto& m = p.measurements[0];
  EXPECT_EQ(m.samples, 10);
  EXPECT_DOUBLE_EQ(m.layers[0].forward_seconds, 2e-3);
  EXPECT_DOUBLE_EQ(m.layers[0].backward_seconds, 2.5e-3);
  EXPECT_EQ(m.layers[0].output_bytes, 123);
  EXPECT_EQ(m.layers[0].kept_bytes, 123);
}

TEST(ProfileFromGraph, InputsBecomeTheModelsInput) {
  const auto p = profile_from_graph(small_graph(), "g.txt");
  EXPECT_THAT(p.layers[0].inputs, ElementsAre(-1));
  EXPECT_THAT(p.layers[1].inputs, ElementsAre(0));
  EXPECT_THAT(p.layers[2].inputs, ElementsAre(-1, 1));
}

TEST(ProfileFromGraph, SeveralInputsAreOneAndASourceOfItsOwnStays) {
  const auto p = profile_from_graph(node("node1", "Input0", "5") + node("node2", "Input1") + node("node3", "Cat") +
                                        node("node4", "hidden") + node("node5", "LSTM") + edge("node1", "node3") +
                                        edge("node2", "node3") + edge("node3", "node5") + edge("node4", "node5"),
                                    "g.txt");
  ASSERT_EQ(p.layers.size(), 3U);
  EXPECT_EQ(p.input_bytes_per_sample, 200);
  EXPECT_THAT(p.layers[0].inputs, ElementsAre(-1));
  EXPECT_THAT(p.layers[1].inputs, IsEmpty());
  EXPECT_THAT(p.layers[2].inputs, ElementsAre(0, 1));
}

TEST(ProfileFromGraph, ANumberingInTopologicalOrderIsKept) {
  // node10 and node9 are both ready after node2.
  const auto p = profile_from_graph(node("node10", "b") + node("node9", "a") + node("node2", "s") +
                                        edge("node2", "node10") + edge("node2", "node9"),
                                    "g.txt");
  EXPECT_EQ(p.layers[1].name, "node9");
  EXPECT_EQ(p.layers[2].name, "node10");
}

TEST(ProfileFromGraph, StagesAndForeignLineEndsAndSeparatorsInDescriptionsAreFine) {
  auto text = node("node1", "Odd -- (layer -- 2)") + node("node2", "ReLU");
  text = replaced(text, "parameter_size=0.000\n", "parameter_size=0.000 -- stage_id=3\r\n") + "\r\n" +
         "\tnode1 -- node2\r\n\tnode1 -- node2";
  const auto p = profile_from_graph("\xef\xbb\xbf" + text, "g.txt");
  ASSERT_EQ(p.layers.size(), 2U);
  EXPECT_EQ(p.layers[0].kind, "Odd -- (layer -- 2)");
  EXPECT_THAT(p.layers[1].inputs, ElementsAre(0)); // an edge that is there twice counts once
}

std::string refusal_of(const std::string& text) {
  return refusal([&] { profile_from_graph(text, "g.txt"); });
}

TEST(ProfileFromGraph, CyclesAreRefusedByANodeOnThem) {
  const auto text = node("node1", "a") + node("node2", "b") + node("node3", "c") + node("node4", "d") +
                    edge("node1", "node2") + edge("node2", "node3") + edge("node3", "node2") + edge("node3", "node4");
  EXPECT_THAT(refusal_of(text), testing::MatchesRegex("g.txt: node 'node[23]' is on a cycle, .*"));
  EXPECT_THAT(refusal_of(node("node1", "a") + edge("node1", "node1")), HasSubstr("'node1' is on a cycle"));
}

TEST(ProfileFromGraph, LinesThatAreNoneAreRefusedByNumber) {
  EXPECT_EQ(refusal_of(node("node1", "a") + "\n\tnode1 -> node2\n"),
            "g.txt:3: the edge is 'node1 -> node2', wanted 'nodeA -- nodeB'");
  EXPECT_EQ(refusal_of(node("node1", "a") + edge("node1", "node7")),
            "g.txt:2: the edge names 'node7', and no node is called so");
  EXPECT_EQ(refusal_of(node("node1", "a") + node("node1", "b")), "g.txt:2: node 'node1' is there twice");
  EXPECT_THAT(refusal_of("node1 -- ReLU\n"), HasSubstr("g.txt:1: the node is 'node1 -- ReLU', wanted"));
  EXPECT_EQ(refusal_of(replaced(node("node1", "a"), ", parameter_size=0.000", "")),
            "g.txt:1: node 'node1' has no parameter_size");
  EXPECT_THAT(refusal_of(replaced(node("node1", "a"), "parameter_size=0", "parameters=0")),
              HasSubstr("has 'parameters=0.000', wanted"));
  EXPECT_THAT(refusal_of(replaced(node("node1", "a"), "parameter_size", "activation_size")),
              HasSubstr("has activation_size twice"));
  EXPECT_EQ(refusal_of(""), "g.txt: the profile has no layers");
  EXPECT_EQ(refusal_of(node("node1", "Input")), "g.txt: the profile has no layers");
}

TEST(ProfileFromGraph, NumbersThatMakeNoSenseAreRefused) {
  for (const std::string bad : {"-1", "nan", "inf", "", "1.5x", "0x10", "[1; ]", "[1; -2]", "1e999"})
    EXPECT_THAT(refusal_of(node("node1", "a", "1", bad)), HasSubstr("g.txt:1: node1: activation_size is")) << bad;
  EXPECT_THAT(refusal_of(node("node1", "a", "1e12")), HasSubstr("forward_seconds is 1000000000, wanted"));
  EXPECT_THAT(refusal_of(node("node1", "a", "1", "1e300")), HasSubstr("output_bytes is 1e+300"));
  EXPECT_THAT(refusal_of(node("node1", "Input", "1", "1e300") + node("node2", "a")),
              HasSubstr("input_bytes_per_sample is"));
  EXPECT_THAT(refusal([] { profile_from_graph(small_graph(), "g.txt", 0); }), HasSubstr("a batch has 0 samples"));
}

TEST(ProfileFromGraph, NamesThatAreNoTextAreRefused) {
  EXPECT_THAT(refusal_of(node("node1", "a\x01")), HasSubstr("wanted UTF-8"));
  EXPECT_THAT(refusal_of(node("\xfe", "a")), HasSubstr("'\\xfe'"));
}

TEST(ProfileFromGraph, MutatedFilesAreReadOrRefusedAndNothingElse) {
  const auto whole = small_graph();
  std::mt19937 random(5);
  int read = 0;
  for (int round = 0; round < 10'000; ++round) {
    const auto text = mutated(whole, random);
    profile p;
    if (!refusal([&] { p = profile_from_graph(text, "g.txt"); }).empty()) continue;
    ++read;
    ASSERT_EQ(refusal([&] { check_profile(p); }), "") << text;
    ASSERT_EQ(profile_from_json(to_json(p), "p.json").layers.size(), p.layers.size());
  }
  EXPECT_GT(read, 250);
  EXPECT_LT(read, 7'500);
}

struct published_facts {
  std::string name;
  std::size_t layers = 0;
  double forward_ms = 0;
  double backward_ms = 0;
  double weight_megabytes = 0;
  double activation_gigabytes = 0;
};

/// Sums of time and parameters as the published planner has them, to 0.1; of activations, to 0.01, without the items
/// that nothing reads.
class PublishedProfile : public testing::TestWithParam<published_facts> {};

TEST_P(PublishedProfile, SumsAreThePublishedPlanners) {
  const auto& wanted = GetParam();
  const auto text = test::published_graph(wanted.name);
  const auto p = read_profile(text, wanted.name + ".txt");
  EXPECT_EQ(p.model, wanted.name);
  EXPECT_EQ(p.layers.size(), wanted.layers);
  double forward = 0;
  double backward = 0;
  double weights = 0;
  double activations = 0;
  for (std::size_t i = 0; i < p.layers.size(); ++i) {
    forward += p.measurements[0].layers[i].forward_seconds;
    backward += p.measurements[0].layers[i].backward_seconds;
    activations += p.measurements[0].layers[i].output_bytes;
    weights += p.layers[i].weight_bytes;
  }
  EXPECT_NEAR(forward * 1e3, wanted.forward_ms, 0.051);
  EXPECT_NEAR(backward * 1e3, wanted.backward_ms, 0.051);
  EXPECT_NEAR(weights * 1e-6, wanted.weight_megabytes, 0.051);
  EXPECT_NEAR(activations * 1e-9, wanted.activation_gigabytes, 0.0051);
  EXPECT_EQ(to_json(profile_from_json(to_json(p), "p.json")), to_json(p));
}

INSTANTIATE_TEST_SUITE_P(All, PublishedProfile,
                         testing::Values(published_facts{"vgg16", 40, 233.9, 438.6, 553.4, 14.68},
                                         published_facts{"resnet50", 176, 182.5, 260.9, 102.2, 19.23},
                                         published_facts{"gnmt", 37, 33.5, 55.9, 775.1, 0.40},
                                         published_facts{"gnmt_large", 77, 182.6, 337.9, 1110.9, 1.33}),
                         [](const auto& of) {
                           return of.param.name == "gnmt_large" ? std::string("gnmtLarge") : of.param.name;
                         });

} // namespace
} // namespace penstock::planner
