// One kind of file given for another.
#include "planner/profile/file_kind.hpp"
#include "planner/profile/profile.hpp"
#include "tests/planner/profile/example_profile.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace penstock::planner {
namespace {

const std::string hand_written_plan = R"({"stages": [{"first_layer": "conv1", "last_layer": "fc3"}]})";
const std::string cluster_text = "# two\nname = \"two\"\n[[device]]\nname = \"a\"\n";
const std::string trace_text("\n\x08\x01\x02\x50\x0a", 6);
const std::string weights_text("\x10\0\0\0\0\0\0\0{\"a\":{}}", 16);

TEST(FileKind, IsToldByWhatAFileBeginsWith) {
  EXPECT_EQ(kind_of("{\"format\": \"penstock-plan\", \"version\": 1}"), file_kind::plan);
  EXPECT_EQ(kind_of(hand_written_plan), file_kind::plan);
  EXPECT_EQ(kind_of("\xef\xbb\xbf \n{\"format\": \"penstock-profile\"}"), file_kind::profile);
  EXPECT_EQ(kind_of("{\"event\":\"step\",\"step\":1}"), file_kind::metrics);
  EXPECT_EQ(kind_of("node1 -- Input0 -- forward_compute_time=0.000"), file_kind::graph);
  EXPECT_EQ(kind_of(cluster_text), file_kind::cluster);
  EXPECT_EQ(kind_of(trace_text), file_kind::trace);
  EXPECT_EQ(kind_of(weights_text), file_kind::weights);
  EXPECT_EQ(kind_of(std::string_view("PK\x03\x04zip")), file_kind::archive);
  EXPECT_EQ(kind_of("\x7f"
                    "ELF..."),
            file_kind::program);
}

TEST(FileKind, IsUnknownWhereNothingSays) {
  for (const auto* text : {"", " ", "\n\n", "{}", "{\"stages\": 3}", "hello", "[1, 2]", "\n# a comment\nname = 1\n"})
    EXPECT_EQ(kind_of(text), file_kind::unknown) << text;
}

TEST(FileKind, OfAnotherSortIsNamedByWhoWantsAProfile) {
  const auto refusal = [](std::string_view text) -> std::string {
    try {
      read_profile(text, "x.json");
    } catch (const std::invalid_argument& fault) {
      return fault.what();
    }
    return "";
  };
  const std::string wanted = std::string(", wanted ") + wanted_profile;
  EXPECT_EQ(refusal(hand_written_plan), "x.json: found a plan" + wanted);
  EXPECT_EQ(refusal(cluster_text), "x.json: found a cluster's TOML" + wanted);
  EXPECT_EQ(refusal(trace_text), "x.json: found a trace" + wanted);
  EXPECT_EQ(refusal(weights_text), "x.json: found a safetensors file" + wanted);
  EXPECT_EQ(refusal(to_json(example_profile())), "");
}

} // namespace
} // namespace penstock::planner
