// Reading a checkpoint into any plan.
#include "actors/checkpoint/checkpoint.hpp"
#include "actors/checkpoint/digest.hpp"
#include "actors/checkpoint/weights_file.hpp"
#include "kernels/check.hpp"
#include "kernels/input_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace penstock::actors {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t most_pointer_bytes = 4096;
constexpr std::uint64_t most_manifest_bytes = 16'000'000; // some 90 bytes a parameter

[[noreturn]] void torn(const fs::path& where, const std::string& why) {
  throw error("[checkpoint] " + where.string() + " is torn or damaged: " + why);
}

std::string read_text(const fs::path& file, std::uint64_t most) try {
  return read_whole_file(file, most);
} catch (const error& e) {
  throw error(std::string("[checkpoint] ") + e.what());
}

// The stages' contents by what they are looked up with, whatever plan wrote them.
struct saved_contents {
  named_tensors tensors;                                 // of all stages: "weights/…", "optimizer/…", "state/R/…"
  std::map<std::string, std::int64_t> steps;             // optimizer steps by parameter
  std::map<std::string, const stage_snapshot*> stage_of; // by layer name
  int frozen_until = 0;                                  // layers of the model
};

saved_contents contents_of(const std::vector<stage_snapshot>& stages, const model& net) {
  saved_contents run;
  for (const auto& s : stages) {
    run.tensors.insert(s.tensors.begin(), s.tensors.end());
    run.steps.insert(s.optimizer_steps.begin(), s.optimizer_steps.end());
    const auto& layers = net.layers();
    auto it = std::find_if(layers.begin(), layers.end(), [&](const model_layer& l) { return l.name == s.first_layer; });
    for (auto left = s.layers; left > 0 && it != layers.end(); --left, ++it)
      run.stage_of[it->name] = &s;
  }
  run.frozen_until = frozen_until_of(stages, net);
  return run;
}

struct pointer {
  std::int64_t step = 0;
  std::string sha256; // of the manifest; empty where a person has written the folder's name alone
};

pointer read_pointer(const fs::path& dir) {
  auto text = read_text(dir / "latest", most_pointer_bytes);
  if (text.ends_with('\n')) text.pop_back();
  const auto space = text.find(' ');
  const auto step = step_of_folder(std::string_view(text).substr(0, space));
  if (!step) torn(dir / "latest", "it names no checkpoint");
  return {*step, space == std::string::npos ? "" : text.substr(space + 1)};
}

stage_snapshot read_stage(manifest_stage& entry, const fs::path& folder, memory_pool& pool) {
  const auto file = folder / entry.file;
  std::error_code failed;
  const auto size = fs::file_size(file, failed);
  if (failed) torn(file, failed.message());
  if (size != entry.bytes) torn(file, "it has another length than when it was written");
  if (sha256_of_file(file) != entry.sha256) torn(file, "its SHA-256 differs");
  stage_snapshot stage;
  stage.first_layer = std::move(entry.first_layer);
  stage.layers = entry.layers;
  stage.replicas = entry.replicas;
  stage.frozen_layers = entry.frozen_layers;
  stage.version = entry.version;
  stage.optimizer_steps = std::move(entry.optimizer_steps);
  stage.tensors = read_safetensors(file, pool).tensors;
  return stage;
}

// Every layer of the model must be in one of the stages, in whatever order its plan had them.
void check_layers(const checkpoint_manifest& m, const model& net, const fs::path& file) {
  const auto& all = net.layers();
  std::vector<char> taken(all.size());
  for (const auto& s : m.stages) {
    const auto what = "stage " + std::to_string(&s - m.stages.data());
    const auto first = std::find_if(all.begin(), all.end(), [&](const auto& l) { return l.name == s.first_layer; });
    if (first == all.end() || taken[static_cast<std::size_t>(first - all.begin())] != 0)
      torn(file, what + " begins at '" + s.first_layer.substr(0, 60) + "'");
    if (s.layers > all.end() - first)
      torn(file, what + " has " + std::to_string(s.layers) + " layers; " + std::to_string(all.end() - first) +
                     " are left of the model");
    const auto begin = taken.begin() + (first - all.begin());
    if (std::count(begin, begin + s.layers, 1) > 0) torn(file, what + " has a layer that is another's, too");
    std::fill_n(begin, s.layers, char{1});
  }
  const auto held = std::count(taken.begin(), taken.end(), 1);
  if (held != std::ssize(taken))
    torn(file, "its stages have " + std::to_string(held) + " layers; the model has " + std::to_string(taken.size()));
}

void compare(const std::string& what, const std::string& saved, const std::string& wanted, const fs::path& dir) {
  if (saved == wanted) return;
  throw usage_error("[checkpoint] " + dir.string() + " was written with " + what + " " + saved + "; this run has " +
                    wanted);
}

void require_checkpoint(const fs::path& dir) {
  if (has_checkpoint(dir)) return;
  throw usage_error("[checkpoint] " + dir.string() +
                    " has no complete checkpoint to resume from (--resume auto begins a run where there is none)");
}

saved_run read_run(const pointer& latest, const checkpoint_position& wanted, const model& net, const fs::path& dir,
                   memory_pool& pool) {
  const auto folder = dir / checkpoint_folder_name(latest.step);
  const auto file = folder / "manifest.json";
  auto manifest = manifest_from_text(read_text(file, most_manifest_bytes), file.string(), latest.step);
  if (!latest.sha256.empty() && latest.sha256 != manifest.sha256)
    torn(dir / "latest", "it holds another SHA-256 than " + file.string());
  saved_run run;
  run.at = std::move(manifest.at);
  const auto last = [](bool drops) { return std::string(drops ? "drop" : "keep"); };
  compare("last batch", last(run.at.drops_last_batch), last(wanted.drops_last_batch), dir);
  compare("model", run.at.model, wanted.model, dir);
  compare("optimizer", run.at.optimizer, wanted.optimizer, dir);
  compare("batch", std::to_string(run.at.batch), std::to_string(wanted.batch), dir);
  compare("training samples", std::to_string(run.at.samples), std::to_string(wanted.samples), dir);
  compare("seed", std::to_string(run.at.seed), std::to_string(wanted.seed), dir);
  check_layers(manifest, net, file);
  for (auto& entry : manifest.stages)
    run.stages.push_back(read_stage(entry, folder, pool));
  return run;
}

const tensor& find(const saved_contents& run, const std::string& key, const tensor* like, const fs::path& dir) {
  const auto it = run.tensors.find(key);
  if (it == run.tensors.end()) torn(dir, "'" + key + "' is missing");
  if (like != nullptr && (it->second.type() != like->type() || it->second.dims() != like->dims()))
    torn(dir, "'" + key + "' has another shape than the model");
  return it->second;
}

void load_optimizer_state(pipeline& p, stage_unit& s, const saved_contents& run, const fs::path& dir) {
  const auto names = p.rule->state_names();
  s.update_stream().run([&](backend& ops) {
    for (auto i = s.layers->frozen_parameters(); i < s.owned.optimizer_states.size(); ++i) {
      const auto& parameter = s.layers->parameters()[i].name;
      auto& state = s.owned.optimizer_states[i];
      if (s.layers->parameters()[i].layer < run.frozen_until) continue; // it begins anew
      const auto step = run.steps.find(parameter);
      if (step == run.steps.end()) torn(dir, "the step count of '" + parameter + "' is missing");
      state.step = step->second;
      for (std::size_t n = 0; n < names.size(); ++n) {
        const auto& saved = find(run, "optimizer/" + parameter + "." + names[n], &state.tensors[n], dir);
        state.tensors[n] = placed(ops, saved, s.formats[i], memory_use::optimizer_state);
      }
    }
  });
}

// Each replica gets back its own statistics when the layer's stage had as many; else all get the mean, and those of a
// layer that is frozen now.
void load_states(stage_unit& s, const saved_contents& run, const fs::path& dir) {
  memory_pool pool;
  for (std::size_t i = 0; i < s.layers->states().size(); ++i) {
    const auto& st = s.layers->states()[i];
    const auto& layer = s.layers->whole().layers()[static_cast<std::size_t>(st.layer)].name;
    const auto owner = run.stage_of.find(layer);
    if (owner == run.stage_of.end()) torn(dir, "layer '" + layer + "' belongs to no stage");
    std::vector<tensor> saved;
    for (std::size_t r = 0; r < owner->second->replicas; ++r)
      saved.push_back(find(run, "state/" + std::to_string(r) + "/" + st.name, &s.first_local().states[i], dir));
    const bool same = saved.size() == s.replicas.size() && st.layer >= s.layers->first_active();
    const auto mean = same ? tensor{} : mean_of(saved, pool);
    for (const int replica : s.local) {
      const auto r = static_cast<std::size_t>(replica);
      copy_plain(same ? saved[r] : mean, s.replicas[r].states[i]);
    }
  }
}

// All columns to each replica: which of them are its own, the stretch says.
void load_carried(stage_unit& s, const saved_contents& run, std::int64_t columns, const fs::path& dir) {
  memory_pool pool;
  std::vector<tensor> all;
  for (const auto& c : s.layers->carried()) {
    auto t = carried_in(run.tensors, c, pool, "[checkpoint] " + dir.string() + " is torn or damaged: '" + c.name + "'");
    if (!t) continue;
    if (t.dim(0) != columns)
      throw error("[checkpoint] " + dir.string() + ": '" + c.name + "' is of " + std::to_string(t.dim(0)) +
                  " batch columns, this run has " + std::to_string(columns));
    all.push_back(std::move(t));
  }
  if (!all.empty() && all.size() != s.layers->carried().size())
    torn(dir, "some of what '" + s.layers->carried().front().name + "' and others hand on is missing");
  for (const int replica : s.local)
    s.replicas[static_cast<std::size_t>(replica)].carried = all;
}

} // namespace

std::string refusal_of_used(const fs::path& dir) {
  return "checkpoint folder " + dir.string() +
         " holds another run's checkpoint; go on from it with --resume (or --resume auto), or name another folder";
}

bool has_checkpoint(const fs::path& dir) {
  std::error_code reason;
  const auto kind = fs::symlink_status(dir / "latest", reason).type();
  if (kind == fs::file_type::not_found || reason == std::errc::not_a_directory) return false;
  if (kind == fs::file_type::none) throw error("[checkpoint] cannot read " + dir.string() + ": " + reason.message());
  return true;
}

int column_blocks_of_checkpoint(const fs::path& dir) {
  require_checkpoint(dir);
  const auto latest = read_pointer(dir);
  const auto file = dir / checkpoint_folder_name(latest.step) / "manifest.json";
  const auto manifest = manifest_from_text(read_text(file, most_manifest_bytes), file.string(), latest.step);
  const auto found = manifest.at.options.find(column_blocks_record);
  if (found == manifest.at.options.end()) return 1;
  int blocks = 0;
  const auto* end = found->second.data() + found->second.size();
  const auto [rest, fault] = std::from_chars(found->second.data(), end, blocks);
  if (fault != std::errc{} || rest != end || blocks < 1) torn(file, "its column blocks are no number");
  return blocks;
}

std::int64_t step_of_checkpoint(const fs::path& dir) {
  require_checkpoint(dir);
  return read_pointer(dir).step;
}

saved_run read_checkpoint(const checkpoint_position& wanted, const model& net, const fs::path& dir, memory_pool& pool) {
  require_checkpoint(dir);
  for (auto latest = read_pointer(dir);;) {
    try {
      return read_run(latest, wanted, net, dir, pool);
    } catch (const error&) { // a run that goes on may have written two more, and removed this one
      const auto now = read_pointer(dir);
      if (now.step <= latest.step) throw;
      latest = now;
    }
  }
}

void load_snapshots(pipeline& p, const std::vector<stage_snapshot>& saved, const fs::path& dir) {
  const auto run = contents_of(saved, *p.net);
  for (auto& s : p.stages) {
    if (!s.is_local()) continue;
    named_tensors weights;
    for (std::size_t i = 0; i < s.layers->parameters().size(); ++i) {
      const auto& name = s.layers->parameters()[i].name;
      weights[name] = find(run, "weights/" + name, &s.owned.newest->tensors[i], dir);
    }
    load_weights(s, weights);
    load_optimizer_state(p, s, run, dir);
    load_states(s, run, dir);
    load_carried(s, run, p.columns, dir);
    // A stage that now joins layers of several takes the largest count, so that versions only grow.
    for (int l = s.layers->first(); l < s.layers->last(); ++l) {
      const auto owner = run.stage_of.find(p.net->layers()[static_cast<std::size_t>(l)].name);
      if (owner != run.stage_of.end())
        s.owned.newest->version = std::max(s.owned.newest->version, owner->second->version);
    }
  }
}

} // namespace penstock::actors
