// Weights files against a pipeline: what fits, what is told, and that nothing is half-loaded.
#include "actors/checkpoint/digest.hpp"
#include "actors/checkpoint/weights_file.hpp"
#include "actors/ranks/stage_snapshot.hpp"
#include "actors/stage/stage_copies.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>

namespace penstock::actors {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

std::unique_ptr<pipeline> tiny_pipeline(std::uint64_t seed, std::vector<int> replicas = {1, 1}) {
  auto options = testing::tiny_options();
  options.seed = seed;
  options.replicas = std::move(replicas);
  options.cuts = {6};
  const auto net = testing::tiny_residual_network();
  return build_pipeline(*actors::settle_request(options, *net), options, net);
}

class WeightsFile : public ::testing::Test {
  testing_support::temporary_folder folder_; // before what lies in it

public:
  std::filesystem::path file = folder_ / "weights.safetensors";
  std::string prefix;
  memory_pool pool;

  // What no executor has taken yet.
  static std::vector<stage_snapshot> snapshots(pipeline& p, memory_pool& pool) {
    std::map<int, stage_copy> copies;
    for (auto& s : p.stages)
      run_and_settle(s.update_stream(), [&](backend& ops, outcome& tells) {
        copies[s.index] = copy_learnt(ops, p, s, s.owned, copy_of::everything, "", pool, tells);
        for (const int r : s.local)
          copies[s.index].merge(copy_states(ops, s, r, s.replicas[static_cast<std::size_t>(r)].states,
                                            copy_of::everything, "", pool, tells));
      });
    return collect_snapshots(p, std::move(copies), nullptr, pool);
  }
  static named_tensors everything(pipeline& p, memory_pool& pool) {
    const auto stages = snapshots(p, pool);
    auto all = weights_of(stages);
    all.merge(states_of(stages, p.net, pool));
    return all;
  }
  void save(pipeline& p) { save_weights(snapshots(p, pool), p.net, *p.rule, file); }
  std::string load(pipeline& p, bool allow_partial = false) {
    auto given = read_weights(p.net, {file, prefix, allow_partial}, pool);
    load_partial(p, {std::move(given.whole)});
    return given.note;
  }
  std::string hash(pipeline& p) { return sha256_of(everything(p, pool)); }
  tensor filled(shape dims, float value) {
    auto t = tensor::allocate(pool, dtype::f32, std::move(dims), memory_use::scratch);
    std::fill_n(t.data<float>(), t.elements(), value);
    return t;
  }
};

TEST_F(WeightsFile, ComesBackBitForBit) {
  auto saved = tiny_pipeline(1);
  saved->stages[0].replicas[0].states[0].data<float>()[2] = 3.5F; // bn1.running_mean
  save(*saved);
  auto other = tiny_pipeline(2, {2, 1});
  EXPECT_NE(hash(*other), hash(*saved));
  EXPECT_EQ(load(*other), "");
  EXPECT_EQ(hash(*other), hash(*saved));
  for (const auto& r : other->stages[0].replicas)
    EXPECT_EQ(r.states[0].data<float>()[2], 3.5F) << "every replica's";
  const auto contents = read_safetensors(file, pool);
  EXPECT_EQ(contents.metadata.at("format"), "pt");
  EXPECT_TRUE(contents.tensors.contains("bn1.num_batches_tracked"));
}

TEST_F(WeightsFile, ListsWhatDoesNotFitAndLoadsNothing) {
  auto p = tiny_pipeline(1);
  auto all = everything(*p, pool);
  all.erase("fc1.bias");
  all.erase("bn2.running_var");
  all["head.weight"] = filled({2}, 1);
  all["fc2.weight"] = filled({5, 15}, 1);
  all["fc2.bias"] = tensor::allocate(pool, dtype::i64, {5}, memory_use::scratch);
  all["conv1.weight"] = filled({8, 3, 3, 3}, 0.25F);
  write_safetensors(file, all);
  const auto before = hash(*p);
  EXPECT_THAT(
      [&] { load(*p); },
      ThrowsMessage<usage_error>(
          AllOf(HasSubstr(file.string() + " does not fit tiny: missing (2): bn2.running_var, fc1.bias; unexpected "
                                          "(1): head.weight; of another shape or type (2): "),
                HasSubstr("fc2.weight is F32 [5, 15], wanted F32 [5, 16]"),
                HasSubstr("fc2.bias is I64 [5], wanted F32 [5]"), HasSubstr("--allow-partial"), Not(HasSubstr("\n")))));
  EXPECT_EQ(hash(*p), before);

  const auto note = load(*p, true);
  EXPECT_THAT(note, HasSubstr("missing (2)"));
  const auto after = everything(*p, pool);
  EXPECT_EQ(after.at("conv1.weight").data<float>()[7], 0.25F);
  EXPECT_EQ(sha256_of({{"x", after.at("fc2.weight")}}),
            sha256_of({{"x", everything(*tiny_pipeline(1), pool).at("fc2.weight")}}))
      << "what does not fit stays as it was";
}

TEST_F(WeightsFile, SaysHowManyFitAndRefusesWhenNoParameterDoes) {
  auto p = tiny_pipeline(1);
  auto all = everything(*p, pool);
  all.erase("fc1.bias");
  write_safetensors(file, all);
  EXPECT_THAT(load(*p, true), HasSubstr("loaded 15 of 16 tensors of tiny; missing (1): fc1.bias"));
  named_tensors statistics;
  for (const auto& [name, t] : all)
    if (name.find("running") != std::string::npos) statistics[name] = t;
  write_safetensors(file, statistics);
  EXPECT_THAT([&] { load(*p, true); },
              ThrowsMessage<usage_error>(HasSubstr("no parameter of tiny is in it, so --allow-partial has nothing")));
}

TEST_F(WeightsFile, NamesThePrefixThatDoesNotBelongAndTakesItOff) {
  auto p = tiny_pipeline(1);
  named_tensors wrapped;
  for (const auto& [name, t] : everything(*p, pool))
    wrapped["module.net." + name] = t;
  write_safetensors(file, wrapped);
  for (const bool partial : {false, true})
    EXPECT_THAT([&] { load(*p, partial); },
                ThrowsMessage<usage_error>(HasSubstr(
                    "every unexpected name begins with 'module.net.' (--weights-prefix module.net. takes it off)")));
  prefix = "module.net.";
  auto other = tiny_pipeline(2);
  EXPECT_EQ(load(*other), "");
  EXPECT_EQ(hash(*other), hash(*p));
  wrapped["fc2.bias"] = filled({5}, 1);
  write_safetensors(file, wrapped);
  EXPECT_THAT([&] { load(*p); }, ThrowsMessage<usage_error>(HasSubstr("two tensors are named 'fc2.bias'")));
  prefix.clear();
  EXPECT_THAT([&] { load(*p); },
              ThrowsMessage<usage_error>(HasSubstr("every unexpected name begins with 'module.net.'")));
}

TEST_F(WeightsFile, RefusesANegativeVariance) {
  auto p = tiny_pipeline(1);
  auto all = everything(*p, pool);
  all.at("bn2.running_var").data<float>()[3] = -0.5F;
  write_safetensors(file, all);
  EXPECT_THAT([&] { load(*p); }, ThrowsMessage<error>("[weights] " + file.string() +
                                                      ": tensor bn2.running_var holds -0.5 at [3]; wanted at least 0"));
}

TEST_F(WeightsFile, MayLackTheCountOfBatches) {
  auto p = tiny_pipeline(1);
  auto all = everything(*p, pool);
  all.erase("bn1.num_batches_tracked");
  all.erase("bn2.num_batches_tracked");
  write_safetensors(file, all);
  EXPECT_EQ(load(*p), "");
}

TEST_F(WeightsFile, ShortensALongList) {
  auto p = tiny_pipeline(1);
  named_tensors all = everything(*p, pool);
  for (int i = 10; i < 30; ++i)
    all[std::string("x").append(std::to_string(i))] = filled({1}, 0);
  write_safetensors(file, all);
  EXPECT_THAT([&] { load(*p); }, ThrowsMessage<usage_error>(AllOf(HasSubstr("unexpected (20): x10, "),
                                                                  HasSubstr("x13, ..."), Not(HasSubstr("x14")))));
}

TEST_F(WeightsFile, TakesBf16) {
  auto p = tiny_pipeline(1);
  auto all = everything(*p, pool);
  auto half = tensor::allocate(pool, dtype::bf16, {5}, memory_use::scratch);
  std::fill_n(half.data<std::uint16_t>(), 5, bf16_from_float(-1.5F));
  all["fc2.bias"] = half;
  write_safetensors(file, all);
  EXPECT_EQ(load(*p), "");
  EXPECT_EQ(everything(*p, pool).at("fc2.bias").data<float>()[4], -1.5F);
}

TEST_F(WeightsFile, RefusesAFileThatIsNotThere) {
  auto p = tiny_pipeline(1);
  EXPECT_THAT([&] { load(*p); }, ThrowsMessage<error>(HasSubstr(file.string())));
}

TEST_F(WeightsFile, SavesTheReplicasMeanStatistics) {
  auto p = tiny_pipeline(1, {2, 1});
  p->stages[0].replicas[0].states[0].data<float>()[0] = 1;
  p->stages[0].replicas[1].states[0].data<float>()[0] = 2;
  save(*p);
  EXPECT_EQ(read_safetensors(file, pool).tensors.at("bn1.running_mean").data<float>()[0], 1.5F);
}

TEST_F(WeightsFile, FirstGradientsComeByName) {
  const auto p = tiny_pipeline(1);
  std::map<int, stage_copy> copies;
  copies[0].first_gradients["conv1.weight"] = filled({2}, 1);
  copies[1].first_gradients["fc2.bias"] = filled({5}, 2);
  const auto found = collect_first_gradients(*p, std::move(copies), nullptr, pool);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found.at("fc2.bias").data<float>()[0], 2);
}

TEST_F(WeightsFile, CopiesOnlyBetweenLikeTensors) {
  auto to = filled({2}, 0);
  copy_plain(filled({2}, 3), to);
  EXPECT_EQ(to.data<float>()[1], 3);
  EXPECT_THROW(copy_plain(filled({3}, 3), to), std::logic_error);
  EXPECT_THROW(copy_plain(tensor::allocate(pool, dtype::i32, {2}, memory_use::scratch), to), std::logic_error);
}

TEST_F(WeightsFile, MeansAreTakenInReplicaOrder) {
  const std::vector<tensor> replicas{filled({1}, 1e8F), filled({1}, 4), filled({1}, -1e8F)};
  EXPECT_EQ(mean_of(replicas, pool).data<float>()[0], (1e8F + 4 - 1e8F) / 3);
  EXPECT_EQ(mean_of(std::span(replicas).first(1), pool).data<float>()[0], 1e8F);
  std::vector<tensor> counts;
  for (const std::int64_t n : {3, 4, 4}) {
    counts.push_back(tensor::allocate(pool, dtype::i64, {}, memory_use::scratch));
    counts.back().data<std::int64_t>()[0] = n;
  }
  EXPECT_EQ(mean_of(counts, pool).data<std::int64_t>()[0], 3) << "counts round down";
}

} // namespace
} // namespace penstock::actors
