// Declares the options of every app, grouped as --help shows them, and checks how they fit together.
#include "apps/runner/options.hpp"

#include "apps/runner/of_option.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <cmath>
#include <utility>

namespace penstock::apps {

namespace {

constexpr double unlimited = HUGE_VAL;
// Far beyond any run; keep sums of steps and bytes from overflowing.
constexpr std::int64_t most_steps = 1'000'000'000'000;
constexpr std::int64_t most_epochs = 1'000'000'000;
constexpr std::int64_t most_samples = 100'000'000;
constexpr std::int64_t most_threads = 1024;
constexpr std::int64_t most_tokens_known = 1 << 24;

// Options that are words until they are checked.
struct option_texts {
  schedule_texts schedule;
  std::string cuts;
  std::string lr_schedule = "constant";
  std::string executor = "actors";
  std::string last_batch = "keep";
  std::string weights, save_weights, save_gradients, checkpoint, resume, trace, metrics, control;
  std::vector<std::string> changes;
  bool print_config = false;
};

std::string size_help(std::string_view model) {
  for (const auto* entry : all_models()) {
    if (entry->name == model) return "Pixels a side [" + std::to_string(entry->default_image_size) + "]";
  }
  return "Pixels a side [the model's own]";
}

void declare_data(command_line& line, app_options& o) {
  line.group("Data and model");
  const auto* entry = known_model(o.model);
  line.text("--data", o.data, "SPEC",
            entry == nullptr || entry->takes_images
                ? "fashion-mnist:DIR, idx:DIR, cifar10:DIR, imagefolder:DIR, tensors:FILE.safetensors or synthetic"
                : "labelled-text:DIR, masked-text:DIR, parallel:DIR, squad:DIR, tensors:FILE.safetensors, text:DIR, "
                  "clips:DIR or synthetic");
  declare_model_options(line, o);
  line.off("--no-augment", o.augment, "No random crop and flip");
  line.choice("--broken-images", o.broken_images, {"refuse", "skip"},
              "JPEGs of an imagefolder that cannot be read: refuse, or skip and count them");
  line.choice("--exif-orientation", o.exif_orientation, {"ignore", "apply"},
              "Cameras' marks of which side is up: ignore, as torchvision does, or apply");
  line.whole("--synthetic-samples", o.synthetic_samples, 1, most_samples, "Training samples of synthetic data");
}

void declare_pipeline(command_line& line, app_options& o, option_texts& t) {
  line.group("Pipeline");
  declare_schedule_options(line, t.schedule);
  line.text("--cuts", t.cuts, "LAYER,...",
            "Layers at which stages 1, 2, ... begin [balanced]; give the stage count too");
  line.text("--recompute", o.recompute, "STAGES",
            "Stages that drop activations and compute them again in backward: none, all or S,S,...");
  line.text("--frozen-until", o.frozen_until, "LAYER",
            "Layers before it are frozen: they keep their weights, and only what follows is trained [none]");
  line.text(
      "--plan", o.plan.source, "FILE|auto",
      "A plan of `penstock plan`; auto: profile, plan, try and run (what is given above is kept, else the schedule "
      "and M are the defaults); auto:any: those are sought as well");
  line.text("--cluster", o.plan.cluster, "FILE", "For --plan auto: the devices to plan for [this machine's cores]");
  line.whole("--workers", o.plan.workers, 1, most_threads, "For --plan auto: workers at most [cores]");
  line.texts("--keep-together", o.plan.keep_together, "LAYERS",
             "For --plan auto: layers that no cut may part: a block's name or FIRST..LAST (repeatable)");
  line.text("--save-plan", o.plan.save, "FILE", "Write the plan that runs; --plan FILE repeats it");
  line.text(
      "--plan-cache", o.plan.cache, "WHERE",
      "For --plan auto: folder of plans found before; off; refresh or refresh:DIR: measure anew [~/.cache/penstock]");
  line.texts("--replan", t.changes, "STEP:FILE",
             "Change to the plan of FILE after so many minibatches of the whole run (repeatable)");
  line.text("--control", t.control, "PORT|HOST:PORT",
            "Rank 0 listens there for `penstock replan`, which changes the plan of a running job; on the loopback "
            "without HOST; 0: any free port, which is printed");
  line.choice("--executor", t.executor, {"actors", "oracle"},
              "actors, or oracle: the same schedule in one thread, without actors");
  line.whole("--threads", o.pipeline.threads, 1, most_threads, "Compute threads per worker [cores / workers]");
  line.whole("--loader-threads", o.run.loader_threads, 1, most_threads, "Threads that load and decode samples");
  line.real("--stall-timeout", o.run.stall_seconds, 0.001, 1e9, "Seconds without progress that end the run");
  line.flag("--reference-kernels", o.run.reference_kernels, "Plain loops instead of oneDNN");
  line.text("--device", o.run.device, "NAME", "What computes: cpu, cuda, or a kind of device that a plug-in brings");
}

void declare_on_loss(command_line& line, job_options& job) {
  line.choice("--on-loss", job.on_loss, {"end", "shrink"},
              "When a process is lost: end, or shrink: the others go on from the last checkpoint");
}

void declare_training(command_line& line, app_options& o, option_texts& t) {
  auto& run = o.run;
  line.group("Training");
  line.whole("--batch", run.batch, 1, most_samples, "Samples of a minibatch");
  line.choice("--last-batch", t.last_batch, {"keep", "drop"},
              "An epoch's last minibatch where it has fewer samples: keep, or drop it");
  line.whole("--epochs", run.epochs, 1, most_epochs, "Times through the data");
  line.whole("--steps", run.steps, 1, most_steps, "Stop after this many minibatches, whatever the epochs [no limit]");
  line.choice("--optimizer", run.optimizer.name, {"sgd", "adam", "adamw", "asgd"}, "sgd, adam, adamw or asgd");
  line.real("--lr", run.lr.base, 0, unlimited, "Learning rate (adam, adamw: 0.001 unless given)");
  line.text("--lr-schedule", t.lr_schedule, "SPEC",
            "constant, step:every=N,gamma=X, cosine or polynomial:power=X; add warmup=N (minibatches), and to the "
            "last two final=X (a fraction of --lr); gnmt:warmup=N,halvings=N,until=X is MLPerf's of GNMT");
  line.real("--momentum", run.optimizer.momentum, 0, 1, "SGD's momentum");
  line.flag("--nesterov", run.optimizer.nesterov, "Nesterov momentum");
  line.real("--beta1", run.optimizer.beta1, 0, 1, "adam, adamw: what the mean of the gradients keeps in a step");
  line.real("--beta2", run.optimizer.beta2, 0, 1, "adam, adamw: what the mean of their squares keeps");
  line.real("--epsilon", run.optimizer.epsilon, 0, unlimited, "adam, adamw: added to the root of the latter");
  line.off("--no-bias-correction", run.optimizer.bias_correction,
           "adam, adamw: the means as they are, though they begin with zero, as BERT's do");
  line.whole("--asgd-from", run.optimizer.average_from, 0, most_steps,
             "asgd: minibatches after which weights are averaged for evaluation and --save-weights");
  line.whole("--asgd-trigger", run.asgd_patience, 1, most_epochs,
             "asgd: average from the first evaluation on that is worse than the best of all but the last N (AWD-LSTM: "
             "5) [off]");
  line.real("--weight-decay", run.optimizer.weight_decay, 0, unlimited, "Weight decay");
  line.off("--no-decay-norm-bias", run.decay_norm_bias, "No weight decay on biases and normalisation");
  line.real("--label-smoothing", run.label_smoothing, 0, 1, "Label smoothing");
  line.real("--clip-norm", run.clip_norm, 0, unlimited, "Clip the global gradient norm; 0: do not");
  line.real("--clip-stage-norm", run.clip_stage_norm, 0, unlimited,
            "Clip the norm of each stage's own gradients, in any schedule; 0: do not");
  line.off("--no-replica-lr-scaling", run.replica_lr_scaling, "No learning rate factor R_s / R_0 (pipedream family)");
  line.whole("--seed", run.seed, 0, "Of weights, shuffling, augmentation and dropout");
  line.off("--keep-going-on-nonfinite", run.stop_on_nonfinite,
           "Train on when a loss, a layer or statistics are not finite");
}

void declare_outputs(command_line& line, app_options& o, option_texts& t) {
  auto& run = o.run;
  line.group("Evaluation");
  line.whole("--eval-every", run.eval_every, -1, most_epochs,
             "Epochs between evaluations; 0: at the end only, -1: never");
  line.whole("--eval-batch", run.eval_batch, 1, most_samples, "Samples of an evaluation's minibatch [--batch]");
  line.flag("--eval-only", run.eval_only, "Evaluate, do not train");
  line.group("Files");
  line.text("--weights", t.weights, "FILE", "Initial weights (safetensors, torchvision's names)");
  line.text("--weights-prefix", run.weights_prefix, "WORDS", "Take this off the names in --weights (module.)");
  line.flag("--allow-partial", run.allow_partial, "Let --weights lack some, or hold more");
  line.text("--save-weights", t.save_weights, "FILE", "Weights at the end");
  line.text("--save-gradients", t.save_gradients, "FILE", "Gradients of the first update");
  line.text("--checkpoint", t.checkpoint, "DIR", "Checkpoint at the end, on SIGUSR1, SIGINT and SIGTERM");
  line.whole("--checkpoint-every", run.checkpoint_every, 1, most_steps, "And every so many minibatches [not]");
  line.optional_choice("--resume", t.resume, {"last", "auto"},
                       "Go on from the last complete checkpoint in --checkpoint; auto: if there is one, else begin");
  line.text("--trace", t.trace, "FILE", "Trace of every actor (read it with `penstock trace`, or the Perfetto UI)");
  line.text("--metrics", t.metrics, "FILE", "Metrics, one JSON object a line");
  line.group("Instead of a run");
  line.flag("--dry-run", o.dry_run, "Show the plan: stages, credits, weights");
  line.flag("--print-config", t.print_config, "Show every option as it stands, as JSON");
}

training_defaults defaults_of(const std::string& name) {
  const auto* entry = known_model(name);
  return entry == nullptr ? training_defaults{} : entry->training;
}

void take_defaults(app_options& o) {
  const auto usual = defaults_of(o.model);
  o.run.batch = usual.batch;
  o.run.optimizer.name = usual.optimizer;
  o.run.label_smoothing = usual.label_smoothing;
  o.run.optimizer.momentum = usual.momentum;
  o.run.optimizer.weight_decay = usual.weight_decay;
  if (usual.rate > 0) o.run.lr.base = usual.rate;
}

float usual_rate(const app_options& o) {
  const auto usual = defaults_of(o.model);
  const auto& name = o.run.optimizer.name;
  const bool is_usual = name == usual.optimizer || (name == "asgd" && usual.optimizer == "sgd");
  if (usual.rate > 0 && is_usual) return usual.rate;
  return name.starts_with("adam") ? 0.001F : lr_schedule_options{}.base;
}

// Of all gradients only where the schedule is known to have them together.
void take_usual_clip(app_options& o, const command_line& line) {
  const auto usual = defaults_of(o.model).clip_norm;
  if (usual == 0 || line.given("--clip-norm") || line.given("--clip-stage-norm")) return;
  const bool is_known = o.plan.source.empty() || (o.plan.source == "auto" && !o.plan.any);
  const bool is_whole = is_known && planner::resolve_schedule({.name = o.pipeline.schedule}).synchronous;
  (is_whole ? o.run.clip_norm : o.run.clip_stage_norm) = usual;
}

void read_choices(app_options& o, const option_texts& t, const command_line& line) {
  o.run.last = t.last_batch == "drop" ? actors::last_batch::drop : actors::last_batch::keep;
  o.run.executor = t.executor == "oracle" ? actors::executor_kind::oracle : actors::executor_kind::actors;
  const auto base = line.given("--lr") ? o.run.lr.base : usual_rate(o);
  o.lr_schedule = t.lr_schedule;
  o.run.lr = of_option("--lr-schedule", [&] { return parse_lr_schedule(t.lr_schedule); });
  o.run.lr.base = base;
}

void read_pipeline(app_options& o, option_texts& t) {
  if (!t.cuts.empty()) o.cuts = parse_words("--cuts", t.cuts);
  if (t.schedule.stages == 0 && t.schedule.replicas.empty() && !o.cuts.empty()) {
    const auto chunks = actors::chunks_of({.schedule = t.schedule.schedule, .chunks = t.schedule.chunks});
    const auto stages = static_cast<std::int64_t>(o.cuts.size()) + 1;
    if (stages % chunks != 0)
      throw usage_error("--cuts: found " + std::to_string(o.cuts.size()) + " layers, which makes " +
                        std::to_string(stages) + " stages, wanted a multiple of the " + std::to_string(chunks) +
                        " of --chunks");
    t.schedule.stages = stages / chunks;
  }
  if (o.plan.source == "auto") { // what is given is what the plan must keep; how many stages it has is not known yet
    o.plan.in_flight = std::exchange(t.schedule.in_flight, "");
    o.plan.update_lag = std::exchange(t.schedule.update_lag, "");
    o.plan.stages = static_cast<int>(t.schedule.stages);
  }
  const int threads = o.pipeline.threads;
  o.pipeline = read_schedule_options(t.schedule);
  o.pipeline.threads = threads;
  t.schedule.stages = static_cast<std::int64_t>(o.pipeline.replicas.size());
  const auto wanted = o.pipeline.replicas.size() * static_cast<std::size_t>(actors::chunks_of(o.pipeline)) - 1;
  if (!o.cuts.empty() && o.cuts.size() != wanted)
    throw usage_error("--cuts: found " + std::to_string(o.cuts.size()) + " layers, wanted " + std::to_string(wanted) +
                      " for " + std::to_string(wanted + 1) + " stages");
}

void read_changes(app_options& o, const option_texts& t) {
  o.plan.changes = parse_changes(t.changes);
  if (!t.control.empty()) o.control = parse_control(t.control, 0);
  for (const auto& [option, is_given] :
       {std::pair("--replan", !o.plan.changes.empty()), std::pair("--control", o.control.has_value())})
    if (is_given && o.run.eval_only)
      throw usage_error(std::string(option) + ": nothing is trained with --eval-only; leave one of the two out");
}

// With the trigger, plain SGD is what comes before.
void read_trigger(app_options& o, const command_line& line) {
  if (o.run.asgd_patience == 0) return;
  if (line.given("--asgd-from"))
    throw usage_error("--asgd-trigger: decides when averages begin; leave --asgd-from out");
  if (!line.given("--optimizer") && o.run.optimizer.name == "sgd") o.run.optimizer.name = "asgd";
}

void check_fit(const app_options& o) {
  if (o.pipeline.microbatches > o.run.batch)
    throw usage_error("--batch: found " + std::to_string(o.run.batch) + ", wanted at least the " +
                      std::to_string(o.pipeline.microbatches) + " of --microbatches");
  if (o.run.asgd_patience > 0 && o.run.optimizer.name != "asgd")
    throw usage_error("--asgd-trigger: found --optimizer " + o.run.optimizer.name + ", wanted asgd");
  if (o.run.asgd_patience > 0 && o.run.eval_every < 1)
    throw usage_error("--asgd-trigger: found --eval-every " + std::to_string(o.run.eval_every) +
                      ", wanted evaluations between epochs");
  if (o.run.label_smoothing >= 1) throw usage_error("--label-smoothing: found 1, wanted a number below 1");
  if ((o.run.resume || o.resume_auto) && o.run.checkpoint.empty())
    throw usage_error("--resume: wanted --checkpoint DIR with it");
  if (o.run.checkpoint_every > 0 && o.run.checkpoint.empty())
    throw usage_error("--checkpoint-every: wanted --checkpoint DIR with it");
  if (o.job.on_loss == "shrink" && o.run.checkpoint.empty())
    throw usage_error("--on-loss shrink: wanted --checkpoint DIR with it, to go on from");
  if (!o.run.weights_prefix.empty() && o.run.weights.empty())
    throw usage_error("--weights-prefix: wanted --weights FILE with it");
  if (o.run.allow_partial && o.run.weights.empty()) throw usage_error("--allow-partial: wanted --weights FILE with it");
}

// "auto" and "auto:any"; anything else is a file.
void read_plan_source(plan_options& plan) {
  if (!plan.source.starts_with("auto:")) return;
  if (plan.source != "auto:any")
    throw usage_error("--plan: found '" + plan.source.substr(0, 80) + "', wanted auto, auto:any or a file");
  plan.source = "auto";
  plan.any = true;
}

void refuse_beside_plan(const command_line& line, const std::vector<std::string>& options, const std::string& why) {
  for (const auto& option : options)
    if (line.given(option)) throw usage_error(option + ": " + why);
}

// What a plan decides is not given beside it; what is given beside `auto` is what the plan must keep.
void check_beside_plan(const app_options& o, const command_line& line) {
  const auto& plan = o.plan;
  if (plan.source != "auto") {
    refuse_beside_plan(line, {"--workers"},
                       "wanted --plan auto with it; threads that load samples are --loader-threads");
    refuse_beside_plan(line, {"--cluster", "--keep-together", "--plan-cache"}, "wanted --plan auto with it");
  }
  if (line.given("--plan") && plan.source.empty()) throw usage_error("--plan: found '', wanted a file or auto");
  if (line.given("--frozen-until") && o.frozen_until.empty())
    throw usage_error("--frozen-until: found '', wanted a layer's name");
  if (plan.source.empty()) return;
  if (o.run.executor == actors::executor_kind::oracle && plan.source == "auto")
    throw usage_error("--plan auto: plans for actors; give the oracle the plan's file");
  refuse_beside_plan(line, {"--recompute"}, "the plan says which stages recompute; leave one of the two out");
  if (plan.source != "auto") {
    refuse_beside_plan(
        line, {"--frozen-until"},
        "the plan says what is frozen (penstock plan --frozen-until makes one); leave one of the two out");
    refuse_beside_plan(line,
                       {"--schedule", "--stages", "--chunks", "--replicas", "--cuts", "--microbatches", "--in-flight",
                        "--update-lag", "--window"},
                       "the plan " + plan.source + " decides it; leave one of the two out");
    return;
  }
  refuse_beside_plan(line, {"--window", "--threads"}, "not for --plan auto, which decides it");
}

void read_plan(app_options& o, const command_line& line) {
  auto& plan = o.plan;
  if (plan.source != "auto") return;
  if (line.given("--schedule") || !plan.any) plan.schedules = {o.pipeline.schedule};
  plan.fixes_chunks = line.given("--chunks");
  plan.fixes_replicas = line.given("--replicas");
  if (plan.fixes_replicas) plan.stages = static_cast<int>(o.pipeline.replicas.size());
  plan.fixes_microbatches = line.given("--microbatches");
  const bool synchronous = planner::resolve_schedule({.name = o.pipeline.schedule}).synchronous;
  if (o.run.clip_norm > 0 && !plan.schedules.empty() && !synchronous)
    throw usage_error("--clip-norm: needs a synchronous schedule, and --plan auto keeps " + o.pipeline.schedule +
                      "; wanted --schedule 1f1b with --microbatches, --clip-stage-norm, or --plan auto:any");
}

std::string config_of(const app_options& o, const command_line& line) {
  std::string text = "{\n  \"model\": \"" + o.model + "\"";
  for (const auto& s : line.settings()) {
    if (s.name != "print-config") text += ",\n  \"" + s.name + "\": " + s.json;
  }
  return text + "\n}\n";
}

// What may differ between the processes of a job: who each is.
std::vector<std::pair<std::string, std::string>> shared_settings(const command_line& line) {
  std::vector<std::pair<std::string, std::string>> shared;
  for (const auto& s : line.settings())
    if (s.name != "rank" && s.name != "net-devices" && s.name != "print-config")
      shared.emplace_back("--" + s.name, s.json);
  return shared;
}

} // namespace

void declare_job_options(command_line& line, job_options& job) {
  line.group("Several processes (`penstock launch`, torchrun, srun and mpirun say the first three)");
  line.whole("--rank", job.rank, 0, "Of this process [the launcher's]");
  line.whole("--world-size", job.processes, 1, "Processes of the job [the launcher's, else 1]");
  line.text("--master", job.master, "HOST:PORT", "Where rank 0 listens [the launcher's]");
  line.choice("--transport", job.transport, {"auto", "shm", "tcp"},
              "For tensors: auto (shared memory inside a host), shm or tcp");
  line.text("--net-devices", job.devices, "DEV,...", "For tensors between hosts [loopback, or what leads to rank 0]");
  line.flag("--ucx-poll", job.poll, "Spin for messages instead of sleeping: for a core to spare");
  line.real("--join-timeout", job.join_seconds, 0.1, 86400, "Seconds until all processes must be there");
  line.real("--peer-timeout", job.silence_seconds, 0.1, 86400, "Seconds without a word after which a process is lost");
}

namespace {

void declare_text_options(command_line& line, text_options& text) {
  line.text("--tokenizer", text.tokenizer, "FILE",
            "Makes tokens of text: vocab.txt, tokenizer.json, merges, a sentencepiece model or a list of words");
  line.whole("--max-length", text.most_tokens, 1, 1 << 20, "Tokens of a sequence at most [the data set's own]");
  line.whole("--bucket-width", text.bucket_width, 1, 1 << 20,
             "Lengths that share minibatches, padded to its multiples [5, or for at most ten buckets]");
  line.whole("--batch-tokens", text.batch_tokens, 1, 1 << 30,
             "About so many tokens a minibatch, instead of --batch sequences [off]");
}

void declare_sequence_options(command_line& line, model_options& network) {
  line.whole("--length", network.length, 1, 1 << 20, "Tokens of a sequence where data does not say [the model's]");
  line.whole("--vocabulary", network.vocabulary, 1, most_tokens_known,
             "Tokens that the model knows, and words that text: keeps [as many as the tokenizer, or the model's own]");
}

} // namespace

void declare_model_options(command_line& line, app_options& o) {
  const auto* entry = known_model(o.model);
  if (entry == nullptr || entry->takes_images)
    line.whole("--image-size", o.network.image_size, 1, largest_image, size_help(o.model));
  else
    declare_sequence_options(line, o.network);
  for (const auto& own : entry != nullptr ? entry->options : std::vector<own_option>{}) {
    if (own.placeholder.empty())
      line.flag("--" + own.name, o.own_switches[own.name], own.help);
    else
      line.text("--" + own.name, o.own_texts[own.name], own.placeholder, own.help);
  }
  if (entry != nullptr && !entry->takes_images) declare_text_options(line, o.text);
  line.whole("--classes", o.network.classes, 1, most_classes, "Classes [what the data set has]");
  line.real("--width", o.network.width, 1e-6, widest, "Scales every channel and hidden size");
  line.real("--dropout", o.network.dropout, 0, 1, "Dropout rate [the model's own]");
  line.texts("--plugin", o.plugins, "FILE", "Load a plug-in (repeatable)");
  line.texts("--replace-layer", o.replace_layers, "WHAT=LAYER[:OPTIONS]",
             "Put a plug-in's layer in place of a layer or of all of a kind (repeatable)");
}

std::optional<app_options> parse_options(std::string_view model, std::span<const std::string> arguments,
                                         std::string& help) {
  app_options o;
  o.model = model;
  o.network.classes = 0;
  take_defaults(o);
  option_texts t;
  t.lr_schedule = defaults_of(o.model).schedule;
  command_line line(o.model, "Trains " + o.model + " through stages, replicas and optimizers that are actors.");
  declare_data(line, o);
  declare_pipeline(line, o, t);
  declare_job_options(line, o.job);
  declare_on_loss(line, o.job);
  declare_training(line, o, t);
  declare_outputs(line, o, t);
  line.footer(
      "The processes of a job share a secret: PENSTOCK_SECRET, or a file named by PENSTOCK_SECRET_FILE; "
      "`penstock launch` makes one; so do a run with --control and who asks it to change its plan. Rank 0 reads what "
      "--weights, --plan, --replan and --checkpoint name, for all of them.\n"
      "Exit codes: 0 done, 1 failed, 2 usage, 130 SIGINT, 143 SIGTERM. SIGUSR1 checkpoints and goes on.\n");
  if (!line.parse(arguments)) {
    help = line.help_text();
    return std::nullopt;
  }
  o.data_given = line.given("--data");
  o.text.vocabulary = o.network.vocabulary;
  read_trigger(o, line);
  read_choices(o, t, line);
  read_plan_source(o.plan);
  check_beside_plan(o, line);
  read_pipeline(o, t);
  take_usual_clip(o, line);
  o.run.weights = t.weights;
  o.run.save_weights = t.save_weights;
  o.run.save_gradients = t.save_gradients;
  o.run.checkpoint = t.checkpoint;
  o.run.resume = t.resume == "last";
  o.resume_auto = t.resume == "auto";
  o.run.trace = t.trace;
  o.metrics = t.metrics;
  read_changes(o, t);
  check_fit(o);
  read_plan(o, line);
  o.shared = shared_settings(line);
  if (t.print_config) o.config = config_of(o, line);
  return o;
}

} // namespace penstock::apps
