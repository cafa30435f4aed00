// Reading a checkpoint into any plan.
#include "actors/checkpoint.hpp"
#include "actors/digest.hpp"
#include "actors/weights_file.hpp"
#include "kernels/check.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace penstock::actors {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int format_version = 1;

[[noreturn]] void torn(const fs::path& where, const std::string& why) {
  throw error("[checkpoint] " + where.string() + " is torn or damaged: " + why);
}

std::string read_text(const fs::path& file) {
  std::error_code none;
  std::ifstream in(file, std::ios::binary);
  if (!in || !fs::is_regular_file(file, none)) throw error("[checkpoint] cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

// The stages' contents by what they are looked up with, whatever plan wrote them.
struct saved_contents {
  named_tensors tensors;                                 // of all stages: "weights/…", "optimizer/…", "state/R/…"
  std::map<std::string, std::int64_t> steps;             // optimizer steps by parameter
  std::map<std::string, const stage_snapshot*> stage_of; // by layer name
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
  return run;
}

fs::path latest_folder(const fs::path& dir) {
  auto name = read_text(dir / "latest");
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r'))
    name.pop_back();
  if (!name.starts_with("step-") || name.find('/') != std::string::npos) torn(dir / "latest", "it names no checkpoint");
  return dir / name;
}

stage_snapshot read_stage(const json& entry, const fs::path& folder, memory_pool& pool) {
  const auto name = entry.at("file").get<std::string>();
  if (name.find('/') != std::string::npos) torn(folder / "manifest.json", "a stage file has a path");
  const auto file = folder / name;
  std::error_code failed;
  const auto size = fs::file_size(file, failed);
  if (failed) torn(file, failed.message());
  if (size != entry.at("bytes").get<std::uintmax_t>()) torn(file, "it has another length than when it was written");
  if (sha256_of_file(file) != entry.at("sha256").get<std::string>()) torn(file, "its SHA-256 differs");
  stage_snapshot stage;
  stage.first_layer = entry.at("first_layer").get<std::string>();
  stage.layers = entry.at("layers").get<std::int64_t>();
  stage.replicas = entry.at("replicas").get<std::size_t>();
  stage.version = entry.at("version").get<std::int64_t>();
  stage.optimizer_steps = entry.at("optimizer_steps").get<std::map<std::string, std::int64_t>>();
  stage.tensors = read_safetensors(file, pool).tensors;
  return stage;
}

void compare(const std::string& what, const std::string& saved, const std::string& wanted, const fs::path& dir) {
  if (saved == wanted) return;
  throw usage_error("[checkpoint] " + dir.string() + " was written with " + what + " " + saved + "; this run has " +
                    wanted);
}

saved_run read_run(const checkpoint_position& wanted, const fs::path& dir, memory_pool& pool) {
  const auto folder = latest_folder(dir);
  saved_run run;
  try {
    const auto m = json::parse(read_text(folder / "manifest.json"));
    if (m.at("format").get<int>() != format_version)
      throw usage_error("[checkpoint] " + folder.string() + " has format " + m.at("format").dump() +
                        "; this program reads " + std::to_string(format_version));
    run.at = {m.at("model"), m.at("optimizer"), m.at("schedule"), m.at("step"),
              m.at("batch"), m.at("samples"),   m.at("seed"),     m.at("drains").get<std::vector<std::int64_t>>()};
    run.at.drops_last_batch = m.value("last_batch", "keep") == "drop"; // not said before there was a choice
    const auto last = [](bool drops) { return std::string(drops ? "drop" : "keep"); };
    compare("last batch", last(run.at.drops_last_batch), last(wanted.drops_last_batch), dir);
    compare("model", run.at.model, wanted.model, dir);
    compare("optimizer", run.at.optimizer, wanted.optimizer, dir);
    compare("batch", std::to_string(run.at.batch), std::to_string(wanted.batch), dir);
    compare("training samples", std::to_string(run.at.samples), std::to_string(wanted.samples), dir);
    compare("seed", std::to_string(run.at.seed), std::to_string(wanted.seed), dir);
    for (const auto& entry : m.at("stages"))
      run.stages.push_back(read_stage(entry, folder, pool));
    if (run.stages.empty()) torn(folder / "manifest.json", "it has no stage");
  } catch (const json::exception& e) {
    torn(folder / "manifest.json", "it is not the JSON that was written");
  }
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
  const auto names = p.step->state_names();
  s.update_stream().run([&](backend& ops) {
    for (std::size_t i = 0; i < s.optimizer_states.size(); ++i) {
      const auto& parameter = s.layers->parameters()[i].name;
      auto& state = s.optimizer_states[i];
      const auto step = run.steps.find(parameter);
      if (step == run.steps.end()) torn(dir, "the step count of '" + parameter + "' is missing");
      state.step = step->second;
      for (std::size_t n = 0; n < names.size(); ++n) {
        const auto& saved = find(run, "optimizer/" + parameter + "." + names[n], &state.tensors[n], dir);
        auto plain = ops.allocate(dtype::f32, saved.dims(), memory_use::scratch);
        copy_plain(saved, plain);
        state.tensors[n] = ops.reorder(plain, s.formats[i], memory_use::optimizer_state);
      }
    }
  });
}

// Each replica gets back its own statistics when the layer's stage had as many; else all get the mean.
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
    const bool same = saved.size() == s.replicas.size();
    const auto mean = same ? tensor{} : mean_of(saved, pool);
    for (const int replica : s.local) {
      const auto r = static_cast<std::size_t>(replica);
      copy_plain(same ? saved[r] : mean, s.replicas[r].states[i]);
    }
  }
}

} // namespace

std::string refusal_of_used(const fs::path& dir) {
  return "checkpoint folder " + dir.string() + " holds another run's checkpoint; resume it, or name another folder";
}

bool has_checkpoint(const fs::path& dir) {
  std::error_code ignored;
  return fs::exists(dir / "latest", ignored);
}

saved_run read_checkpoint(const checkpoint_position& wanted, const fs::path& dir, memory_pool& pool) {
  if (!has_checkpoint(dir))
    throw usage_error("[checkpoint] " + dir.string() + " has no complete checkpoint to resume from");
  return read_run(wanted, dir, pool);
}

void load_snapshots(pipeline& p, const std::vector<stage_snapshot>& saved, const fs::path& dir) {
  const auto run = contents_of(saved, *p.net);
  for (auto& s : p.stages) {
    if (!s.is_local()) continue;
    named_tensors weights;
    for (std::size_t i = 0; i < s.layers->parameters().size(); ++i) {
      const auto& name = s.layers->parameters()[i].name;
      weights[name] = find(run, "weights/" + name, &s.weights->tensors[i], dir);
    }
    load_weights(s, weights);
    load_optimizer_state(p, s, run, dir);
    load_states(s, run, dir);
    // A stage that now joins layers of several takes the largest count, so that versions only grow.
    for (int l = s.layers->first(); l < s.layers->last(); ++l) {
      const auto owner = run.stage_of.find(p.net->layers()[static_cast<std::size_t>(l)].name);
      if (owner != run.stage_of.end()) s.weights->version = std::max(s.weights->version, owner->second->version);
    }
  }
}

} // namespace penstock::actors
