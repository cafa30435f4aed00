// Spans and classes out of logits.
#include "apps/runner/evaluation_judge.hpp"

#include "apps/data/squad_text.hpp"
#include "apps/metrics/class_tally.hpp"
#include "apps/metrics/squad.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace penstock::apps {

namespace {

constexpr std::int64_t longest_answer = 30; // tokens, as the published evaluation

actors::batching batching_of(const actors::run_options& run) {
  return actors::evaluation_batches(run, run.eval_batch > 0 ? run.eval_batch : run.batch);
}

class class_judge final : public evaluation_judge {
public:
  class_judge(std::string logits, const actors::dataset& test, const actors::run_options& run)
      : logits_(std::move(logits)), test_(test), list_(test.minibatches(batching_of(run))), inputs_(test.inputs()) {}

  void take(const actors::batch_results& results) override {
    const auto& logits = results.tensors.at(logits_);
    const auto classes = logits.dim(1);
    const auto labels = labels_of(results.batch);
    for (std::int64_t i = 0; i < logits.dim(0); ++i) {
      const auto* const row = logits.data<float>() + i * classes;
      tally_.add(std::to_string(labels.data<std::int64_t>()[i]),
                 std::to_string(std::max_element(row, row + classes) - row));
    }
  }

  std::vector<shown_value> finish() override {
    const auto found = std::exchange(tally_, {}).macro_f1();
    if (std::isnan(found)) return {};
    return {{"macro_f1", found, true}};
  }

private:
  tensor labels_of(std::int64_t batch) const {
    const auto facts = list_->facts(batch);
    const auto names = test_.extents();
    std::vector<tensor> all;
    for (const auto& input : inputs_)
      all.push_back(tensor::allocate(pool_, input.spec.type, actors::dims_of(input, names, facts, facts.samples),
                                     memory_use::scratch));
    list_->load(batch, 0, all);
    const auto at = std::find_if(inputs_.begin(), inputs_.end(), [](const auto& i) { return i.name == "labels"; });
    return all.at(static_cast<std::size_t>(at - inputs_.begin()));
  }

  std::string logits_;
  const actors::dataset& test_;
  actors::minibatches_ptr list_;
  std::vector<actors::data_input> inputs_;
  mutable memory_pool pool_;
  class_tally tally_;
};

class span_judge final : public evaluation_judge {
public:
  span_judge(const squad_text& test, const actors::run_options& run)
      : test_(test), buckets_(test.buckets(batching_of(run))), best_(test.questions().questions.size()) {}

  void take(const actors::batch_results& results) override {
    const auto& starts = results.tensors.at("qa_outputs.start");
    const auto& ends = results.tensors.at("qa_outputs.end");
    const auto minibatch = buckets_.at(results.batch);
    for (std::int64_t i = 0; i < starts.dim(0); ++i)
      judge(static_cast<std::size_t>(minibatch.samples[static_cast<std::size_t>(i)]),
            starts.data<float>() + i * starts.dim(1), ends.data<float>() + i * ends.dim(1));
  }

  std::vector<shown_value> finish() override {
    double exact = 0, f1 = 0;
    for (std::size_t q = 0; q < best_.size(); ++q) {
      double most_exact = 0, most_f1 = 0;
      for (const auto& truth : test_.questions().questions[q].answers) {
        most_exact = std::max(most_exact, exact_match(best_[q].text, truth.text));
        most_f1 = std::max(most_f1, answer_f1(best_[q].text, truth.text));
      }
      exact += most_exact;
      f1 += most_f1;
    }
    const auto questions = static_cast<double>(best_.size());
    best_.assign(best_.size(), {});
    return {{"exact_match", exact / questions, true}, {"f1", f1 / questions, true}};
  }

private:
  struct answer {
    float score = -std::numeric_limits<float>::infinity();
    std::string text;
  };

  void judge(std::size_t number, const float* starts, const float* ends) {
    const auto& window = test_.windows().windows()[number];
    auto& best = best_[window.question];
    const auto first = window.context_first, behind = window.context_first + window.context_tokens;
    std::int64_t start = -1, end = -1;
    for (auto s = first; s < behind; ++s)
      for (auto e = s; e < std::min(behind, s + longest_answer); ++e)
        if (starts[s] + ends[e] > best.score) best.score = starts[s] + ends[e], start = s, end = e;
    if (start >= 0) best.text = test_.windows().answer(number, start, end);
  }

  const squad_text& test_;
  length_buckets buckets_;
  std::vector<answer> best_; // by question
};

bool puts_out(const model& net, const std::string& name) {
  return std::any_of(net.results().begin(), net.results().end(),
                     [&](value_id id) { return net.value(id).name == name; });
}

} // namespace

std::unique_ptr<evaluation_judge> judge_of(const model& net, const actors::dataset* test,
                                           const actors::run_options& run) {
  if (test == nullptr) return nullptr;
  const auto* const questions = dynamic_cast<const squad_text*>(test);
  if (questions != nullptr && puts_out(net, "qa_outputs.start") && puts_out(net, "qa_outputs.end"))
    return std::make_unique<span_judge>(*questions, run);
  const auto& losses = net.losses();
  if (losses.size() != 1 || losses[0].op->kind() != "cross_entropy") return nullptr;
  const auto& logits = net.value(losses[0].inputs.front()).name;
  if (!puts_out(net, logits)) return nullptr;
  return std::make_unique<class_judge>(logits, *test, run);
}

} // namespace penstock::apps
