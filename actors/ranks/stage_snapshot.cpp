// Gathering what stages have learnt, and spreading it.
#include "actors/ranks/stage_snapshot.hpp"

#include "actors/policy/settle_plan.hpp"
#include "actors/stage/carried_columns.hpp"
#include "kernels/check.hpp"
#include "kernels/finite.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <set>

namespace penstock::actors {

namespace {

using nlohmann::json;

const std::string weights_prefix = "weights/";
const std::string optimizer_prefix = "optimizer/";
const std::string state_prefix = "state/";
const std::string carried_prefix = "carried/";

// Finite statistics may have a sum that is not.
tensor finite_mean_of(const segment_state& state, std::span<const tensor> replicas, memory_pool& pool) {
  auto mean = mean_of(replicas, pool);
  if (std::all_of(replicas.begin(), replicas.end(), is_finite))
    require_finite(mean, "[training] the replicas' mean of " + state.name);
  return mean;
}

std::string state_name(int replica, const std::string& name) {
  return state_prefix + std::to_string(replica) + "/" + name;
}

named_tensors states_here(const stage_copy& here) {
  named_tensors states;
  for (const auto& [replica, of_one] : here.states)
    for (const auto& [name, t] : of_one)
      states[state_name(replica, name)] = t;
  return states;
}

// What this rank has of a stage: its replicas' states, and the rest where it speaks for the stage.
stage_snapshot snapshot_here(const pipeline& p, const stage_unit& s, const stage_copy& here) {
  stage_snapshot shot;
  shot.first_layer = s.layers->whole().layers()[static_cast<std::size_t>(s.layers->first())].name;
  shot.layers = s.layers->last() - s.layers->first();
  shot.replicas = s.replicas.size();
  shot.frozen_layers = s.layers->first_active() - s.layers->first();
  shot.tensors = states_here(here);
  for (const auto& [name, t] : here.carried)
    shot.tensors[carried_prefix + name] = t;
  if (p.where.owner(s.index) != p.rank) return shot;
  shot.version = here.version;
  shot.optimizer_steps = here.optimizer_steps;
  for (const auto& [name, t] : here.weights)
    shot.tensors[weights_prefix + name] = t;
  for (const auto& [name, t] : here.optimizer_state)
    shot.tensors[optimizer_prefix + name] = t;
  return shot;
}

json text_of(const stage_snapshot& shot) {
  return {{"first_layer", shot.first_layer},     {"layers", shot.layers},   {"replicas", shot.replicas},
          {"frozen_layers", shot.frozen_layers}, {"version", shot.version}, {"steps", shot.optimizer_steps}};
}

stage_snapshot snapshot_from(const json& j) {
  stage_snapshot shot;
  shot.first_layer = j.at("first_layer");
  shot.layers = j.at("layers");
  shot.replicas = j.at("replicas");
  shot.frozen_layers = j.at("frozen_layers");
  shot.version = j.at("version");
  shot.optimizer_steps = j.at("steps").get<std::map<std::string, std::int64_t>>();
  return shot;
}

// The global name in "weights/NAME", "optimizer/NAME.momentum", "state/R/NAME", "carried/FIRST/NAME", with the
// optimizer's suffix.
std::string_view layer_part(std::string_view name) {
  const auto is_state = name.starts_with(state_prefix) || name.starts_with(carried_prefix);
  name.remove_prefix(name.find('/') + 1);
  if (is_state) name.remove_prefix(name.find('/') + 1);
  return name;
}

// What a rank's stages have: parameters and states by name, and the parameters with optimizer state.
struct names_of_rank {
  std::set<std::string, std::less<>> all, trained;
};

names_of_rank names_on(const pipeline& p, int rank) {
  names_of_rank names;
  for (const auto& s : p.stages) {
    if (p.where.replicas_on(s.index, rank).empty()) continue;
    for (const auto& parameter : s.layers->parameters()) {
      names.all.insert(parameter.name);
      if (!s.layers->is_frozen(parameter.layer)) names.trained.insert(parameter.name);
    }
    for (const auto* all : {&s.layers->states(), &s.layers->carried()})
      for (const auto& state : *all)
        names.all.insert(state.name);
  }
  return names;
}

bool concerns(const names_of_rank& names, std::string_view tensor_name) {
  const auto name = layer_part(tensor_name);
  if (!tensor_name.starts_with(optimizer_prefix)) return names.all.contains(name);
  return names.trained.contains(name.substr(0, name.rfind('.')));
}

named_tensors with_prefix(const std::vector<stage_snapshot>& all, const std::string& prefix) {
  named_tensors found;
  for (const auto& shot : all)
    for (auto it = shot.tensors.lower_bound(prefix); it != shot.tensors.end() && it->first.starts_with(prefix); ++it)
      found[it->first.substr(prefix.size())] = it->second;
  return found;
}

// The pieces of every tensor that is carried, as one of all columns.
void join_all_columns(stage_snapshot& shot, const segment& layers, memory_pool& pool) {
  for (const auto& c : layers.carried()) {
    const auto all = carried_in(shot.tensors, c, pool, "[state] " + c.name);
    std::erase_if(shot.tensors,
                  [&](const auto& t) { return t.first.starts_with(carried_prefix) && layer_part(t.first) == c.name; });
    if (all) shot.tensors[carried_prefix + "0/" + c.name] = all;
  }
}

} // namespace

tensor carried_in(const named_tensors& tensors, const segment_state& carried, memory_pool& pool,
                  const std::string& what) {
  std::map<std::int64_t, tensor> pieces;
  for (auto it = tensors.lower_bound(carried_prefix); it != tensors.end() && it->first.starts_with(carried_prefix);
       ++it) {
    if (layer_part(it->first) != carried.name) continue;
    const auto number = std::string_view(it->first).substr(carried_prefix.size());
    std::int64_t first = -1;
    const auto [rest, fault] = std::from_chars(number.data(), number.data() + number.find('/'), first);
    if (fault != std::errc{} || *rest != '/' || first < 0) throw error(what + " has columns '" + it->first + "'");
    pieces[first] = it->second;
  }
  return pieces.empty() ? tensor{} : join_columns(pieces, carried.spec, pool, what);
}

std::vector<stage_snapshot> snapshots_here(const pipeline& p, std::map<int, stage_copy> here) {
  std::vector<stage_snapshot> all;
  for (const auto& s : p.stages)
    all.push_back(snapshot_here(p, s, here[s.index]));
  return all;
}

int frozen_until_of(const std::vector<stage_snapshot>& all, const model& net) {
  int frozen_until = 0;
  for (const auto& shot : all)
    if (shot.frozen_layers > 0)
      frozen_until = std::max(frozen_until, layer_index(shot.first_layer, net) + static_cast<int>(shot.frozen_layers));
  return frozen_until;
}

bundle bundle_for(int rank, const std::vector<stage_snapshot>& all, const pipeline& p) {
  const auto names = names_on(p, rank);
  bundle b;
  json stages = json::array();
  for (const auto& shot : all) {
    stages.push_back(text_of(shot));
    for (const auto& [name, t] : shot.tensors)
      if (concerns(names, name)) b.tensors[name] = t;
  }
  b.text = stages.dump();
  return b;
}

void merge_snapshots(std::vector<stage_snapshot>& into, bundle b) {
  const auto stages = json::parse(b.text);
  if (stages.size() != into.size())
    throw error("[transfer] another rank sent " + std::to_string(stages.size()) + " stages, this one has " +
                std::to_string(into.size()));
  for (std::size_t i = 0; i < into.size(); ++i) {
    auto theirs = snapshot_from(stages[i]);
    into[i].version = std::max(into[i].version, theirs.version);
    into[i].optimizer_steps.merge(theirs.optimizer_steps);
  }
  into.front().tensors.merge(b.tensors); // whose they were is of no account: names are global
}

std::vector<stage_snapshot> collect_snapshots(const pipeline& p, std::map<int, stage_copy> here,
                                              bundle_transfers* transfers, memory_pool& pool) {
  std::vector<stage_snapshot> all;
  for (const auto& s : p.stages) {
    stage_snapshot whole;
    for (const int host : p.where.hosts(s.index)) {
      stage_snapshot shot;
      if (host == p.rank) {
        shot = snapshot_here(p, s, here[s.index]);
        if (p.rank != 0) transfers->send(0, {text_of(shot).dump(), std::move(shot.tensors)});
      } else if (p.rank == 0) {
        auto b = transfers->receive(host, pool);
        shot = snapshot_from(json::parse(b.text));
        shot.tensors = std::move(b.tensors);
      }
      if (p.rank != 0) continue;
      if (host == p.where.owner(s.index))
        whole = std::move(shot); // the first host is the owner
      else
        whole.tensors.merge(shot.tensors);
    }
    if (p.rank != 0) continue;
    join_all_columns(whole, *s.layers, pool);
    all.push_back(std::move(whole));
  }
  return all;
}

std::vector<stage_snapshot> spread_snapshots(std::vector<stage_snapshot> all, const pipeline& p,
                                             bundle_transfers* transfers, memory_pool& pool) {
  if (transfers == nullptr) return all;
  if (p.rank == 0) {
    for (int rank = 1; rank < p.where.ranks; ++rank)
      transfers->send(rank, bundle_for(rank, all, p));
    return all;
  }
  auto b = transfers->receive(0, pool);
  std::vector<stage_snapshot> mine;
  for (const auto& entry : json::parse(b.text))
    mine.push_back(snapshot_from(entry));
  check(!mine.empty(), "a run has a stage");
  mine.front().tensors = std::move(b.tensors); // whose they were is of no account: names are global
  return mine;
}

named_tensors weights_of(const std::vector<stage_snapshot>& all) {
  return with_prefix(all, weights_prefix);
}

named_tensors weights_in_use(const std::vector<stage_snapshot>& all, const optimizer& rule) {
  auto weights = weights_of(all);
  const auto names = rule.state_names();
  for (const auto& shot : all)
    for (const auto& [parameter, steps] : shot.optimizer_steps) {
      optimizer_state state{.tensors = {}, .step = steps};
      for (const auto& name : names)
        state.tensors.push_back(shot.tensors.at(optimizer_prefix + parameter + "." + name));
      auto& weight = weights.at(parameter);
      weight = rule.in_use(weight, state);
    }
  return weights;
}

named_tensors optimizer_state_of(const std::vector<stage_snapshot>& all) {
  return with_prefix(all, optimizer_prefix);
}

named_tensors states_of(const std::vector<stage_snapshot>& all, std::shared_ptr<const model> net, memory_pool& pool) {
  named_tensors means;
  const int layers = static_cast<int>(net->layers().size());
  const segment whole(std::move(net), 0, layers);
  for (const auto& state : whole.states()) {
    std::vector<tensor> replicas;
    for (const auto& shot : all)
      for (std::size_t r = 0; r < shot.replicas; ++r)
        if (const auto it = shot.tensors.find(state_name(static_cast<int>(r), state.name)); it != shot.tensors.end())
          replicas.push_back(it->second);
    means[state.name] = finite_mean_of(state, replicas, pool);
  }
  return means;
}

named_tensors carried_of(const std::vector<stage_snapshot>& all, const model& net, memory_pool& pool) {
  named_tensors tensors;
  for (const auto& shot : all)
    tensors.insert(shot.tensors.begin(), shot.tensors.end());
  named_tensors carried;
  for (int l = 0; l < static_cast<int>(net.layers().size()); ++l)
    for (const auto& spec : net.carried(l))
      if (auto t = carried_in(tensors, {spec.name, l, spec}, pool, "[state] " + spec.name))
        carried[spec.name] = std::move(t);
  return carried;
}

named_tensors collect_first_gradients(const pipeline& p, std::map<int, stage_copy> here, bundle_transfers* transfers,
                                      memory_pool& pool) {
  named_tensors all;
  for (const auto& s : p.stages) {
    const int owner = p.where.owner(s.index);
    if (owner == p.rank && p.rank != 0)
      transfers->send(0, {"", here[s.index].first_gradients});
    else if (p.rank == 0)
      all.merge(owner == 0 ? std::move(here[s.index].first_gradients) : transfers->receive(owner, pool).tensors);
  }
  return all;
}

std::vector<std::vector<tensor>> shared_mean_states(const pipeline& p, const std::map<int, stage_copy>& copies,
                                                    bundle_transfers* transfers) {
  memory_pool pool;
  std::vector<std::vector<tensor>> all;
  for (const auto& s : p.stages) {
    auto& means = all.emplace_back();
    const auto hosts = p.where.hosts(s.index);
    const int owner = hosts.front();
    if (s.layers->states().empty() || !s.is_local()) continue;
    auto here = states_here(copies.at(s.index));
    if (p.rank != owner) {
      transfers->send(owner, {"", std::move(here)});
      auto b = transfers->receive(owner, pool);
      for (const auto& state : s.layers->states())
        means.push_back(b.tensors.at(state.name));
      continue;
    }
    for (const int host : hosts)
      if (host != owner) here.merge(transfers->receive(host, pool).tensors);
    bundle b;
    for (const auto& state : s.layers->states()) {
      std::vector<tensor> replicas;
      for (int r = 0; r < static_cast<int>(s.replicas.size()); ++r)
        replicas.push_back(here.at(state_name(r, state.name)));
      means.push_back(b.tensors[state.name] = finite_mean_of(state, replicas, pool));
    }
    for (const int host : hosts)
      if (host != owner) transfers->send(host, b);
  }
  return all;
}

} // namespace penstock::actors
