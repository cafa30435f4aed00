// One table, from their names to ours.
#include "apps/runner/peer_options.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace penstock::apps {

namespace {

constexpr std::string_view whole_batch = "samples of a minibatch, all its micro-batches together";
constexpr std::string_view device_batch =
    "samples of a minibatch: of one replica in the pipedream family, of all in the others";
constexpr std::string_view processes = "processes are started by `penstock launch -np N -- PROGRAM`";
constexpr std::string_view only_cpu = "it computes on the CPU";
constexpr std::string_view only_f32 = "it computes in f32";
constexpr std::string_view model_first = "the model is the app: `vgg16 ...` or `penstock train vgg16 ...`";
constexpr std::string_view in_minibatches = "in minibatches";
constexpr std::string_view in_epochs = "in epochs";
constexpr std::string_view in_schedule = "as in --lr-schedule cosine,warmup=500";
constexpr std::string_view by_itself = "progress is shown by itself; --metrics FILE keeps every step";
constexpr std::string_view never_overwrites = "files are replaced; a checkpoint's folder needs --resume";

constexpr std::array all{
    peer_option{"a", "", model_first},
    peer_option{"accumulate-grad-batches", "--microbatches", "parts of --batch, not a multiple of it"},
    peer_option{"amp", "", only_f32},
    peer_option{"arch", "", model_first},
    peer_option{"b", "--batch", whole_batch},
    peer_option{"batch-size", "--batch", whole_batch},
    peer_option{"bf16", "", only_f32},
    peer_option{"bs", "--batch", whole_batch},
    peer_option{"checkpoint-activations", "--recompute", "none, all or stages"},
    peer_option{"checkpoint-dir", "--checkpoint", ""},
    peer_option{"checkpoint-interval", "--checkpoint-every", in_minibatches},
    peer_option{"chunks", "--microbatches", "parts of a minibatch"},
    peer_option{"ckpt-dir", "--checkpoint", ""},
    peer_option{"clip-grad", "--clip-norm", "the global norm"},
    peer_option{"clip-grad-norm", "--clip-norm", ""},
    peer_option{"cpu", "", only_cpu},
    peer_option{"cuda", "", only_cpu},
    peer_option{"data-dir", "--data", "KIND:DIR, as in fashion-mnist:DIR"},
    peer_option{"data-path", "--data", "KIND:DIR, as in fashion-mnist:DIR"},
    peer_option{"data-set", "--data", "KIND:DIR, as in fashion-mnist:DIR"},
    peer_option{"dataloader-num-workers", "--loader-threads", "threads, not processes"},
    peer_option{"dataset", "--data", "KIND:DIR, as in fashion-mnist:DIR"},
    peer_option{"deepspeed-config", "", "options are given one by one; --print-config shows them"},
    peer_option{"dist-backend", "--transport", "auto, shm or tcp"},
    peer_option{"dist-url", "--master", "HOST:PORT"},
    peer_option{"do-eval", "--eval-only", ""},
    peer_option{"drop", "--dropout", ""},
    peer_option{"drop-rate", "--dropout", ""},
    peer_option{"dummy", "--data", "synthetic, which is what it takes unless told"},
    peer_option{"e", "--eval-only", ""},
    peer_option{"eval", "--eval-only", ""},
    peer_option{"eval-batch-size", "--eval-batch", ""},
    peer_option{"eval-interval", "--eval-every", in_epochs},
    peer_option{"eval-steps", "--eval-every", in_epochs},
    peer_option{"evaluate", "--eval-only", ""},
    peer_option{"fp16", "", only_f32},
    peer_option{"global-batch-size", "--batch", ""},
    peer_option{"gpu", "", only_cpu},
    peer_option{"gpus", "", only_cpu},
    peer_option{"grad-clip", "--clip-norm", "the global norm"},
    peer_option{"gradient-accumulation-steps", "--microbatches", "parts of --batch, not a multiple of it"},
    peer_option{"gradient-checkpointing", "--recompute", "none, all or stages"},
    peer_option{"h", "--hosts", "host[:slots],..."},
    peer_option{"host", "--hosts", "host[:slots],..."},
    peer_option{"hostfile", "--hosts", "host[:slots],..., not a file"},
    peer_option{"image-height", "--image-size", "images are square"},
    peer_option{"img-size", "--image-size", ""},
    peer_option{"imgsz", "--image-size", ""},
    peer_option{"initial-checkpoint", "--weights", "safetensors"},
    peer_option{"input-size", "--image-size", ""},
    peer_option{"j", "--loader-threads", "threads, not processes"},
    peer_option{"label-smoothing-factor", "--label-smoothing", ""},
    peer_option{"learning-rate", "--lr", ""},
    peer_option{"load", "--weights", "safetensors; a run goes on by --resume"},
    peer_option{"local-rank", "--rank", "of the whole job"},
    peer_option{"log-dir", "--metrics", "one file, of JSON lines"},
    peer_option{"log-file", "--metrics", "one file, of JSON lines"},
    peer_option{"log-interval", "", by_itself},
    peer_option{"logging-dir", "--metrics", "one file, of JSON lines"},
    peer_option{"logging-steps", "", by_itself},
    peer_option{"lr-decay-style", "--lr-schedule", ""},
    peer_option{"lr-policy", "--lr-schedule", ""},
    peer_option{"lr-scheduler", "--lr-schedule", ""},
    peer_option{"lr-scheduler-type", "--lr-schedule", ""},
    peer_option{"lr-warmup-iters", "--lr-schedule", in_schedule},
    peer_option{"master-addr", "--master", "HOST:PORT"},
    peer_option{"master-port", "--master", "HOST:PORT"},
    peer_option{"master-port", "--port", ""},
    peer_option{"max-epochs", "--epochs", ""},
    peer_option{"max-grad-norm", "--clip-norm", ""},
    peer_option{"max-iters", "--steps", ""},
    peer_option{"max-restarts", "--restart", ""},
    peer_option{"max-steps", "--steps", ""},
    peer_option{"micro-batch-size", "--microbatches", "their number, not their size"},
    peer_option{"micro-batches", "--microbatches", ""},
    peer_option{"min-lr", "--lr-schedule", "as in cosine,final=0.01, which is a fraction of --lr"},
    peer_option{"mixed-precision", "", only_f32},
    peer_option{"model", "", model_first},
    peer_option{"model-name-or-path", "", model_first},
    peer_option{"n-gpus", "", only_cpu},
    peer_option{"nnodes", "--hosts", "host[:slots],..."},
    peer_option{"nnodes", "", "hosts are named: `penstock launch --hosts a:2,b:2 -- PROGRAM`"},
    peer_option{"no-cuda", "", only_cpu},
    peer_option{"node-rank", "--rank", "of the process, not of its host"},
    peer_option{"np", "", processes},
    peer_option{"nproc", "--np", "of the whole job"},
    peer_option{"nproc", "", processes},
    peer_option{"nproc-per-node", "--np", "of the whole job, or host:slots in --hosts"},
    peer_option{"nproc-per-node", "", processes},
    peer_option{"num-classes", "--classes", ""},
    peer_option{"num-epochs", "--epochs", ""},
    peer_option{"num-gpus", "", only_cpu},
    peer_option{"num-microbatches", "--microbatches", ""},
    peer_option{"num-nodes", "--hosts", "host[:slots],..."},
    peer_option{"num-nodes", "", "hosts are named: `penstock launch --hosts a:2,b:2 -- PROGRAM`"},
    peer_option{"num-processes", "--np", ""},
    peer_option{"num-processes", "", processes},
    peer_option{"num-stages", "--stages", ""},
    peer_option{"num-steps", "--steps", ""},
    peer_option{"num-threads", "--threads", "of each worker"},
    peer_option{"num-train-epochs", "--epochs", ""},
    peer_option{"num-workers", "--loader-threads", "threads, not processes"},
    peer_option{"opt", "--optimizer", ""},
    peer_option{"optim", "--optimizer", ""},
    peer_option{"out", "--output", ""},
    peer_option{"out-dir", "--checkpoint", "and --save-weights FILE for the weights alone"},
    peer_option{"output-dir", "--checkpoint", "and --save-weights FILE for the weights alone"},
    peer_option{"overwrite-output-dir", "", never_overwrites},
    peer_option{"per-device-eval-batch-size", "--eval-batch", ""},
    peer_option{"per-device-train-batch-size", "--batch", device_batch},
    peer_option{"pipe-parallel-size", "--stages", ""},
    peer_option{"pipeline-model-parallel-size", "--stages", ""},
    peer_option{"pipeline-parallel-size", "--stages", ""},
    peer_option{"pp", "--stages", ""},
    peer_option{"pp-size", "--stages", ""},
    peer_option{"precision", "", only_f32},
    peer_option{"pretrained", "--weights", "FILE of safetensors with torchvision's names"},
    peer_option{"print-freq", "", by_itself},
    peer_option{"profile", "--trace", "FILE; `penstock trace summary FILE` reads it"},
    peer_option{"random-seed", "--seed", ""},
    peer_option{"rdzv-endpoint", "--master", "HOST:PORT"},
    peer_option{"recompute-activations", "--recompute", "none, all or stages"},
    peer_option{"recompute-granularity", "--recompute", "none, all or stages"},
    peer_option{"resume-from", "--resume", "of the folder that --checkpoint names"},
    peer_option{"resume-from-checkpoint", "--resume", "of the folder that --checkpoint names"},
    peer_option{"save", "--checkpoint", "and --save-weights FILE for the weights alone"},
    peer_option{"save-dir", "--checkpoint", "and --save-weights FILE for the weights alone"},
    peer_option{"save-interval", "--checkpoint-every", in_minibatches},
    peer_option{"save-model", "--save-weights", "FILE"},
    peer_option{"save-steps", "--checkpoint-every", in_minibatches},
    peer_option{"sched", "--lr-schedule", ""},
    peer_option{"scheduler", "--lr-schedule", ""},
    peer_option{"smoothing", "--label-smoothing", ""},
    peer_option{"start-epoch", "--resume", "which knows where it was"},
    peer_option{"tensor-model-parallel-size", "",
                "a layer is not split; --stages and --replicas split the model and the data"},
    peer_option{"tensorboard-dir", "--metrics", "one file, of JSON lines"},
    peer_option{"test-batch-size", "--eval-batch", ""},
    peer_option{"train-batch-size", "--batch", whole_batch},
    peer_option{"train-iters", "--steps", ""},
    peer_option{"train-micro-batch-size-per-gpu", "--microbatches", "their number, not their size"},
    peer_option{"use-cpu", "", only_cpu},
    peer_option{"v", "", by_itself},
    peer_option{"val-batch-size", "--eval-batch", ""},
    peer_option{"validation-batch-size", "--eval-batch", ""},
    peer_option{"verbose", "", by_itself},
    peer_option{"warmup-epochs", "--lr-schedule", "as in cosine,warmup=500, which counts minibatches"},
    peer_option{"warmup-iters", "--lr-schedule", in_schedule},
    peer_option{"warmup-steps", "--lr-schedule", in_schedule},
    peer_option{"wd", "--weight-decay", ""},
    peer_option{"world", "--world-size", ""},
};

std::string plain(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string word(name);
  for (auto& c : word)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

} // namespace

std::span<const peer_option> peer_options() {
  return all;
}

std::string peers_option(std::string_view name, std::span<const std::string> options) {
  const auto word = plain(name);
  for (const auto& entry : all) {
    if (entry.name != word || entry.here.empty()) continue;
    if (std::find(options.begin(), options.end(), entry.here) == options.end()) continue;
    return " (here it is '" + std::string(entry.here) + "'" + (entry.words.empty() ? "" : ": ") +
           std::string(entry.words) + ")";
  }
  return "";
}

std::string peers_word(std::string_view name, std::span<const std::string> options) {
  if (auto text = peers_option(name, options); !text.empty()) return text;
  const auto word = plain(name);
  for (const auto& entry : all)
    if (entry.name == word && entry.here.empty()) return " (there is none: " + std::string(entry.words) + ")";
  return "";
}

} // namespace penstock::apps
