// Matching a weights file with a pipeline, and writing one.
#include "actors/weights_file.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace penstock::actors {

namespace {

struct mismatches {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> misshaped;
  bool any() const { return !missing.empty() || !unexpected.empty() || !misshaped.empty(); }
};

std::string list(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  constexpr std::size_t shown = 8;
  const auto count = std::min(shown, names.size());
  auto text =
      std::string(title) + " (" + std::to_string(names.size()) + "): " + join(std::span(names).first(count), ", ");
  if (names.size() > shown) text += ", ...";
  return text + "; ";
}

std::string text_of(const mismatches& m, const std::filesystem::path& file, const std::string& net) {
  auto text = "[weights] " + file.string() + " does not fit " + net + ": " + list("missing", m.missing) +
              list("unexpected", m.unexpected) + list("of another shape or type", m.misshaped);
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

// Takes what fits out of the file's tensors, by the model's names.
class matcher {
public:
  matcher(safetensors_contents& contents, memory_pool& pool) : contents_(contents), pool_(pool) {
    for (const auto& [name, t] : contents.tensors)
      left_.insert(name);
  }
  /// "none" when it is missing or does not fit.
  tensor take(const std::string& name, dtype type, const shape& dims, bool optional) {
    const auto it = contents_.tensors.find(name);
    if (it == contents_.tensors.end()) {
      if (!optional) found_.missing.push_back(name);
      return {};
    }
    left_.erase(name);
    auto t = as_f32(it->second, pool_);
    if (t.type() == type && t.dims() == dims) return t;
    found_.misshaped.push_back(name + " is " + std::string(name_of(it->second.type())) + " " + to_string(t.dims()) +
                               ", wanted " + std::string(name_of(type)) + " " + to_string(dims));
    return {};
  }
  mismatches finish() {
    found_.unexpected.assign(left_.begin(), left_.end());
    std::sort(found_.missing.begin(), found_.missing.end());
    std::sort(found_.misshaped.begin(), found_.misshaped.end());
    return std::move(found_);
  }

private:
  safetensors_contents& contents_;
  memory_pool& pool_;
  std::set<std::string> left_;
  mismatches found_;
};

} // namespace

void copy_plain(const tensor& from, tensor& to) {
  check(from.type() == to.type() && from.dims() == to.dims() && from.is_plain() && to.is_plain(),
        "copy between unlike tensors");
  std::memcpy(to.raw(), from.raw(), from.bytes());
}

weights_contents read_weights(std::shared_ptr<const model> net, const std::filesystem::path& file, bool allow_partial,
                              memory_pool& pool) {
  auto contents = read_safetensors(file, pool);
  matcher match(contents, pool);
  const int layers = static_cast<int>(net->layers().size());
  const segment whole(net, 0, layers);
  weights_contents result;
  result.whole.first_layer = net->layers().front().name;
  result.whole.layers = layers;
  for (const auto& parameter : whole.parameters())
    if (auto t = match.take(parameter.name, dtype::f32, parameter.spec.dims, false))
      result.whole.tensors["weights/" + parameter.name] = std::move(t);
  for (const auto& state : whole.states())
    if (auto t = match.take(state.name, state.spec.type, state.spec.dims, state.spec.type == dtype::i64))
      result.whole.tensors["state/0/" + state.name] = std::move(t);
  const auto found = match.finish();
  if (!found.any()) return result;
  result.note = text_of(found, file, net->name());
  if (!allow_partial) throw usage_error(result.note + " (--allow-partial loads what fits)");
  return result;
}

void load_partial(pipeline& p, const std::vector<stage_snapshot>& given) {
  const auto& found = given.front().tensors; // the model is one stage there
  for (auto& s : p.stages) {
    if (!s.is_local()) continue;
    memory_pool pool;
    auto weights = plain_weights(s, pool);
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

void save_weights(const std::vector<stage_snapshot>& all, std::shared_ptr<const model> net,
                  const std::filesystem::path& file) {
  memory_pool pool;
  auto tensors = weights_of(all);
  tensors.merge(states_of(all, std::move(net), pool));
  write_safetensors(file, tensors, {{"format", "pt"}});
}

} // namespace penstock::actors
