// A bundle on the wire: one part with an index in JSON, then one part for each tensor.
#include "actors/ranks/bundle.hpp"

#include "actors/ranks/channels.hpp"
#include "actors/ranks/wire.hpp"
#include "kernels/check.hpp"

#include <nlohmann/json.hpp>

#include <cstring>

namespace penstock::actors {

namespace {

using nlohmann::json;

transport::part part_of(const std::string& text, memory_pool& pool) {
  auto storage = pool.allocate(text.size(), memory_use::scratch);
  std::memcpy(storage.data(), text.data(), text.size());
  return {storage, 0, text.size()};
}

} // namespace

bundle_transfers::bundle_transfers(const job& ranks) : bundle_transfers(ranks, transfer_channel) {}

bundle_transfers::bundle_transfers(const job& ranks, transport::channel base)
    : job_(ranks), transfers_(ranks.data, base) {}

void bundle_transfers::send(int to, const bundle& b) {
  memory_pool pool;
  json index{{"text", b.text}, {"tensors", json::array()}};
  transport::message m;
  m.parts.emplace_back(); // the index, once it is known
  for (const auto& [name, t] : b.tensors) {
    index["tensors"].push_back({name, name_of(t.type()), t.dims(), t.is_plain() ? "" : t.format()->name()});
    m.parts.push_back({t.storage(), 0, t.bytes()});
  }
  m.parts.front() = part_of(index.dump(), pool);
  transfers_.send(to, std::move(m), job_.patience);
}

bundle bundle_transfers::receive(int from, memory_pool& pool) {
  const auto m = transfers_.receive(from, pool, job_.patience);
  bundle b;
  try {
    const auto& first = m.parts.at(0);
    const auto index = json::parse(reinterpret_cast<const char*>(first.data()),
                                   reinterpret_cast<const char*>(first.data()) + first.size);
    b.text = index.at("text").get<std::string>();
    std::size_t part = 1;
    for (const auto& entry : index.at("tensors")) {
      const auto type = dtype_named(entry.at(1).get<std::string>()).value();
      auto dims = entry.at(2).get<shape>();
      const auto& p = m.parts.at(part++);
      const auto layout = entry.at(3).get<std::string>();
      if (!layout.empty()) {
        b.tensors[entry.at(0).get<std::string>()] =
            tensor(type, std::move(dims), p.storage, std::make_shared<wire_format>(p.size, layout));
        continue;
      }
      if (static_cast<std::size_t>(element_count(dims)) * size_of(type) != p.size)
        throw error("[transfer] a tensor from rank " + std::to_string(from) + " has another size than it says");
      b.tensors[entry.at(0).get<std::string>()] = tensor(type, std::move(dims), p.storage);
    }
  } catch (const std::logic_error&) { // a member or part that is not there
    throw error("[transfer] what rank " + std::to_string(from) + " sent is no bundle of tensors");
  } catch (const std::bad_optional_access&) {
    throw error("[transfer] rank " + std::to_string(from) + " sent a tensor of an unknown type");
  } catch (const json::exception&) {
    throw error("[transfer] what rank " + std::to_string(from) + " sent is no bundle of tensors");
  }
  return b;
}

} // namespace penstock::actors
