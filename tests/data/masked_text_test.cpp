// Pretraining pairs: what of which document, how much is masked by what, anew in every epoch.
#include "apps/data/masked_text.hpp"
#include "apps/data/pretraining_pairs.hpp"
#include "kernels/check.hpp"
#include "tests/data/loaded.hpp"
#include "tests/data/number_words.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

#include <set>

namespace penstock::apps {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t words = 10'000;
constexpr pair_options small{.most_tokens = 32, .vocabulary = words, .begin = 1, .end = 2, .mask = 3};

// Document d's text is 1000 (d + 1), 1000 (d + 1) + 1, ...: every word tells its place.
document_rows numbered(std::int64_t documents, std::int64_t sentences) {
  document_rows text;
  for (std::int64_t d = 0; d < documents; ++d) {
    text.firsts.push_back(text.sentences.rows());
    auto next = 1000 * (d + 1);
    for (std::int64_t s = 0; s < sentences; ++s) {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(3 + (s * 5 + d) % 7));
      for (auto& id : ids)
        id = next++;
      text.sentences.add(ids);
    }
  }
  return text;
}

std::vector<std::int32_t> unmasked(pretraining_sample sample) {
  for (std::size_t i = 0; i < sample.masked.size(); ++i)
    sample.ids[static_cast<std::size_t>(sample.masked[i])] = static_cast<std::int32_t>(sample.answers[i]);
  return sample.ids;
}

bool is_run(std::span<const std::int32_t> ids) {
  for (std::size_t i = 1; i < ids.size(); ++i)
    if (ids[i] != ids[i - 1] + 1) return false;
  return !ids.empty();
}

template <class Look>
void for_each_sample(const pretraining_pairs& pairs, std::int64_t epochs, Look look) {
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
    for (std::int64_t i = 0; i < pairs.size(); ++i)
      look(actors::sample_key{7, epoch, i});
}

TEST(PretrainingPairs, TheSecondPieceFollowsTheFirstOrIsOfAnotherDocument) {
  const pretraining_pairs pairs(numbered(5, 40), small);
  for_each_sample(pairs, 20, [&](const actors::sample_key& key) {
    const auto sample = pairs.make(key);
    const auto ids = unmasked(sample);
    ASSERT_LE(ids.size(), 32U);
    ASSERT_EQ(ids.front(), 1);
    ASSERT_EQ(ids.back(), 2);
    const auto second = static_cast<std::size_t>(sample.second);
    ASSERT_EQ(ids[second - 1], 2);
    const std::span all(ids);
    const auto a = all.subspan(1, second - 2), b = all.subspan(second, ids.size() - second - 1);
    ASSERT_TRUE(is_run(a) && is_run(b));
    EXPECT_EQ(sample.is_random, a.front() / 1000 != b.front() / 1000);
    EXPECT_TRUE(sample.is_random || b.front() > a.back());
    // A pair that was not too long has lost nothing where one piece ends and the other begins.
    EXPECT_TRUE(sample.is_random || ids.size() == 32 || b.front() == a.back() + 1);
  });
}

TEST(PretrainingPairs, AreRandomHalfTheTimeAndShortInOneOfTen) {
  const pretraining_pairs pairs(numbered(8, 100), small);
  double random = 0, shorter = 0, all = 0;
  for_each_sample(pairs, 60, [&](const actors::sample_key& key) {
    const auto sample = pairs.make(key);
    ++all;
    random += sample.is_random ? 1 : 0;
    shorter += sample.ids.size() < 32 ? 1 : 0;
  });
  ASSERT_GT(all, 5000);
  EXPECT_NEAR(random / all, 0.5, 0.03); // nearly all chunks have several sentences
  EXPECT_GT(shorter / all, 0.08);
  EXPECT_LT(shorter / all, 0.2); // one in ten, and what ends with its document
}

TEST(PretrainingPairs, FifteenInAHundredAreMaskedInThreeWays) {
  auto options = small;
  options.most_tokens = 128;
  const pretraining_pairs pairs(numbered(8, 100), options);
  double masked = 0, by_mask = 0, kept = 0;
  for_each_sample(pairs, 200, [&](const actors::sample_key& key) {
    const auto sample = pairs.make(key);
    const auto tokens = static_cast<double>(sample.ids.size());
    ASSERT_EQ(static_cast<long>(sample.masked.size()), std::max(1L, std::lrint(0.15 * tokens)));
    ASSERT_TRUE(std::is_sorted(sample.masked.begin(), sample.masked.end()));
    ASSERT_EQ(std::set(sample.masked.begin(), sample.masked.end()).size(), sample.masked.size());
    for (std::size_t i = 0; i < sample.masked.size(); ++i) {
      const auto found = sample.ids[static_cast<std::size_t>(sample.masked[i])];
      ASSERT_GE(sample.answers[i], 1000) << "neither [CLS] nor [SEP] is masked";
      ++masked;
      by_mask += found == options.mask ? 1 : 0;
      kept += found == sample.answers[i] ? 1 : 0;
    }
  });
  ASSERT_GT(masked, 100'000);
  EXPECT_NEAR(by_mask / masked, 0.8, 0.005);
  EXPECT_NEAR(kept / masked, 0.1, 0.005);
}

TEST(PretrainingPairs, NoMoreAreMaskedThanThePublishedLimits) {
  EXPECT_EQ(most_masked(128), 20);
  EXPECT_EQ(most_masked(512), 77);
  EXPECT_EQ(most_masked(1), 1);
}

TEST(PretrainingPairs, AreMadeOfSeedEpochAndSampleAlone) {
  const pretraining_pairs pairs(numbered(5, 40), small), again(numbered(5, 40), small);
  int same_in_next_epoch = 0;
  for_each_sample(pairs, 3, [&](actors::sample_key key) {
    const auto one = pairs.make(key), other = again.make(key);
    EXPECT_EQ(one.ids, other.ids);
    EXPECT_EQ(one.masked, other.masked);
    const auto measured = pairs.measure(key);
    EXPECT_EQ(measured.tokens, static_cast<std::int64_t>(one.ids.size()));
    EXPECT_EQ(measured.masked, static_cast<std::int64_t>(one.masked.size()));
    ++key.epoch;
    same_in_next_epoch += pairs.make(key).masked == one.masked ? 1 : 0;
    key.epoch -= 1;
    ++key.seed;
    same_in_next_epoch += pairs.make(key).masked == one.masked ? 1 : 0;
  });
  EXPECT_LT(same_in_next_epoch, 3);
}

TEST(PretrainingPairs, OfOneDocumentTheSecondPieceIsOfAnotherPlace) {
  const pretraining_pairs pairs(numbered(1, 60), small);
  for_each_sample(pairs, 50, [&](const actors::sample_key& key) {
    const auto sample = pairs.make(key);
    const auto ids = unmasked(sample);
    const std::set<std::int32_t> all(ids.begin(), ids.end());
    EXPECT_EQ(all.size(), ids.size() - 1) << "no word twice, but for [SEP]";
  });
  EXPECT_THROW(pretraining_pairs(numbered(1, 2), small), usage_error);
  auto options = small;
  options.most_tokens = 4;
  EXPECT_THROW(pretraining_pairs(numbered(2, 9), options), usage_error);
  options.most_tokens = 5;
  const pretraining_pairs shortest(numbered(2, 9), options);
  for_each_sample(shortest, 5, [&](const auto& key) { EXPECT_EQ(shortest.make(key).ids.size(), 5U); });
}

// -- as a data set ----------------------------------------------------------------------------------------------------

struct text_files {
  testing_support::temporary_folder folder;
  masked_text_options options{.tokens = std::make_shared<test::number_words>(), .most_tokens = 24};

  std::string file(const std::string& name, const std::string& text) const {
    testing_support::write_file(folder / name, text);
    return (folder / name).string();
  }
  std::string story() const {
    std::string text;
    for (int i = 0; i < 90; ++i) {
      text += std::to_string(10 + i % 80) + " " + std::to_string(10 + i % 37) + " 5 6 7\n";
      if (i % 30 == 29) text += "\n \n";
    }
    return text;
  }
};

TEST(MaskedText, FactsAreWhatIsLoaded) {
  const text_files at;
  const auto pair = open_masked_text(at.file("t.txt", at.story()), at.options);
  EXPECT_EQ(pair.test, nullptr);
  EXPECT_THAT(pair.train->description(), HasSubstr("from 90 sentences of 3 documents in "));
  const auto list = pair.train->minibatches({.batch = 4, .seed = 3});
  for (std::int64_t m = 0; m < 3 * list->per_epoch(); ++m) {
    const auto facts = list->facts(m);
    EXPECT_EQ(facts.epoch, m / list->per_epoch());
    const auto values = test::loaded(*pair.train, *list, m);
    double masked = 0;
    for (std::size_t row = 0; row < values.at("lengths").size(); ++row) {
      const auto length = values.at("lengths")[row][0];
      const auto& ids = values.at("input_ids")[row];
      ASSERT_EQ(static_cast<std::int64_t>(ids.size()), facts.extents[0]);
      ASSERT_EQ(ids[static_cast<std::size_t>(length) - 1], 2);
      EXPECT_EQ(std::count(ids.begin() + length, ids.end(), 0), facts.extents[0] - length);
      const auto& labels = values.at("masked_labels")[row];
      const auto& places = values.at("masked_positions")[row];
      ASSERT_EQ(static_cast<std::int64_t>(labels.size()), facts.extents[1]);
      for (std::size_t i = 0; i < labels.size(); ++i) {
        const auto is_one = labels[i] >= 0;
        masked += is_one ? 1 : 0;
        EXPECT_TRUE(is_one || (labels[i] == -100 && places[i] == 0));
      }
      const auto& types = values.at("token_type_ids")[row];
      EXPECT_TRUE(std::is_sorted(types.begin(), types.begin() + length));
      EXPECT_EQ(types[static_cast<std::size_t>(length) - 1], 1);
    }
    EXPECT_EQ(facts.counts[0], static_cast<double>(facts.samples));
    EXPECT_EQ(facts.counts[1], masked);
  }
}

TEST(MaskedText, ASliceOfAMinibatchIsTheSameRows) {
  const text_files at;
  const auto pair = open_masked_text(at.file("t.txt", at.story()), at.options);
  const auto list = pair.train->minibatches({.batch = 6, .seed = 3});
  const auto whole = test::loaded(*pair.train, *list, 1), part = test::loaded(*pair.train, *list, 1, 2, 3);
  for (const auto& [name, rows] : part)
    EXPECT_EQ(rows, test::rows(whole.at(name).begin() + 2, whole.at(name).begin() + 5)) << name;
}

TEST(MaskedText, EveryEpochIsDrawnAnewButEvaluationsAreNot) {
  const text_files at;
  at.file("train.txt", at.story());
  at.file("valid.txt", at.story());
  const auto pair = open_masked_text(at.folder.path().string(), at.options);
  ASSERT_NE(pair.test, nullptr);
  const auto first_of = [&](bool training, std::int64_t epoch) {
    const auto list = pair.test->minibatches({.batch = 100, .seed = 3, .training = training});
    return test::loaded(*pair.test, *list, epoch * list->per_epoch()).at("input_ids");
  };
  EXPECT_NE(first_of(true, 0), first_of(true, 1));
  EXPECT_EQ(first_of(true, 1), first_of(true, 1));
  EXPECT_EQ(first_of(false, 0), first_of(false, 1));
}

TEST(MaskedText, ALineThatNoSampleHoldsIsSeveralSentences) {
  const text_files at;
  std::string line;
  for (int i = 0; i < 100; ++i)
    line += "7 ";
  const auto pair = open_masked_text(at.file("t.txt", line + "\n\n5 6\n"), at.options);
  EXPECT_THAT(pair.train->description(), HasSubstr("from 6 sentences of 2 documents"));
}

TEST(MaskedText, WhatDoesNotFitIsRefused) {
  const text_files at;
  EXPECT_THAT([&] { open_masked_text(at.file("t.txt", "\n \n"), at.options); },
              ThrowsMessage<error>(HasSubstr("t.txt: found no text, wanted sentences, one a line")));
  EXPECT_THAT([&] { open_masked_text(at.file("t.txt", "5 6\n7 \xff\n"), at.options); },
              ThrowsMessage<error>(HasSubstr("t.txt: line 2")));
  EXPECT_THAT([&] { open_masked_text(at.file("t.txt", "5 6\n7 8\n"), at.options); },
              ThrowsMessage<usage_error>("masked-text: found text that one sample of 24 tokens holds, wanted more"));
  EXPECT_THROW(open_masked_text((at.folder / "missing.txt").string(), at.options), error);
  auto options = at.options;
  options.tokens = std::make_shared<test::number_words>(special_ids{.pad = 0, .begin = 1});
  EXPECT_THAT([&] { open_masked_text(at.file("t.txt", at.story()), options); },
              ThrowsMessage<usage_error>(
                  HasSubstr("found a tokenizer (numbers) without one to end with ([SEP]), a mask ([MASK]), wanted")));
}

} // namespace
} // namespace penstock::apps
