// Names and checks of what crosses a cut.
#include "actors/stage/inbox.hpp"

#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::actors {

namespace {

void check_spec(const std::string& name, const tensor_spec& wanted, const tensor& t) {
  if (t.type() == wanted.type && t.dims() == wanted.dims) return;
  throw error("[message] tensor '" + name + "' is " + std::string(name_of(t.type())) + " " + to_string(t.dims()) +
              "; the model has " + std::string(name_of(wanted.type)) + " " + to_string(wanted.dims));
}

} // namespace

std::vector<tensor> in_model_order(const model& m, const std::vector<value_id>& wanted, std::vector<named_tensor> got,
                                   const microbatch_info& of, bool none_allowed) {
  if (got.size() != wanted.size())
    throw error("[message] " + std::to_string(got.size()) + " tensors came; the cut has " +
                std::to_string(wanted.size()));
  std::vector<tensor> tensors;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& value = m.value(wanted[i]);
    const auto named = [&](const named_tensor& n) { return n.name == value.name; };
    // Nearly always in order already.
    const auto it =
        named(got[i]) ? got.begin() + static_cast<std::ptrdiff_t>(i) : std::find_if(got.begin(), got.end(), named);
    if (it == got.end()) throw error("[message] tensor '" + value.name + "' is missing");
    if (it->value)
      check_spec(value.name, m.spec(wanted[i], of), it->value);
    else if (!none_allowed)
      throw error("[message] tensor '" + value.name + "' is empty");
    tensors.push_back(std::move(it->value));
  }
  return tensors;
}

std::vector<named_tensor> with_names(const model& m, const std::vector<value_id>& ids, std::vector<tensor> tensors) {
  std::vector<named_tensor> named;
  for (std::size_t i = 0; i < ids.size(); ++i)
    named.push_back({m.value(ids[i]).name, std::move(tensors.at(i))});
  return named;
}

std::int64_t total_bytes(const std::vector<named_tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& t : tensors)
    if (t.value) bytes += static_cast<std::int64_t>(t.value.bytes());
  return bytes;
}

void refuse_message(const message_key& k, std::size_t bound, bool twice, const char* what) {
  const auto id = std::string(what) + " of minibatch " + std::to_string(k.minibatch) + ", micro-batch " +
                  std::to_string(k.microbatch);
  throw error(twice
                  ? "[message] the " + id + " came twice"
                  : "[message] the " + id + " came beyond the credits: " + std::to_string(bound) + " are held already");
}

} // namespace penstock::actors
