// Translations held against PyTorch's, token by token, whatever the batch and the stages.
#include "apps/models/gnmt_geometry.hpp"
#include "apps/translation/translator.hpp"
#include "kernels/check.hpp"
#include "kernels/safetensors.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <set>

namespace penstock::apps {
namespace {

struct fixture {
  explicit fixture(const std::string& name) {
    const auto path = std::string(TRANSLATION_FIXTURES) + "/" + name;
    std::ifstream in(path + ".json");
    facts = nlohmann::json::parse(in);
    weights = read_safetensors(path + ".safetensors", pool).tensors;
    geometry.layers = facts["layers"];
    geometry.hidden = facts["hidden"];
    geometry.vocabulary = facts["vocabulary"];
    geometry.tied = facts["tied"];
    for (const auto& one : facts["cases"])
      sources.push_back(one["source"]);
  }
  std::vector<translated> translate(std::int64_t beam, std::int64_t batch = 32, int stages = 1,
                                    bool reference = false) const {
    translator work(geometry, weights,
                    {.pipeline = {.stages = stages, .threads = 1, .reference_kernels = reference},
                     .search = {.beam = beam, .most_tokens = facts["limit"]},
                     .batch = batch});
    return work.translate(sources, stop);
  }
  token_ids tokens(std::size_t i, const char* how) const {
    const auto& one = facts["cases"][i][how];
    return one.is_array() ? one.get<token_ids>() : one["tokens"].get<token_ids>();
  }

  memory_pool pool;
  nlohmann::json facts;
  named_tensors weights;
  gnmt_geometry geometry;
  std::vector<token_ids> sources;
  std::atomic<bool> stop{false};
};

class Translator : public testing::TestWithParam<const char*> {};

TEST_P(Translator, WritesPyTorchsTokensWithItsScores) {
  const fixture f(GetParam());
  for (const auto& [how, beam] : {std::pair("beam1", 1), {"beam2", 2}, {"beam5", 5}}) {
    for (const bool reference : {false, true}) {
      const auto found = f.translate(beam, 4, 1, reference);
      ASSERT_EQ(found.size(), f.sources.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].tokens, f.tokens(i, how)) << how << " of sentence " << i;
        EXPECT_NEAR(found[i].score, f.facts["cases"][i][how]["score"].get<double>(), 2e-5) << how << " of " << i;
      }
    }
  }
}

TEST_P(Translator, ABeamOfOneIsGreedy) {
  const fixture f(GetParam());
  const auto found = f.translate(1);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].tokens, f.tokens(i, "greedy"));
}

TEST_P(Translator, StagesChangeNoBitAndBatchesNoToken) {
  const fixture f(GetParam());
  for (const std::int64_t beam : {1, 5}) {
    const auto one = f.translate(beam, 2);
    for (const int stages : {2, 3, 5}) {
      const auto more = f.translate(beam, 2, stages);
      for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(more[i].tokens, one[i].tokens) << stages;
        EXPECT_EQ(more[i].score, one[i].score) << stages;
      }
    }
    for (const std::int64_t batch : {1, 9}) {
      const auto other = f.translate(beam, batch);
      for (std::size_t i = 0; i < one.size(); ++i)
        EXPECT_EQ(other[i].tokens, one[i].tokens) << batch;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Translator, testing::Values("untied", "tied"),
                         [](const auto& one) { return std::string(one.param); });

TEST(TranslatorFixtures, EndAtVariousLengthsAndAtTheLimit) {
  std::set<std::size_t> lengths;
  bool differs = false;
  for (const char* name : {"untied", "tied"}) {
    const fixture f(name);
    for (std::size_t i = 0; i < f.sources.size(); ++i) {
      lengths.insert(f.tokens(i, "beam5").size());
      differs |= f.tokens(i, "beam5") != f.tokens(i, "greedy");
    }
  }
  EXPECT_GE(lengths.size(), 5U);
  EXPECT_TRUE(lengths.contains(14));
  EXPECT_TRUE(differs);
}

TEST(TranslatorOfGnmt, EndsWithNothingWhenItIsAskedTo) {
  fixture f("untied");
  f.stop = true;
  EXPECT_TRUE(f.translate(5).empty());
}

TEST(TranslatorOfGnmt, TranslatesNothingToNothing) {
  fixture f("untied");
  f.sources.clear();
  EXPECT_TRUE(f.translate(5).empty());
}

TEST(TranslatorOfGnmt, RefusesMoreStagesThanLayers) {
  const fixture f("untied");
  EXPECT_THROW(f.translate(1, 1, 400), usage_error);
}

} // namespace
} // namespace penstock::apps
