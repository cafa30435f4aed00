// Matching a weights file with a pipeline, and writing one.
#include "actors/weights_file.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

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

std::string read_weights(pipeline& p, const std::filesystem::path& file, bool allow_partial) {
  memory_pool pool;
  auto contents = read_safetensors(file, pool);
  matcher match(contents, pool);
  auto weights = plain_weights(p, pool); // what the file lacks stays as it is
  std::vector<std::pair<tensor, tensor>> states;
  for (auto& s : p.stages) {
    for (const auto& parameter : s.layers->parameters())
      if (auto t = match.take(parameter.name, dtype::f32, parameter.spec.dims, false)) weights[parameter.name] = t;
    for (std::size_t i = 0; i < s.layers->states().size(); ++i) {
      const auto& st = s.layers->states()[i];
      const auto t = match.take(st.name, st.spec.type, st.spec.dims, st.spec.type == dtype::i64);
      if (!t) continue;
      for (auto& r : s.replicas)
        states.emplace_back(t, r.states[i]);
    }
  }
  const auto found = match.finish();
  std::string note;
  if (found.any()) {
    note = text_of(found, file, p.net->name());
    if (!allow_partial) throw usage_error(note + " (--allow-partial loads what fits)");
  }
  for (auto& s : p.stages)
    load_weights(s, weights);
  for (auto& [from, to] : states)
    copy_plain(from, to);
  return note;
}

void save_weights(pipeline& p, const std::filesystem::path& file) {
  memory_pool pool;
  auto all = plain_weights(p, pool);
  for (auto& s : p.stages)
    all.merge(mean_states(s, pool));
  write_safetensors(file, all, {{"format", "pt"}});
}

void save_first_gradients(pipeline& p, const std::filesystem::path& file) {
  named_tensors all;
  for (const auto& s : p.stages)
    all.insert(s.first_gradients.begin(), s.first_gradients.end());
  write_safetensors(file, all, {{"format", "pt"}});
}

} // namespace penstock::actors
