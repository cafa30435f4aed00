// Matching a weights file with a pipeline, and writing one.
#include "actors/checkpoint/weights_file.hpp"

#include "kernels/check.hpp"
#include "kernels/finite.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace penstock::actors {

namespace {

struct mismatches {
  std::size_t wanted = 0; ///< parameters and states that a file should have
  std::size_t loaded = 0; ///< of those
  std::size_t parameters_loaded = 0;
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> misshaped;
  bool any() const { return !missing.empty() || !unexpected.empty() || !misshaped.empty(); }
};

std::string list(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  constexpr std::size_t shown = 4; // an error line has room for three such lists
  const auto count = std::min(shown, names.size());
  auto text =
      std::string(title) + " (" + std::to_string(names.size()) + "): " + join(std::span(names).first(count), ", ");
  if (names.size() > shown) text += ", ...";
  return text + "; ";
}

std::string text_of(const mismatches& m) {
  auto text =
      list("missing", m.missing) + list("unexpected", m.unexpected) + list("of another shape or type", m.misshaped);
  text.resize(text.size() - 2);
  return text;
}

tensor as_f32(const tensor& t, memory_pool& pool) {
  if (t.type() != dtype::bf16) return t;
  auto f = tensor::allocate(pool, dtype::f32, t.dims(), memory_use::scratch);
  for (std::int64_t i = 0; i < t.elements(); ++i)
    f.data<float>()[i] = float_from_bf16(t.data<std::uint16_t>()[i]);
  return f;
}

// Takes what fits out of the file's tensors, by the model's names, and looks it through.
class matcher {
public:
  matcher(const std::filesystem::path& file, safetensors_contents& contents, const std::set<std::string>& drawn,
          memory_pool& pool)
      : file_(file), contents_(contents), drawn_(drawn), pool_(pool) {
    for (const auto& [name, t] : contents.tensors)
      left_.insert(name);
  }
  /// "none" when it is missing or does not fit.
  tensor parameter(const segment_parameter& p) {
    auto t = take(p.name, dtype::f32, p.spec.dims, drawn_.contains(p.name));
    require_finite(t, where(p.name));
    if (t) ++found_.parameters_loaded;
    return t;
  }
  tensor state(const segment_state& s) {
    auto t = take(s.name, s.spec.type, s.spec.dims, s.spec.type == dtype::i64);
    require_state(t, s.spec, where(s.name));
    return t;
  }
  mismatches finish() {
    found_.unexpected.assign(left_.begin(), left_.end());
    std::sort(found_.missing.begin(), found_.missing.end());
    std::sort(found_.misshaped.begin(), found_.misshaped.end());
    return std::move(found_);
  }

private:
  std::string where(const std::string& name) const { return "[weights] " + file_.string() + ": tensor " + name; }
  tensor take(const std::string& name, dtype type, const shape& dims, bool optional) {
    const auto it = contents_.tensors.find(name);
    if (it == contents_.tensors.end()) {
      if (optional) return {};
      ++found_.wanted;
      found_.missing.push_back(name);
      return {};
    }
    ++found_.wanted;
    left_.erase(name);
    auto t = as_f32(it->second, pool_);
    if (t.type() == type && t.dims() == dims) {
      ++found_.loaded;
      return t;
    }
    const auto converted = contents_.converted.find(name);
    const auto stored =
        converted != contents_.converted.end() ? converted->second : std::string(name_of(it->second.type()));
    found_.misshaped.push_back(name + " is " + stored + " " + to_string(t.dims()) + ", wanted " +
                               std::string(name_of(type)) + " " + to_string(dims));
    return {};
  }

  const std::filesystem::path& file_;
  safetensors_contents& contents_;
  const std::set<std::string>& drawn_;
  memory_pool& pool_;
  std::set<std::string> left_;
  mismatches found_;
};

void strip_prefix(safetensors_contents& contents, const std::string& prefix, const std::filesystem::path& file) {
  if (prefix.empty()) return;
  named_tensors stripped;
  std::map<std::string, std::string> converted;
  for (auto& [name, t] : contents.tensors) {
    const bool has = name.size() > prefix.size() && name.starts_with(prefix);
    const auto short_name = has ? name.substr(prefix.size()) : name;
    if (!stripped.emplace(short_name, std::move(t)).second)
      throw usage_error("[weights] " + file.string() + ": without the prefix '" + prefix + "' two tensors are named '" +
                        short_name + "'");
    if (const auto it = contents.converted.find(name); it != contents.converted.end())
      converted[short_name] = it->second;
  }
  contents.tensors = std::move(stripped);
  contents.converted = std::move(converted);
}

// What stands before the model's names in most of the file's: wrappers such as DistributedDataParallel add it.
std::string prefix_hint(const std::vector<std::string>& missing, const std::vector<std::string>& unexpected) {
  const std::set<std::string> wanted(missing.begin(), missing.end());
  std::map<std::string, std::size_t> votes;
  for (const auto& name : unexpected)
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (wanted.contains(name.substr(dot + 1))) ++votes[name.substr(0, dot + 1)];
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == votes.end()) return "";
  const auto& [prefix, count] = *most;
  const bool every = std::all_of(unexpected.begin(), unexpected.end(),
                                 [&p = prefix](const std::string& name) { return name.starts_with(p); });
  return (every ? "every unexpected name begins with '" : std::to_string(count) + " would fit without '") + prefix +
         "' (--weights-prefix " + prefix + " takes it off)";
}

} // namespace

void copy_plain(const tensor& from, tensor& to) {
  check(from.type() == to.type() && from.dims() == to.dims() && from.is_plain() && to.is_plain(),
        "copy between unlike tensors");
  std::memcpy(to.raw(), from.raw(), from.bytes());
}

weights_contents read_weights(std::shared_ptr<const model> net, const weights_source& from, memory_pool& pool) {
  const auto& file = from.file;
  auto contents = read_safetensors(file, pool);
  strip_prefix(contents, from.prefix, file);
  adapted_weights adapted;
  if (from.adapt) adapted = from.adapt(*net, contents);
  take_aliases(*net, contents);
  matcher match(file, contents, adapted.drawn, pool);
  const int layers = static_cast<int>(net->layers().size());
  const segment whole(net, 0, layers);
  weights_contents result;
  result.whole.first_layer = net->layers().front().name;
  result.whole.layers = layers;
  for (const auto& parameter : whole.parameters())
    if (auto t = match.parameter(parameter)) result.whole.tensors["weights/" + parameter.name] = std::move(t);
  for (const auto& state : whole.states())
    if (auto t = match.state(state)) result.whole.tensors["state/0/" + state.name] = std::move(t);
  const auto found = match.finish();
  const auto in_file = "[weights] " + file.string();
  if (!adapted.note.empty()) result.note = in_file + ": " + adapted.note;
  if (!found.any()) return result;
  const auto hint = prefix_hint(found.missing, found.unexpected);
  const auto mismatch = (hint.empty() ? "" : hint + "; ") + text_of(found);
  if (!from.allow_partial)
    throw usage_error(in_file + " does not fit " + net->name() + ": " + mismatch +
                      (hint.empty() ? " (--allow-partial loads what fits)" : ""));
  if (found.parameters_loaded == 0)
    throw usage_error(in_file + ": no parameter of " + net->name() +
                      " is in it, so --allow-partial has nothing to load: " + mismatch);
  result.note = in_file + ": loaded " + std::to_string(found.loaded) + " of " + std::to_string(found.wanted) +
                " tensors of " + net->name() + "; " + mismatch + (adapted.note.empty() ? "" : "; " + adapted.note);
  return result;
}

void load_partial(pipeline& p, const std::vector<stage_snapshot>& given) {
  const auto& found = given.front().tensors; // the model is one stage there
  for (auto& s : p.stages) {
    if (!s.is_local()) continue;
    memory_pool pool;
    named_tensors weights;
    s.update_stream().run([&](backend& ops) { weights = plain_weights(ops, *s.layers, s.owned, pool); });
    for (auto& [name, t] : weights)
      if (const auto it = found.find("weights/" + name); it != found.end()) t = it->second;
    load_weights(s, weights);
    for (std::size_t i = 0; i < s.layers->states().size(); ++i) {
      const auto it = found.find("state/0/" + s.layers->states()[i].name);
      if (it == found.end()) continue;
      for (const int r : s.local)
        copy_plain(it->second, s.replicas[static_cast<std::size_t>(r)].states[i]);
    }
  }
}

void save_weights(const std::vector<stage_snapshot>& all, std::shared_ptr<const model> net, const optimizer& rule,
                  const std::filesystem::path& file) {
  memory_pool pool;
  auto tensors = weights_in_use(all, rule);
  for (const auto& [alias, name] : net->aliases())
    tensors.emplace(alias, tensors.at(name));
  tensors.merge(states_of(all, std::move(net), pool));
  write_safetensors(file, tensors, {{"format", "pt"}});
}

} // namespace penstock::actors
