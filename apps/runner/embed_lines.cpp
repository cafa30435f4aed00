// Lines become minibatches of about the same length; their results come in any order and are printed in the lines'.
#include "apps/runner/embed_lines.hpp"

#include "actors/policy/settle_plan.hpp"
#include "actors/trainer.hpp"
#include "apps/models/registry.hpp"
#include "apps/runner/command_line.hpp"
#include "apps/runner/exit_codes.hpp"
#include "apps/runner/of_option.hpp"
#include "apps/runner/say.hpp"
#include "apps/runner/signals.hpp"
#include "apps/text/lines.hpp"
#include "apps/text/open_tokenizer.hpp"
#include "kernels/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace penstock::apps {

namespace {

constexpr std::size_t lines_at_once = 8192;
constexpr std::size_t tokens_at_once = 1 << 20; // 8 MB of ids
constexpr std::int64_t length_step = 8;         // so that few shapes come

// One minibatch after the other of lines sorted by length.
class embedded_lines final : public actors::dataset {
public:
  embedded_lines(std::vector<token_ids> lines, std::int64_t most, std::int64_t padding)
      : lines_(std::move(lines)), order_(lines_.size()), most_(most), padding_(padding) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return lines_[a].size() < lines_[b].size(); });
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(lines_.size()); }
  std::string description() const override { return std::to_string(size()) + " lines"; }
  std::vector<std::string> extents() const override { return {"time"}; }
  std::vector<actors::data_input> inputs() const override {
    const tensor_spec row{dtype::i64, {most_}}, number{dtype::i64, {}};
    return {{.name = "input_ids", .spec = row, .extents = {"time"}},
            {.name = "token_type_ids", .spec = row, .extents = {"time"}},
            {.name = "lengths", .spec = number}};
  }
  actors::minibatches_ptr minibatches(const actors::batching& how) const override;

  /// Which line is sample `at` of all minibatches.
  std::size_t line_of(std::int64_t at) const { return order_.at(static_cast<std::size_t>(at)); }
  const token_ids& tokens(std::int64_t at) const { return lines_[line_of(at)]; }
  std::int64_t extent_of(std::int64_t longest) const {
    return std::min(most_, (longest + length_step - 1) / length_step * length_step);
  }
  std::int64_t padding() const { return padding_; }

private:
  std::vector<token_ids> lines_;
  std::vector<std::size_t> order_;
  std::int64_t most_, padding_;
};

class line_minibatches final : public actors::minibatch_list {
public:
  line_minibatches(const embedded_lines& lines, std::int64_t batch) : lines_(lines), batch_(batch) {}
  std::int64_t per_epoch() const override { return (lines_.size() + batch_ - 1) / batch_; }
  std::int64_t least_samples() const override { return std::min(batch_, lines_.size() - (per_epoch() - 1) * batch_); }

  actors::minibatch_facts facts(std::int64_t minibatch) const override {
    const auto first = minibatch % per_epoch() * batch_, end = std::min(lines_.size(), first + batch_);
    actors::minibatch_facts facts{.epoch = minibatch / per_epoch(), .samples = end - first};
    facts.counts[0] = static_cast<double>(end - first);
    facts.extents[0] = lines_.extent_of(static_cast<std::int64_t>(lines_.tokens(end - 1).size()));
    return facts;
  }

  void load(std::int64_t minibatch, std::int64_t first, std::span<tensor> into) const override {
    const auto begin = minibatch % per_epoch() * batch_ + first;
    const auto time = into[0].dim(1);
    std::fill_n(into[0].data<std::int64_t>(), into[0].elements(), lines_.padding());
    std::fill_n(into[1].data<std::int64_t>(), into[1].elements(), 0);
    for (std::int64_t i = 0; i < into[0].dim(0); ++i) {
      const auto& ids = lines_.tokens(begin + i);
      std::copy(ids.begin(), ids.end(), into[0].data<std::int64_t>() + i * time);
      into[2].data<std::int64_t>()[i] = static_cast<std::int64_t>(ids.size());
    }
  }

private:
  const embedded_lines& lines_;
  std::int64_t batch_;
};

actors::minibatches_ptr embedded_lines::minibatches(const actors::batching& how) const {
  return std::make_shared<line_minibatches>(*this, how.batch);
}

std::string as_json(const float* values, std::int64_t count) {
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i)
    squares += static_cast<double>(values[i]) * values[i];
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::string text = "[";
  for (std::int64_t i = 0; i < count; ++i)
    fmt::format_to(std::back_inserter(text), "{}{:.9g}", i == 0 ? "" : ", ", values[i] * scale);
  return text + "]\n";
}

class vector_keeper final : public actors::run_observer {
public:
  vector_keeper(const embedded_lines& lines, std::int64_t batch)
      : lines_(lines), batch_(batch), texts_(static_cast<std::size_t>(lines.size())) {}
  void on_results(const actors::batch_results& r) override {
    const auto& found = r.tensors.at("embedding");
    for (std::int64_t i = 0; i < found.dim(0); ++i)
      texts_.at(lines_.line_of(r.batch * batch_ + i)) = as_json(found.data<float>() + i * found.dim(1), found.dim(1));
  }
  void on_note(const std::string& line) override { notes_.push_back(line); }
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<std::string>& notes() const { return notes_; }

private:
  const embedded_lines& lines_;
  std::int64_t batch_;
  std::vector<std::string> texts_;
  std::vector<std::string> notes_;
};

struct embed_options {
  bool embed = false;
  std::string tokenizer, weights, config, size, gelu;
  std::int64_t batch = 32, most_tokens = 0;
  int stages = 1, threads = 0;
};

bool read_options(command_line& line, embed_options& o, std::span<const std::string> arguments) {
  line.flag("--embed", o.embed, "Vectors of lines instead of training");
  line.text("--tokenizer", o.tokenizer, "FILE", "vocab.txt or tokenizer.json");
  line.text("--weights", o.weights, "FILE", "safetensors, as transformers writes them");
  line.text("--hf-config", o.config, "FILE", "Geometry: a Hugging Face config.json");
  line.text("--size", o.size, "NAME", "Or base or large [base]");
  line.text("--gelu", o.gelu, "FORM", "erf or tanh [erf, or what --hf-config says]");
  line.whole("--batch", o.batch, 1, 1 << 20, "Lines of a minibatch");
  line.whole("--max-length", o.most_tokens, 3, 1 << 20,
             "Tokens of a line at most, those around it included [positions]");
  line.whole("--stages", o.stages, 1, 1024, "Stages of the pipeline");
  line.whole("--threads", o.threads, 1, 1024, "Compute threads per worker [cores / workers]");
  line.footer("Exit codes: 0 done, 1 failed, 2 usage, 130 SIGINT, 143 SIGTERM.\n");
  if (!line.parse(arguments)) return false;
  for (const auto& [option, value] : {std::pair("--tokenizer", o.tokenizer), std::pair("--weights", o.weights)})
    if (value.empty()) throw usage_error(std::string(option) + ": wanted " + option + " FILE with --embed");
  return true;
}

class embedder {
public:
  explicit embedder(const embed_options& o)
      : options_(o), tokens_(of_option("--tokenizer", [&] { return open_tokenizer(o.tokenizer); })),
        net_(std::make_shared<const model>(build())) {
    if (!tokens_->special().begin || !tokens_->special().end)
      throw usage_error("--tokenizer: " + o.tokenizer + " has no tokens to put around a line, wanted [CLS] and [SEP]");
    most_ = net_->extents().front().most;
    if (o.most_tokens > most_)
      throw usage_error("--max-length: found " + std::to_string(o.most_tokens) + ", wanted at most the " +
                        std::to_string(most_) + " positions of the model");
    if (o.most_tokens > 0) most_ = o.most_tokens;
    actors::pipeline_request request;
    request.replicas.assign(static_cast<std::size_t>(o.stages), 1);
    request.threads = o.threads;
    plan_ = of_option("--stages", [&] { return actors::settle_request(request, *net_); });
  }

  int run(actors::run_control& control) {
    line_reader in("-");
    while (!control.stop) {
      auto lines = read_some(in);
      if (lines.empty()) break;
      embed(std::move(lines), control);
    }
    if (cut_ > 0)
      complain("bert", fmt::format("{} line{} had more than {} tokens and {} cut", cut_, cut_ == 1 ? "" : "s", most_,
                                   cut_ == 1 ? "was" : "were"));
    return signal_guard::exit_code();
  }

private:
  model build() const {
    model_options o;
    o.own["head"] = "embed";
    o.vocabulary = tokens_->vocabulary_size();
    for (const auto& [name, value] :
         {std::pair("hf-config", options_.config), std::pair("size", options_.size), std::pair("gelu", options_.gelu)})
      if (!value.empty()) o.own[name] = value;
    return find_model("bert").build(o);
  }

  std::vector<token_ids> read_some(line_reader& in) {
    std::vector<token_ids> lines;
    std::size_t tokens = 0;
    while (lines.size() < lines_at_once && tokens < tokens_at_once) {
      const auto text = in.next();
      if (!text) break;
      auto ids = tokens_->encode(*text);
      const auto room = static_cast<std::size_t>(most_ - 2);
      if (ids.size() > room) ids.resize(room), ++cut_;
      lines.push_back(tokens_->wrapped(std::move(ids)));
      tokens += lines.back().size();
    }
    return lines;
  }

  void embed(std::vector<token_ids> lines, actors::run_control& control) {
    const embedded_lines data(std::move(lines), most_, tokens_->special().pad.value_or(0));
    actors::run_options o;
    o.eval_only = true;
    o.batch = o.eval_batch = options_.batch;
    o.weights = options_.weights;
    o.draws_weights = false; // all come from the file
    actors::run_inputs inputs{.net = net_, .train = &data, .test = &data};
    inputs.adapt_weights = find_model("bert").adapt_weights;
    vector_keeper kept(data, options_.batch);
    actors::train(plan_, o, inputs, kept, control);
    for (const auto& note : is_first_ ? kept.notes() : std::vector<std::string>{})
      complain("bert", note);
    is_first_ = false;
    for (const auto& text : kept.texts()) {
      if (text.empty()) return; // ended by a signal
      say(text);
    }
  }

  embed_options options_;
  std::unique_ptr<tokenizer> tokens_;
  std::shared_ptr<const model> net_;
  planner::plan_ptr plan_;
  std::int64_t most_ = 0;
  std::int64_t cut_ = 0;
  bool is_first_ = true;
};

} // namespace

int embed_lines(int argc, char** argv) {
  return run_guarded("bert", [&]() -> int {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    command_line line("bert --embed", "Prints a vector of length 1 for each line of standard input.");
    embed_options options;
    if (!read_options(line, options, arguments)) {
      say(line.help_text());
      return done;
    }
    embedder work(options);
    actors::run_control control;
    const signal_guard signals(control, "bert");
    try {
      return work.run(control);
    } catch (const actors::run_stopped&) {
      return signal_guard::exit_code();
    }
  });
}

} // namespace penstock::apps
