// The header: for whom, which message, its numbers, and each tensor's name, type, shape and layout.
#include "actors/ranks/wire.hpp"

#include "kernels/backend.hpp"
#include "kernels/check.hpp"

#include <cstring>

namespace penstock::actors {

namespace {

using transport::part;

// All ranks run the same binary (compared when they join), so numbers go as they lie in memory.
class header_writer {
public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint16_t>(text.size()));
    bytes_ += text;
  }
  const std::string& bytes() const { return bytes_; }

private:
  std::string bytes_;
};

class header_reader {
public:
  explicit header_reader(std::string_view bytes) : left_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string get_text() {
    const auto size = get<std::uint16_t>();
    return std::string(take(size));
  }

private:
  std::string_view take(std::size_t size) {
    if (size > left_.size()) throw error("[message] the header of a message from another process is cut short");
    const auto taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }
  std::string_view left_;
};

enum class body_place : std::uint8_t { header, first_part };

void put_tensor(header_writer& w, std::vector<part>& parts, const std::string& name, const tensor& t) {
  w.put_text(name);
  w.put(static_cast<std::uint8_t>(t ? 1 : 0));
  if (!t) return;
  w.put(t.type());
  w.put(static_cast<std::uint8_t>(t.rank()));
  for (const auto extent : t.dims())
    w.put(extent);
  w.put_text(t.is_plain() ? std::string() : t.format()->name());
  parts.push_back({t.storage(), 0, t.bytes()});
}

// Whether a plain tensor has so many bytes, whatever nonsense its extents are.
bool has_bytes(const shape& dims, dtype type, std::size_t bytes) {
  std::size_t product = size_of(type);
  for (const auto extent : dims) {
    const auto factor = static_cast<std::size_t>(extent);
    if (factor != 0 && product > bytes / factor) return false;
    product *= factor;
  }
  return product == bytes;
}

tensor get_tensor(header_reader& r, const std::vector<part>& parts, std::size_t& next) {
  if (r.get<std::uint8_t>() == 0) return {};
  const auto type = r.get<dtype>();
  if (type > dtype::u8) throw error("[message] a tensor of an unknown type came from another process");
  shape dims(r.get<std::uint8_t>());
  for (auto& extent : dims) {
    extent = r.get<std::int64_t>();
    if (extent < 0) throw error("[message] a tensor of a negative extent came from another process");
  }
  const auto layout = r.get_text();
  if (next >= parts.size()) throw error("[message] a message from another process lacks a tensor's bytes");
  const auto& p = parts[next++];
  if (!layout.empty()) return {type, std::move(dims), p.storage, std::make_shared<wire_format>(p.size, layout)};
  if (!has_bytes(dims, type, p.size))
    throw error("[message] a tensor of " + penstock::to_string(dims) + " came with " + std::to_string(p.size) +
                " bytes");
  return {type, std::move(dims), p.storage};
}

void put_tensors(header_writer& w, std::vector<part>& parts, const std::vector<named_tensor>& tensors) {
  w.put(static_cast<std::uint16_t>(tensors.size()));
  for (const auto& t : tensors)
    put_tensor(w, parts, t.name, t.value);
}

std::vector<named_tensor> get_tensors(header_reader& r, const std::vector<part>& parts, std::size_t next) {
  std::vector<named_tensor> tensors(r.get<std::uint16_t>());
  for (auto& t : tensors) {
    t.name = r.get_text();
    t.value = get_tensor(r, parts, next);
  }
  return tensors;
}

struct body_writer {
  header_writer& w;
  std::vector<part>& parts;
  void operator()(const activation_msg& m) const {
    w.put(m.key);
    w.put(m.version);
    w.put(m.info);
    put_tensors(w, parts, m.tensors);
  }
  void operator()(const gradient_msg& m) const {
    w.put(m.key);
    w.put(m.version);
    put_tensors(w, parts, m.tensors);
  }
  void operator()(const inputs_msg& m) const {
    w.put(m.key);
    w.put(m.info);
    put_tensors(w, parts, m.tensors);
  }
  void operator()(const loss_msg& m) const {
    w.put(m.key);
    w.put(m.metrics);
    put_tensors(w, parts, m.results);
  }
  void operator()(const credit_msg& m) const { w.put(m.key); }
  void operator()(const norm_msg& m) const {
    w.put(m.stretch);
    w.put(m.stage);
    w.put(m.group);
    w.put(static_cast<std::uint32_t>(m.squares.size()));
    for (const auto q : m.squares)
      w.put(q);
  }
  void operator()(const clip_msg& m) const { w.put(m); }
  void operator()(const tie_msg& m) const {
    w.put(m.stretch);
    w.put(m.group);
    w.put(m.stage);
    put_tensors(w, parts, m.tensors);
  }
};

wire_message read_body(std::size_t kind, header_reader& r, const std::vector<part>& parts, std::size_t first_tensor) {
  switch (kind) {
  case 0: {
    activation_msg m{r.get<message_key>(), r.get<std::int64_t>(), r.get<microbatch_info>(), {}};
    m.tensors = get_tensors(r, parts, first_tensor);
    return m;
  }
  case 1: {
    gradient_msg m{r.get<message_key>(), r.get<std::int64_t>(), {}};
    m.tensors = get_tensors(r, parts, first_tensor);
    return m;
  }
  case 2: {
    inputs_msg m{r.get<message_key>(), r.get<microbatch_info>(), {}};
    m.tensors = get_tensors(r, parts, first_tensor);
    return m;
  }
  case 3: {
    loss_msg m;
    m.key = r.get<message_key>();
    m.metrics = r.get<loss_metrics>();
    m.results = get_tensors(r, parts, first_tensor);
    return m;
  }
  case 4:
    return credit_msg{r.get<message_key>()};
  case 5: {
    norm_msg m;
    m.stretch = r.get<std::int64_t>();
    m.stage = r.get<int>();
    m.group = r.get<std::int64_t>();
    m.squares.resize(r.get<std::uint32_t>() & 0xFFFFFU); // a million parameters are more than any stage has
    for (auto& q : m.squares)
      q = r.get<double>();
    return m;
  }
  case 6:
    return r.get<clip_msg>();
  case 7: {
    tie_msg m{r.get<std::int64_t>(), r.get<std::int64_t>(), r.get<int>(), {}};
    m.tensors = get_tensors(r, parts, first_tensor);
    return m;
  }
  default:
    throw error("[message] a message of an unknown kind came from another process");
  }
}

part part_of(const std::string& text) {
  memory_pool pool; // its blocks outlive it
  auto storage = pool.allocate(text.size(), memory_use::scratch);
  std::memcpy(storage.data(), text.data(), text.size());
  return {storage, 0, text.size()};
}

} // namespace

std::string to_string(const address& a) {
  switch (a.of) {
  case address::part::replica:
    return "stage " + std::to_string(a.stage) + " replica " + std::to_string(a.replica);
  case address::part::cut:
    return "the layer actor behind stage " + std::to_string(a.stage);
  case address::part::source:
    return "the source";
  case address::part::metrics:
    return "the metrics";
  case address::part::coordinator:
    return "the coordinator";
  default:
    return "the optimizer of stage " + std::to_string(a.stage);
  }
}

transport::message encode(const address& to, const wire_message& m) {
  header_writer body;
  transport::message out;
  std::visit(body_writer{body, out.parts}, m);
  header_writer head;
  head.put(to);
  head.put(static_cast<std::uint8_t>(m.index()));
  const bool fits = head.bytes().size() + 1 + body.bytes().size() <= transport::max_header_bytes;
  head.put(fits ? body_place::header : body_place::first_part);
  out.header = head.bytes();
  if (fits)
    out.header += body.bytes();
  else
    out.parts.insert(out.parts.begin(), part_of(body.bytes()));
  return out;
}

address address_of(std::string_view header) {
  return header_reader(header).get<address>();
}

arrival decode(const transport::message& m) {
  header_reader head(m.header);
  arrival a;
  a.to = head.get<address>();
  const auto kind = head.get<std::uint8_t>();
  if (head.get<body_place>() == body_place::header) {
    a.message = read_body(kind, head, m.parts, 0);
    return a;
  }
  if (m.parts.empty()) throw error("[message] a message from another process has no body");
  const auto& body = m.parts.front();
  header_reader r({reinterpret_cast<const char*>(body.data()), body.size});
  a.message = read_body(kind, r, m.parts, 1);
  return a;
}

std::int64_t stretch_of(const wire_message& m) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.key; })
          return one.key.stretch;
        else
          return one.stretch;
      },
      m);
}

void adopt_layouts(backend& ops, std::vector<tensor>& tensors) {
  for (auto& t : tensors) {
    if (!t || t.is_plain() || dynamic_cast<const wire_format*>(t.format().get()) == nullptr) continue;
    const auto own = ops.activation_format(t.dims());
    if (!own || !t.format()->equals(*own))
      throw error("[message] a tensor of " + penstock::to_string(t.dims()) + " came in layout " + t.format()->name() +
                  "; this device has " + (own ? own->name() : "plain"));
    t = tensor(t.type(), t.dims(), t.storage(), own);
  }
}

} // namespace penstock::actors
