// A loop over answers of the stages: of an encoder, the first step follows; of a step, the next one or the end.
#include "apps/translation/translator.hpp"

#include "apps/text/translation_tokens.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <numeric>
#include <utility>

namespace penstock::apps {

namespace {

using namespace std::chrono_literals;
constexpr auto patience = 10min;
constexpr std::int64_t length_step = 8; // sources and rows are filled up to multiples, so that few shapes come
constexpr std::int64_t row_step = 8;

constexpr std::size_t encoder = 0, decoder = 1; // of the pipeline's models
constexpr std::size_t scores_made = 3;          // logits, probabilities, attention; states come behind

std::int64_t rounded_up(std::int64_t count, std::int64_t to) {
  return (count + to - 1) / to * to;
}

// Rows of x by their places, along axis 0.
tensor rows_of(memory_pool& pool, const tensor& x, const std::vector<std::size_t>& places) {
  auto dims = x.dims();
  const auto bytes = x.bytes() / static_cast<std::size_t>(dims[0]);
  dims[0] = static_cast<std::int64_t>(places.size());
  auto made = tensor::allocate(pool, x.type(), dims, memory_use::activations);
  for (std::size_t i = 0; i < places.size(); ++i)
    std::memcpy(made.raw() + i * bytes, x.raw() + places[i] * bytes, bytes);
  return made;
}

tensor numbers(memory_pool& pool, shape dims) {
  return tensor::allocate(pool, dtype::i64, std::move(dims), memory_use::activations);
}

} // namespace

struct translator::batch {
  std::vector<std::size_t> sentences; ///< their places among the sources
  std::vector<const token_ids*> sources;
  std::vector<beam_search> searches;
  std::int64_t source_time = 0;
  tensor encoded, keys, lengths; ///< of each sentence
  bool is_encoded = false;

  // Rows, filled up: which sentence each is of, what the decoder reads of it, and what its LSTMs remember.
  std::vector<std::size_t> rows;
  tensor row_encoded, row_keys, row_lengths;
  std::vector<tensor> memory;

  bool is_done() const {
    return std::all_of(searches.begin(), searches.end(), [](const auto& s) { return s.is_done(); });
  }

  void take_encoded(std::vector<tensor> results) {
    encoded = std::move(results.at(0));
    keys = std::move(results.at(1));
    is_encoded = true;
  }

  // `parents`: the rows that those of now continue. None: the first step.
  void lay_out(memory_pool& pool, std::vector<std::size_t> parents) {
    std::vector<std::size_t> laid;
    for (std::size_t i = 0; i < searches.size(); ++i)
      laid.insert(laid.end(), searches[i].rows(), i);
    // What fills up is computed and not looked at.
    const auto filled = static_cast<std::size_t>(rounded_up(static_cast<std::int64_t>(laid.size()), row_step));
    laid.resize(filled, laid.front());
    if (laid != rows) {
      row_encoded = rows_of(pool, encoded, laid);
      row_keys = rows_of(pool, keys, laid);
      row_lengths = rows_of(pool, lengths, laid);
    }
    const auto before = std::exchange(rows, std::move(laid));
    if (memory.empty()) return;
    while (parents.size() < filled)
      parents.push_back(parents.size() < before.size() ? parents.size() : parents.front());
    std::vector<std::size_t> same(before.size());
    std::iota(same.begin(), same.end(), 0);
    if (parents == same) return;
    for (auto& state : memory)
      state = rows_of(pool, state, parents);
  }

  // Returns the rows that those of now continue.
  std::vector<std::size_t> advance(const std::vector<tensor>& results) {
    const auto row_scores = [&](std::size_t row) {
      const auto part = [row](const tensor& t) {
        const auto width = static_cast<std::size_t>(t.dims().back());
        return std::span<const float>(t.data<float>() + row * width, width);
      };
      return next_scores{.logits = part(results[0]), .probabilities = part(results[1]), .attention = part(results[2])};
    };
    std::vector<std::size_t> parents;
    std::size_t first = 0;
    for (auto& search : searches) {
      if (search.is_done()) continue;
      std::vector<next_scores> scores;
      for (std::size_t row = 0; row < search.rows(); ++row)
        scores.push_back(row_scores(first + row));
      for (const auto parent : search.advance(scores))
        parents.push_back(first + parent);
      first += scores.size();
    }
    memory.assign(results.begin() + scores_made, results.end());
    return parents;
  }
};

// Where the stages put what they have made.
class translator::answers {
public:
  struct answer {
    std::shared_ptr<batch> of;
    std::vector<tensor> results;
  };

  actors::inference_pipeline::completion for_batch(const std::shared_ptr<answers>& self,
                                                   const std::shared_ptr<batch>& b) {
    return [self, b](std::vector<tensor> results, std::exception_ptr failure) {
      const std::lock_guard lock(self->mutex_);
      if (failure && !self->failure_) self->failure_ = failure;
      self->there_.push_back({b, std::move(results)});
      self->changed_.notify_one();
    };
  }
  answer take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [&] { return !there_.empty(); }))
      throw error("[translation] no stage has answered for ten minutes");
    if (failure_) std::rethrow_exception(failure_);
    auto first = std::move(there_.front());
    there_.pop_front();
    return first;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<answer> there_;
  std::exception_ptr failure_;
};

translator::translator(const gnmt_geometry& geometry, const named_tensors& weights, const translator_options& options)
    : options_(options), geometry_(geometry), parts_(gnmt_parts_of(geometry)),
      pipeline_({parts_.encoder, parts_.step}, weights, options.pipeline) {}

std::vector<std::shared_ptr<translator::batch>> translator::batches_of(const std::vector<token_ids>& sources) const {
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() < sources[b].size(); });
  std::vector<std::shared_ptr<batch>> batches;
  for (const auto i : order) {
    if (batches.empty() || static_cast<std::int64_t>(batches.back()->sentences.size()) == options_.batch)
      batches.push_back(std::make_shared<batch>());
    auto& b = *batches.back();
    check(!sources[i].empty(), "a source has tokens");
    const auto length = static_cast<std::int64_t>(sources[i].size());
    b.sentences.push_back(i);
    b.sources.push_back(&sources[i]);
    b.searches.emplace_back(options_.search, length);
    b.source_time = rounded_up(length, length_step); // the last is the longest
  }
  return batches;
}

void translator::encode(const std::shared_ptr<batch>& b, const std::shared_ptr<answers>& to) {
  const auto count = static_cast<std::int64_t>(b->sources.size());
  const auto source = numbers(pool_, {count, b->source_time});
  b->lengths = numbers(pool_, {count});
  std::fill_n(source.data<std::int64_t>(), source.elements(), translation_tokens::pad);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& ids = *b->sources[static_cast<std::size_t>(i)];
    std::copy(ids.begin(), ids.end(), source.data<std::int64_t>() + i * b->source_time);
    b->lengths.data<std::int64_t>()[i] = static_cast<std::int64_t>(ids.size());
  }
  pipeline_.start(encoder, {.samples = count, .extents = {b->source_time}}, {source, b->lengths}, to->for_batch(to, b));
}

void translator::step(const std::shared_ptr<batch>& b, const std::shared_ptr<answers>& to) {
  const auto rows = static_cast<std::int64_t>(b->rows.size());
  const auto target = numbers(pool_, {rows, 1});
  std::size_t row = 0;
  for (const auto& search : b->searches)
    for (std::size_t i = 0; i < search.rows(); ++i)
      target.data<std::int64_t>()[row++] = search.last_token(i);
  std::fill(target.data<std::int64_t>() + row, target.data<std::int64_t>() + rows, target.data<std::int64_t>()[0]);
  if (b->memory.empty()) {
    auto zeros = tensor::allocate(pool_, dtype::f32, {rows, geometry_.hidden}, memory_use::activations);
    std::fill_n(zeros.data<float>(), zeros.elements(), 0.0F);
    b->memory.assign(static_cast<std::size_t>(2 * geometry_.layers), zeros);
  }
  std::vector<tensor> inputs{target, b->row_lengths, b->row_encoded, b->row_keys};
  inputs.insert(inputs.end(), b->memory.begin(), b->memory.end());
  pipeline_.start(decoder, {.samples = rows, .extents = {b->source_time}}, std::move(inputs), to->for_batch(to, b));
}

std::vector<translated> translator::translate(const std::vector<token_ids>& sources, const std::atomic<bool>& stop) {
  const auto batches = batches_of(sources);
  const auto at_once = static_cast<std::size_t>(options_.pipeline.stages) + 1;
  const auto there = std::make_shared<answers>();
  std::vector<translated> all(sources.size());
  std::size_t begun = 0, done = 0;
  const auto begin_some = [&] {
    while (begun < batches.size() && begun - done < at_once)
      encode(batches[begun++], there);
  };
  for (begin_some(); done < batches.size(); begin_some()) {
    auto [b, results] = there->take();
    if (stop) return {};
    std::vector<std::size_t> parents;
    if (b->is_encoded)
      parents = b->advance(results);
    else
      b->take_encoded(std::move(results));
    if (!b->is_done()) {
      b->lay_out(pool_, std::move(parents));
      step(b, there);
      continue;
    }
    for (std::size_t i = 0; i < b->sentences.size(); ++i)
      all[b->sentences[i]] = b->searches[i].best();
    ++done;
    *b = {};
  }
  return all;
}

} // namespace penstock::apps
