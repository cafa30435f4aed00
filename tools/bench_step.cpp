// Times training steps of a whole model on one stream; tools/bench_step.py drives it beside PyTorch.
#include "actors/made_up_data.hpp"
#include "actors/source/microbatch_loader.hpp"
#include "apps/models/registry.hpp"
#include "kernels/check.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/initialise.hpp"
#include "kernels/model_metrics.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/segment.hpp"
#include "kernels/stream.hpp"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <map>
#include <random>

namespace {

using namespace penstock;

struct options {
  std::string model = "resnet50";
  std::int64_t batch = 8;
  std::int64_t image_size = 224;
  std::int64_t length = 0; // of sequences; 0: the model's own
  std::int64_t classes = 1000;
  double dropout = 0;                 // below 0: the model's own rates
  std::string optimizer = "momentum"; // SGD with it; or sgd, adam, adamw
  int threads = 1;
  int layer_steps = 0; // > 0: print where the time goes, by kind of layer, and end
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Processor time of this thread: what a step costs even while others use the machine.
double thread_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

optimizer_options optimizer_named(const std::string& name) {
  if (name == "momentum") return {};
  return {.name = name, .momentum = 0, .weight_decay = name == "adamw" ? 0.01F : 0.0F};
}

// Everything that one training step of a model reads and writes. Used on the stream's thread.
class training {
public:
  training(backend& ops, const options& o)
      : model_(std::make_shared<const model>(apps::find_model(o.model).build(geometry_of(o)))),
        whole_(model_, 0, static_cast<int>(model_->layers().size())), batch_(o.batch),
        optimizer_(make_optimizer(optimizer_named(o.optimizer))) {
    auto& pool = *ops.device().host_memory();
    const auto formats = whole_.parameter_formats(ops);
    for (std::size_t i = 0; i < formats.size(); ++i) {
      const auto& p = whole_.parameters()[i];
      if (whole_.is_repeat(i)) {
        weights_.push_back(weights_[p.first_use]);
        continue;
      }
      weights_.push_back(initial_parameter(ops, p.spec, p.name, formats[i], 1));
    }
    const auto initial = initial_states(*model_, pool);
    for (const auto& s : whole_.states())
      states_.push_back(initial.at(s.name));
    optimizer_states_.resize(weights_.size());
    const actors::made_up_data data(*model_, batch_);
    actors::microbatch_loader loader(model_, data, {.batch = batch_}, 1);
    const auto loaded = loader.load(0, 0);
    call_.info = loaded.info;
    inputs_ = actors::fed_of(whole_, loaded);
  }

  double step(backend& ops) {
    call_.minibatch++;
    segment_activations keep;
    segment_losses losses;
    std::vector<tensor> carried;
    call_.carried = carried_, call_.carried_out = &carried;
    whole_.forward(ops, call_, inputs_, weights_, states_, &keep, &losses);
    carried_ = std::move(carried);
    loss_metrics found{.samples = batch_, .counts = call_.info.counts};
    for (std::size_t i = 0; i < losses.size(); ++i)
      std::copy_n(losses[i].sums.data<double>(), model_->losses()[i].op->sums().size(),
                  found.sums.begin() + static_cast<std::ptrdiff_t>(model_->losses()[i].first_sum));
    std::vector<tensor> gradients(weights_.size());
    whole_.backward(ops, call_, std::vector<tensor>(whole_.outputs().size()), weights_, std::move(keep), gradients,
                    std::move(losses));
    const auto strange =
        ops.allocate_zeroed(dtype::i32, {static_cast<std::int64_t>(weights_.size())}, memory_use::scratch);
    const double start = thread_seconds();
    for (std::size_t i = 0; i < weights_.size(); ++i)
      if (whole_.is_repeat(i))
        ops.get<elementwise_ops>().accumulate(gradients[whole_.parameters()[i].first_use], gradients[i]);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (whole_.is_repeat(i)) continue;
      optimizer_->step(ops, 1e-3F, 1.0F, true, weights_[i], gradients[i], optimizer_states_[i], weights_[i], strange,
                       static_cast<std::int64_t>(i));
    }
    update_seconds += thread_seconds() - start;
    return mean_loss(*model_, found, phase::training);
  }

  // Forward, and twice that for the two gradients.
  double step_flops() const {
    double forward = 0;
    for (int l = 0; l < whole_.last(); ++l)
      forward += model_->layers()[static_cast<std::size_t>(l)].op->forward_flops(model_->input_specs(l, batch_));
    return 3 * forward;
  }

  void observe(std::function<void(const layer_observation&)> observer) { call_.observe = std::move(observer); }
  const model& network() const { return *model_; }
  double update_seconds = 0;

private:
  static apps::model_options geometry_of(const options& o) {
    const bool images = apps::find_model(o.model).takes_images;
    return {.image_size = images ? o.image_size : 0,
            .classes = o.classes,
            .dropout = o.dropout,
            .length = images ? 0 : o.length};
  }

  std::shared_ptr<const model> model_;
  segment whole_;
  std::int64_t batch_;
  std::unique_ptr<optimizer> optimizer_;
  segment_call call_{.seed = 1};
  std::vector<tensor> weights_, states_, carried_;
  std::vector<optimizer_state> optimizer_states_;
  std::vector<tensor> inputs_;
};

// Where the calling thread's time goes, by layer and by kind of layer: the fastest of several steps.
void report_layers(backend& ops, training& run, int steps) {
  std::map<std::pair<int, bool>, double> fastest; // by layer and direction
  double last = 0;
  run.observe([&](const layer_observation& o) {
    const double seconds = thread_seconds() - last;
    last += seconds;
    const auto [entry, is_new] = fastest.emplace(std::pair(o.layer, o.pass != layer_pass::forward), seconds);
    entry->second = std::min(entry->second, seconds);
  });
  double update = 1e9;
  for (int i = 0; i < steps; ++i) {
    run.update_seconds = 0;
    last = thread_seconds();
    run.step(ops);
    update = std::min(update, run.update_seconds);
  }
  std::map<std::string, double> kinds{{"update", update}};
  double total = update;
  for (const auto& [where, seconds] : fastest) {
    const auto& l = run.network().layers()[static_cast<std::size_t>(where.first)];
    const std::string direction = where.second ? " backward" : " forward";
    std::printf("%9.2f ms  %s%s\n", seconds * 1e3, l.name.c_str(), direction.c_str());
    kinds[std::string(l.op->kind()) + direction] += seconds;
    total += seconds;
  }
  for (const auto& [name, seconds] : kinds)
    std::printf("%9.2f ms %5.1f%%  all %s\n", seconds * 1e3, 100 * seconds / total, name.c_str());
  std::printf("%9.2f ms in all\n", total * 1e3);
}

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--model")
      o.model = value;
    else if (name == "--batch")
      o.batch = std::stoll(value);
    else if (name == "--image-size")
      o.image_size = std::stoll(value);
    else if (name == "--length")
      o.length = std::stoll(value);
    else if (name == "--classes")
      o.classes = std::stoll(value);
    else if (name == "--dropout")
      o.dropout = std::stod(value);
    else if (name == "--optimizer")
      o.optimizer = value;
    else if (name == "--threads")
      o.threads = std::stoi(value);
    else if (name == "--layers")
      o.layer_steps = std::stoi(value);
    else
      throw usage_error("unknown option '" + name +
                        "'; there are --model, --batch, --image-size, --length, --classes, --dropout, "
                        "--optimizer, --threads, --layers");
  }
  return o;
}

// A layer whose products are no products of oneDNN's: attention and LSTMs have loops of their own.
std::string part_of(const layer& op) {
  const std::string_view kind = op.kind();
  if (kind == "attention") return "attention";
  return kind.find("lstm") != kind.npos ? "lstm" : "rest";
}

// One step for each line that comes in, one line of JSON back. Parts are processor time of the stream's thread.
void serve(stream& one, training& run) {
  std::map<std::string, double> parts;
  double last = 0;
  run.observe([&](const layer_observation& o) {
    const double at = thread_seconds();
    parts[part_of(*run.network().layers()[static_cast<std::size_t>(o.layer)].op)] += at - last;
    last = at;
  });
  std::string line;
  while (std::getline(std::cin, line)) {
    double seconds = 0, library = 0, thread = 0, loss = 0;
    parts.clear();
    const std::clock_t cpu_start = std::clock();
    one.run([&](backend& ops) {
      const double before = seconds_in_library(ops), start = now(), thread_start = last = thread_seconds();
      loss = run.step(ops);
      seconds = now() - start;
      thread = thread_seconds() - thread_start;
      library = seconds_in_library(ops) - before;
    });
    const double own = parts["attention"] + parts["lstm"];
    std::printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"flops\": %.0f, \"loss\": %.6f, \"products\": %.6f, "
                "\"attention\": %.6f, \"lstm\": %.6f, \"rest\": %.6f}\n",
                seconds, static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC, run.step_flops(), loss,
                library, parts["attention"], parts["lstm"], thread - library - own);
    std::fflush(stdout);
  }
}

} // namespace

int main(int argc, char** argv) try {
  const options o = parse(argc, argv);
  const auto machine = open_device({});
  const auto one = machine->create_stream({.name = "bench", .threads = o.threads});
  std::unique_ptr<training> run;
  one->run([&](backend& ops) { run = std::make_unique<training>(ops, o); });
  if (o.layer_steps > 0)
    one->run([&](backend& ops) {
      run->step(ops);
      report_layers(ops, *run, o.layer_steps);
    });
  else
    serve(*one, *run);
  one->run([&](backend&) { run.reset(); });
  return 0;
} catch (const usage_error& e) {
  std::fprintf(stderr, "bench_step: %s\n", e.what());
  return 2;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_step: %s\n", e.what());
  return 1;
}
