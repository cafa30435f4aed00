// Named tensors as a sequence model's samples: rows as they are, counts from labels, and what does not fit.
#include "apps/data/sequence_tensors.hpp"
#include "kernels/check.hpp"
#include "tests/data/loaded.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_sequences.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using ::testing::HasSubstr;

struct sample_tensors {
  memory_pool pool;
  std::shared_ptr<const model> net = penstock::testing::tiny_sequence_model();
  named_tensors all{{"ids", whole({3, 4}, {1, 2, 3, 4, 5, 6, 0, 0, 7, 0, 0, 0})},
                    {"lengths", whole({3}, {4, 2, 1})},
                    {"labels", whole({3, 4}, {1, -100, 2, 3, -100, -100, -100, -100, 9, -100, -100, -100})},
                    {"parity", whole({3}, {0, 1, 0})}};

  tensor whole(const shape& dims, const std::vector<std::int64_t>& values) {
    auto t = tensor::allocate(pool, dtype::i64, dims, memory_use::scratch);
    std::copy(values.begin(), values.end(), t.data<std::int64_t>());
    return t;
  }
  std::string refusal() const {
    try {
      sequence_tensors(*net, all, "f");
    } catch (const error& e) {
      return e.what();
    }
    return "taken";
  }
};

TEST(SequenceTensors, RowsComeInOrderAndLabelsSayWhatCounts) {
  const sample_tensors given;
  const auto data = sequence_tensors(*given.net, given.all, "f");
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->counts(), given.net->counts());
  const auto list = data->minibatches({.batch = 2, .seed = 4});
  ASSERT_EQ(list->per_epoch(), 2);
  const auto facts = list->facts(0);
  EXPECT_EQ(facts.samples, 2);
  EXPECT_EQ(facts.counts[1], 3);
  EXPECT_EQ(facts.extents[0], 4);
  EXPECT_EQ(list->facts(1).counts[1], 1);
  EXPECT_EQ(list->facts(3).epoch, 1);
  EXPECT_EQ(test::loaded(*data, *list, 2).at("ids"), (test::rows{{1, 2, 3, 4}, {5, 6, 0, 0}}));
  EXPECT_EQ(test::loaded(*data, *list, 0, 1, 1).at("lengths"), (test::rows{{2}}));
  EXPECT_THAT(data->description(), HasSubstr("ids [3, 4], lengths [3]"));
}

TEST(SequenceTensors, IntegersOfFourBytesAreTaken) {
  sample_tensors given;
  auto narrow = tensor::allocate(given.pool, dtype::i32, {3}, memory_use::scratch);
  std::fill_n(narrow.data<std::int32_t>(), 3, 2);
  given.all["lengths"] = narrow;
  const auto data = sequence_tensors(*given.net, given.all, "f");
  EXPECT_EQ(test::loaded(*data, *data->minibatches({.batch = 3}), 0).at("lengths"), (test::rows{{2}, {2}, {2}}));
}

TEST(SequenceTensors, AFileIsTheSame) {
  const sample_tensors given;
  const testing_support::temporary_folder folder;
  write_safetensors(folder / "s.safetensors", given.all);
  const auto data = open_sequence_tensors((folder / "s.safetensors").string(), *given.net);
  EXPECT_EQ(test::loaded(*data, *data->minibatches({.batch = 3}), 0).at("parity"), (test::rows{{0}, {1}, {0}}));
}

TEST(SequenceTensors, WhatDoesNotFitIsNamed) {
  const auto changed = [](const std::string& name, const shape& dims, std::vector<std::int64_t> values) {
    sample_tensors given;
    given.all[name] = given.whole(dims, values);
    return given.refusal();
  };
  sample_tensors lacking;
  lacking.all["id"] = lacking.all["ids"];
  lacking.all.erase("ids");
  EXPECT_EQ(lacking.refusal(), "f: no tensor named 'ids' (did you mean 'id'?), which sequences reads");
  EXPECT_EQ(changed("ids", {12}, std::vector<std::int64_t>(12, 1)),
            "f: tensor 'ids': found I64 [12], wanted I64 (N, time)");
  EXPECT_EQ(changed("labels", {3, 2}, std::vector<std::int64_t>(6, 1)),
            "f: tensor 'labels': found time 2, wanted 4 as in the others");
  EXPECT_EQ(changed("parity", {2}, {0, 1}), "f: tensor 'parity': found 2 samples, wanted 3 as in ids");
  EXPECT_EQ(changed("ids", {3, 10}, std::vector<std::int64_t>(30, 1)), "f: tensor 'ids': found time 10, wanted 1 to 9");
  EXPECT_EQ(changed("ids", {3, 4}, {1, 2, 3, 4, 5, 6, 0, 11, 7, 0, 0, 0}),
            "f: tensor 'ids': found 11 in sample 1, wanted 0 to 10");
  EXPECT_EQ(changed("lengths", {3}, {4, 2, 5}), "f: tensor 'lengths': found 5 in sample 2, wanted 0 to 4");
  sample_tensors other;
  other.all["parity"] = tensor::allocate(other.pool, dtype::f32, {3}, memory_use::scratch);
  EXPECT_EQ(other.refusal(), "f: tensor 'parity': found F32 [3], wanted I64 (N)");
}

} // namespace
} // namespace penstock::apps
