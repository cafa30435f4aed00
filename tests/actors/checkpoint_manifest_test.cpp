// A manifest is read as if a stranger had written it: nothing in it is believed.
#include "actors/checkpoint/checkpoint_manifest.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <random>

namespace penstock::actors {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

checkpoint_manifest example() {
  checkpoint_manifest m;
  m.at = {"tiny", "sgd", "pipedream", 20, 8, 44, 7, {6, 12, 20}, {{"--lr", "0.1"}, {"--momentum", "0.9"}}, 0.125};
  m.at.evaluations = {{4.5, 4.25}, 12, 12};
  m.stages = {{"stage-0.safetensors", 4000, std::string(64, 'a'), "conv1", 4, 2, 0, 10, {{"conv1.weight", 10}}},
              {"stage-1.safetensors", 900, std::string(64, 'b'), "fc1", 3, 1, 0, 20, {{"fc1.bias", 20}}}};
  return m;
}

std::string refusal_of(const std::string& text, std::int64_t step = 20) {
  try {
    manifest_from_text(text, "m.json", step);
  } catch (const error& e) {
    EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
    EXPECT_LT(std::string(e.what()).size(), 400U);
    EXPECT_THAT(e.what(), HasSubstr("m.json"));
    return e.what();
  }
  return "";
}

TEST(CheckpointManifest, SaysAgainWhatWasWritten) {
  auto m = example();
  const auto text = to_text(m);
  const auto again = manifest_from_text(text, "m.json", 20);
  EXPECT_EQ(again.at.drains, m.at.drains);
  EXPECT_EQ(again.at.options, m.at.options);
  EXPECT_EQ(again.at.learning_rate, 0.125);
  EXPECT_EQ(again.at.seed, 7U);
  EXPECT_EQ(again.stages.at(1).optimizer_steps, m.stages[1].optimizer_steps);
  EXPECT_EQ(again.sha256, m.sha256);
  m.at.evaluations = {{4.5, 0.1, 1.0 / 3}, 18, -1};
  EXPECT_EQ(manifest_from_text(to_text(m), "m.json", 20).at.evaluations, m.at.evaluations);
  auto largest = m;
  largest.at.seed = ~std::uint64_t{0};
  EXPECT_EQ(manifest_from_text(to_text(largest), "m.json", 20).at.seed, ~std::uint64_t{0});
}

TEST(CheckpointManifest, AnOlderOneIsOfTheSameModel) {
  auto old = example();
  old.at.model = "bert vocabulary=0 classes=10 width=1";
  EXPECT_EQ(manifest_from_text(to_text(old), "m.json", 20).at.model, "bert classes=10 width=1");
}

// Every place in the manifest where a value stands, lists and objects included.
std::vector<std::string> all_places(const json& value, const std::string& at = "") {
  std::vector<std::string> places;
  if (!at.empty()) places.push_back(at);
  if (!value.is_structured()) return places;
  for (const auto& [key, part] : value.items())
    for (auto& place : all_places(part, at + "/" + key))
      places.push_back(std::move(place));
  return places;
}

// "stages[1].bytes" of "/stages/1/bytes": the last word that is no number.
std::string member_of(const std::string& place) {
  auto name = place;
  while (name.find_last_not_of("0123456789") == name.rfind('/'))
    name.erase(name.rfind('/'));
  return name.substr(name.rfind('/') + 1);
}

std::vector<json> wrong_values() {
  json deep = json::array();
  for (int i = 0; i < 40; ++i)
    deep = json::array({deep});
  return {2.5,
          -1,
          1e300,
          json::parse("18446744073709551616"),
          nullptr,
          true,
          "x\n\x01",
          json::array(),
          json::object(),
          INT64_MIN,
          -0.5,
          deep};
}

TEST(CheckpointManifest, AValueOfAnotherTypeOrOutOfRangeIsNamedWhereverItStands) {
  auto m = example();
  const auto good = json::parse(to_text(m));
  for (const auto& place : all_places(good))
    for (const auto& value : wrong_values()) {
      auto changed = good;
      if (changed.at(json::json_pointer(place)) == value) continue;
      changed[json::json_pointer(place)] = value;
      const auto refusal = refusal_of(changed.dump());
      EXPECT_NE(refusal, "") << place << " " << value;
      const bool is_deep = value.is_array() && !value.empty();
      if (is_deep) {
        EXPECT_THAT(refusal, HasSubstr("nested deeper"));
      }
      const auto& was = good.at(json::json_pointer(place));
      const bool is_real = place == "/learning_rate" || place.starts_with("/evaluations/losses/");
      const bool other_type = was.type() != value.type() && !(is_real && value.is_number());
      if (is_deep || !other_type) continue; // of its type and in range: the digest tells
      EXPECT_THAT(refusal, AllOf(HasSubstr(member_of(place)), HasSubstr("found"), HasSubstr("wanted")))
          << place << " " << value;
    }
}

TEST(CheckpointManifest, ANumberThatIsWholeButNotTheRightOneIsRefused) {
  auto m = example();
  const auto good = json::parse(to_text(m));
  for (const auto& place : all_places(good)) {
    if (!good.at(json::json_pointer(place)).is_number_integer()) continue;
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1'000'000'000},
                                      std::uint64_t{INT64_MAX}, ~std::uint64_t{0}}) {
      auto changed = good;
      if (changed.at(json::json_pointer(place)) == value) continue;
      changed[json::json_pointer(place)] = value;
      EXPECT_NE(refusal_of(changed.dump()), "") << place << " " << value;
    }
  }
}

// Whoever computes the digest anew does not get nonsense past the reader either.
TEST(CheckpointManifest, NumbersThatContradictEachOtherAreRefusedThoughTheDigestFits) {
  const auto refused = [](const std::string& member, auto change) {
    auto m = example();
    change(m);
    EXPECT_THAT(refusal_of(to_text(m)), AllOf(HasSubstr(member), HasSubstr("found"), HasSubstr("wanted")));
  };
  refused("step", [](auto& m) { m.at.step = 21; });
  refused("drains", [](auto& m) { m.at.drains = {6, 12}; });
  refused("drains[2]", [](auto& m) { m.at.drains = {6, 20, 12, 20}; });
  refused("drains[0]", [](auto& m) { m.at.drains = {-6, 20}; });
  refused("batch", [](auto& m) { m.at.batch = 0; });
  refused("samples", [](auto& m) { m.at.samples = -44; });
  refused("schedule", [](auto& m) { m.at.schedule = "pipedram"; });
  refused("learning_rate", [](auto& m) { m.at.learning_rate = -1; });
  refused("stages[1].version", [](auto& m) { m.stages[1].version = 21; });
  refused("stages[1].optimizer_steps.fc1.bias", [](auto& m) { m.stages[1].optimizer_steps["fc1.bias"] = 0; });
  refused("stages[0].replicas", [](auto& m) { m.stages[0].replicas = 0; });
  refused("stages[0].replicas", [](auto& m) { m.stages[0].replicas = std::size_t{1} << 40; });
  refused("stages[1].layers", [](auto& m) { m.stages[1].layers = 0; });
  refused("stages[1].file", [](auto& m) { m.stages[1].file = "../stage-1.safetensors"; });
  refused("stages[0].file", [](auto& m) { std::swap(m.stages[0], m.stages[1]); });
  refused("optimizer_steps", [](auto& m) { m.stages[0].optimizer_steps["conv1.weight"] = 21; });
  refused("stages", [](auto& m) { m.stages.clear(); });
}

// Right after a change of plan no update has been counted; what was frozen has had fewer than the rest, or none.
TEST(CheckpointManifest, LayersThatAreOrWereFrozenMayLackUpdates) {
  auto m = example();
  m.stages[1].version = 0;
  EXPECT_NO_THROW(manifest_from_text(to_text(m), "m.json", 20));
  m.at.has_frozen = true;
  m.stages[0].frozen_layers = 4;
  m.stages[0].optimizer_steps.clear();
  m.stages[1].optimizer_steps["fc1.bias"] = 0;
  const auto again = manifest_from_text(to_text(m), "m.json", 20);
  EXPECT_TRUE(again.at.has_frozen);
  EXPECT_EQ(again.stages[0].frozen_layers, 4);
  EXPECT_EQ(again.stages[1].frozen_layers, 0);
  m.stages[0].frozen_layers = 5;
  EXPECT_THAT(refusal_of(to_text(m)), HasSubstr("stages[0].frozen_layers: found 5"));
  m.stages[0].frozen_layers = 4;
  m.at.has_frozen = false;
  EXPECT_THAT(refusal_of(to_text(m)), HasSubstr("stages[0].frozen_layers: found 4, wanted none in a run"));
}

TEST(CheckpointManifest, AStepThatItsUpdatesCannotHaveReachedIsRefused) {
  for (const std::int64_t step : {std::int64_t{1'000'000'000}, INT64_MAX}) {
    auto m = example();
    m.at.step = m.at.drains.back() = step;
    EXPECT_THAT(refusal_of(to_text(m), step), HasSubstr("stages[0].optimizer_steps.conv1.weight: found 10, wanted "));
    m.stages[0].optimizer_steps.clear(); // layers without parameters have no updates to count
    EXPECT_THAT(refusal_of(to_text(m), step), HasSubstr("stages[1].optimizer_steps.fc1.bias: found 20, wanted "));
  }
}

TEST(CheckpointManifest, AMissingADoubledAndAnUnknownMemberAreNamed) {
  auto m = example();
  const auto good = json::parse(to_text(m));
  for (const auto& place : all_places(good)) {
    const json::json_pointer at(place);
    if (!good.at(at.parent_pointer()).is_object()) continue;
    auto parent = good;
    parent[at.parent_pointer()].erase(at.back());
    const bool may_be_left_out = place == "/evaluations" || place == "/evaluations/switched_at";
    const bool is_free =
        may_be_left_out || place.starts_with("/options/") || place.find("optimizer_steps/") != std::string::npos;
    EXPECT_THAT(refusal_of(parent.dump()), HasSubstr(is_free ? "SHA-256 differs" : at.back())) << place;
    // Twice: as text, since a JSON value holds each key once.
    const auto one = "\"" + at.back() + "\":" + good.at(at).dump();
    auto text = good.dump();
    text.insert(text.find(one), one + ",");
    EXPECT_THAT(refusal_of(text), AllOf(HasSubstr(at.back()), HasSubstr("twice"))) << place;
  }
  auto more = good;
  more["stepp"] = 3;
  EXPECT_THAT(refusal_of(more.dump()), HasSubstr("'stepp'"));
}

TEST(CheckpointManifest, AnotherStepThanItsFoldersIsRefused) {
  auto m = example();
  EXPECT_THAT(refusal_of(to_text(m), 24), AllOf(HasSubstr("step: found 20"), HasSubstr("wanted 24")));
}

TEST(CheckpointManifest, TheFormatWithoutADigestIsRefused) {
  auto m = example();
  auto old = json::parse(to_text(m));
  old["format"] = 1;
  old.erase("sha256");
  EXPECT_THAT(refusal_of(old.dump()), AllOf(HasSubstr("format: found 1"), HasSubstr("wanted 2")));
}

TEST(CheckpointManifest, AChangedByteNeverChangesWhatIsRead) {
  auto m = example();
  const auto good = to_text(m);
  const auto whole = json::parse(good);
  std::mt19937_64 random(5);
  for (int i = 0; i < 4000; ++i) {
    auto text = good;
    for (auto edits = random() % 3 + 1; edits > 0; --edits) {
      const auto at = random() % text.size();
      switch (random() % 3) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, random() % 20 + 1);
        break;
      default:
        text.insert(at, 1, "0123456789{}[],:\"e-."[random() % 20]);
      }
    }
    if (refusal_of(text).empty()) { // white space, or edits that cancel each other
      EXPECT_EQ(json::parse(text), whole) << text;
    }
  }
}

TEST(CheckpointManifest, FolderNamesAreReadStrictly) {
  EXPECT_EQ(step_of_folder("step-0000000020"), 20);
  EXPECT_EQ(step_of_folder("step-12345678901"), 12345678901);
  for (const auto* name : {"step-20", "step-", "step-00000000020", "step--000000020", "step-0000000020 ",
                           "step-00000000x0", "step-99999999999999999999", "latest", ""})
    EXPECT_EQ(step_of_folder(name), std::nullopt) << name;
}

} // namespace
} // namespace penstock::actors
