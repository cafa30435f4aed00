// Each stage's completion posts the next stage's work.
#include "actors/inference/inference_pipeline.hpp"

#include "actors/policy/partition.hpp"
#include "actors/stage/pipeline.hpp"
#include "actors/stage/work_line.hpp"
#include "kernels/check.hpp"
#include "kernels/device_kinds.hpp"
#include "kernels/outcome.hpp"
#include "kernels/usable_cores.hpp"

#include <algorithm>
#include <utility>

namespace penstock::actors {

struct inference_pipeline::stage {
  struct part { // of one model
    std::shared_ptr<const segment> layers;
    std::vector<tensor> weights;
  };
  std::shared_ptr<device> memory;
  std::unique_ptr<stream> work;
  std::shared_ptr<work_line> line = std::make_shared<work_line>();
  std::vector<part> parts;
};

struct inference_pipeline::piece {
  std::size_t which = 0;
  microbatch_info of;
  std::vector<tensor> values; // by value id: what was fed, and what crosses to the next stage
  std::vector<tensor> results;
  outcome tells; // of the stage at work
  completion done;

  tensor& value(value_id id) { return values.at(static_cast<std::size_t>(id)); }
};

// In the model's order; a range puts them out in that of the layers that make them.
void inference_pipeline::fetch_results(backend& ops, const segment& layers, piece& p) {
  const auto& wanted = layers.whole().results();
  p.results.resize(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    p.tells.expect(ops.to_plain(p.value(wanted[i])), [&into = p.results[i]](const tensor& there) { into = there; });
}

namespace {

std::vector<tensor> placed_weights(backend& ops, const segment& layers, const named_tensors& weights) {
  const auto formats = layers.parameter_formats(ops);
  std::vector<tensor> all;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    const auto& p = layers.parameters()[i];
    all.push_back(layers.is_repeat(i) ? all[p.first_use]
                                      : placed(ops, weights.at(p.name), formats[i], memory_use::weights));
  }
  return all;
}

} // namespace

inference_pipeline::inference_pipeline(const std::vector<std::shared_ptr<const model>>& models,
                                       const named_tensors& weights, const inference_options& options)
    : models_(models) {
  check(options.stages > 0 && !models.empty(), "inference has stages and models");
  std::vector<std::vector<int>> cuts;
  for (const auto& m : models_) {
    cuts.push_back(balanced_cuts(*m, std::vector<int>(static_cast<std::size_t>(options.stages), 1)));
    cuts.back().push_back(static_cast<int>(m->layers().size()));
  }
  const int threads = options.threads > 0 ? options.threads : std::max(1, usable_cores() / options.stages);
  for (std::size_t s = 0; s < static_cast<std::size_t>(options.stages); ++s) {
    auto made = std::make_unique<stage>();
    made->memory = open_device(options.device, 0);
    std::string name("stage ");
    name += std::to_string(s);
    made->work = made->memory->create_stream({name, threads, {}, options.reference_kernels});
    for (std::size_t m = 0; m < models_.size(); ++m)
      made->parts.push_back({std::make_shared<segment>(models_[m], cuts[m][s], cuts[m][s + 1]), {}});
    made->work->run([&](backend& ops) {
      for (auto& part : made->parts)
        part.weights = placed_weights(ops, *part.layers, weights);
    });
    stages_.push_back(std::move(made));
  }
}

// In order: what a stage still has goes on to the next.
inference_pipeline::~inference_pipeline() {
  for (auto& s : stages_)
    s->work.reset();
}

void inference_pipeline::start(std::size_t which, const microbatch_info& of, std::vector<tensor> inputs,
                               completion done) {
  const auto& m = *models_.at(which);
  check(inputs.size() == m.inputs().size(), "a piece of inference has all inputs of its model");
  auto p = std::make_shared<piece>();
  p->which = which;
  p->of = of;
  p->values.resize(m.values().size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    p->value(m.inputs()[i].value) = std::move(inputs[i]);
  p->done = std::move(done);
  post(p, 0);
}

void inference_pipeline::post(const std::shared_ptr<piece>& p, std::size_t at) {
  const auto& s = *stages_.at(at);
  const auto& part = s.parts.at(p->which);
  const bool is_last = at + 1 == stages_.size();
  work_line::post(
      *s.work, s.line,
      [p, &part, is_last](backend& ops) {
        std::vector<tensor> arguments;
        for (const auto id : part.layers->inputs())
          arguments.push_back(ops.from_host(std::exchange(p->value(id), {}), memory_use::activations));
        for (const auto id : part.layers->fed())
          arguments.push_back(ops.from_host(p->value(id), memory_use::activations));
        auto outputs = part.layers->forward(
            ops, {.mode = phase::evaluation, .info = p->of, .update_state = false, .tells = &p->tells},
            std::move(arguments), part.weights, {}, nullptr);
        for (std::size_t i = 0; i < outputs.size(); ++i)
          p->value(part.layers->outputs()[i]) = std::move(outputs[i]);
        if (is_last) fetch_results(ops, *part.layers, *p);
        p->tells.fetch(ops);
      },
      [p] { p->tells.settle(); },
      [this, p, at, is_last](std::exception_ptr failure) {
        if (failure || is_last) {
          p->values.clear();
          p->done(failure ? std::vector<tensor>() : std::move(p->results), failure);
        } else {
          p->tells = {};
          post(p, at + 1);
        }
      });
}

} // namespace penstock::actors
