// Asks now, computes later: operands and results are known by their addresses alone, so a block's owners are the host's
// handles, and its reuse is in the stream's order.
#include "tests/support/delayed/delayed_backend.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/cpu_device.hpp"
#include "kernels/memory_pool.hpp"
#include "kernels/reference/reference_backend.hpp"
#include "tests/support/delayed/counters.hpp"
#include "tests/support/delayed/delayed_event.hpp"
#include "tests/support/delayed/delayed_families.hpp"
#include "tests/support/delayed/delayed_memory.hpp"
#include "tests/support/delayed/device_queue.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace penstock::testing {

struct delayed_backend::plain_loops {
  std::shared_ptr<penstock::device> host = open_cpu_device(0);
  std::unique_ptr<backend> ops = make_reference_backend(*host);
  memory_pool fetched;
};

namespace {

void copy_bytes(const tensor& from, const tensor& to) {
  check(from.bytes() == to.bytes() && from.type() == to.type() && from.dims() == to.dims(),
        "the delayed device expected another shape of a result");
  std::memmove(to.raw(), from.raw(), from.bytes());
}

} // namespace

delayed_backend::delayed_backend(penstock::device& owner, delayed_memory& memory, device_queue& queue,
                                 const delayed_options& options)
    : owner_(owner), memory_(memory), queue_(queue), keeps_what_it_reads_(options.keeps_what_it_reads),
      loops_(std::make_shared<plain_loops>()) {
  offer(delayed_activation(*this));
  offer(delayed_arrangement(*this));
  offer(delayed_attention(*this));
  offer(delayed_convolution(*this));
  offer(delayed_elementwise(*this));
  offer(delayed_embedding(*this));
  offer(delayed_linear(*this));
  offer(delayed_loss(*this));
  offer(delayed_normalisation(*this));
  offer(delayed_optimizer(*this));
  offer(delayed_recurrent(*this));
}

delayed_backend::~delayed_backend() = default;

// -- work ---------------------------------------------------------------------

std::shared_ptr<posted_work> delayed_backend::begin() {
  now_ = std::make_shared<posted_work>();
  return now_;
}

posted_work& delayed_backend::now() {
  check(now_ != nullptr, "operations are for posted work");
  return *now_;
}

void delayed_backend::keep_until_complete(const tensor& x) {
  now().kept.push_back(x);
}

void delayed_backend::put_in_order(std::function<void()> piece, bool even_after_a_failure) {
  now();
  queue_.put([work = now_, piece = std::move(piece), even_after_a_failure] {
    if (work->failure && !even_after_a_failure) return; // its operands may be anything
    try {
      piece();
    } catch (...) {
      if (!work->failure) work->failure = std::current_exception();
    }
  });
}

void delayed_backend::ask(const std::vector<tensor>& operands, const std::vector<tensor>& results,
                          computation compute) {
  std::vector<tensor> in, out;
  for (const auto& x : operands) {
    in.push_back(delayed_memory::bytes_of(x));
    if (x && !memory_.holds(x) && keeps_what_it_reads_) keep_until_complete(x);
  }
  for (const auto& y : results)
    out.push_back(delayed_memory::bytes_of(y));
  ++counted().ops;
  put_in_order([in = std::move(in), out = std::move(out), compute = std::move(compute), loops = loops_]() mutable {
    const auto computed = compute(*loops->ops, in);
    check(computed.size() == out.size(), "the delayed device expected another number of results");
    for (std::size_t i = 0; i < out.size(); ++i) {
      check(static_cast<bool>(computed[i]) == static_cast<bool>(out[i]), "the delayed device expected another result");
      if (out[i]) copy_bytes(computed[i], out[i]);
    }
  });
}

tensor delayed_backend::in_place_of(const tensor& x) {
  return x.is_unique() ? x : allocate_activation(x.dims());
}

// -- memory and formats -----------------------------------------------------------

format_ptr delayed_backend::activation_format(const shape&) {
  return nullptr;
}

tensor delayed_backend::reorder(const tensor& x, format_ptr format, memory_use) {
  check(x.is_plain() && format == nullptr, "the delayed device knows the plain format only");
  return x;
}

void delayed_backend::reorder_rows(const tensor& plain, std::int64_t first, const tensor& target) {
  ask({plain, target}, {}, [first](backend& loops, auto& x) {
    loops.reorder_rows(x[0], first, x[1]);
    return std::vector<tensor>{};
  });
}

void delayed_backend::fill(tensor& x, float value) {
  ask({x}, {}, [value](backend& loops, auto& in) {
    loops.fill(in[0], value);
    return std::vector<tensor>{};
  });
}

tensor delayed_backend::copy(const tensor& x, memory_use use) {
  auto result = allocate(x.type(), x.dims(), use, x.format());
  ask({x}, {result}, [](backend&, auto& in) { return in; });
  return result;
}

// -- the host ---------------------------------------------------------------------

tensor delayed_backend::from_host(const tensor& x, memory_use use) {
  if (!x.is_on_host()) return x;
  auto result = allocate(x.type(), x.dims(), use, x.format());
  keep_until_complete(x);
  ++counted().ops;
  put_in_order([x, there = delayed_memory::bytes_of(result)] { copy_bytes(x, there); });
  return result;
}

tensor delayed_backend::to_host(const tensor& x, allocator& host) {
  auto result = tensor::allocate(host, x.type(), x.dims(), memory_use::scratch);
  poison(result.raw(), result.bytes()); // for who looks too early
  if (!memory_.holds(x) && keeps_what_it_reads_) keep_until_complete(x);
  ++counted().host_copies;
  put_in_order([there = x.is_on_host() ? x : delayed_memory::bytes_of(x), result] { copy_bytes(there, result); });
  return result;
}

void delayed_backend::on_host(std::vector<tensor> operands, std::vector<tensor> results, host_computation compute) {
  std::vector<std::pair<dtype, shape>> wanted;
  for (const auto& y : results)
    wanted.emplace_back(y.type(), y.dims());
  ask(operands, results, [wanted, compute = std::move(compute)](backend& loops, auto& in) {
    std::vector<tensor> made;
    for (const auto& [type, dims] : wanted)
      made.push_back(loops.allocate(type, dims, memory_use::scratch));
    compute(in, made);
    return made;
  });
}

std::vector<tensor> delayed_backend::fetch(std::vector<tensor> scalars) {
  if (std::exchange(now().has_fetched, true))
    throw error("[device] a second fetch in one piece of work: each is a synchronisation");
  ++counted().fetches;
  for (auto& scalar : scalars) {
    scalar = to_host(scalar, loops_->fetched);
    --counted().host_copies;
  }
  return scalars;
}

// -- time -------------------------------------------------------------------------

event_ptr delayed_backend::record() {
  auto made = std::make_shared<delayed_event>();
  put_in_order([made] { made->reach(); }, true);
  return made;
}

void delayed_backend::wait_for(const event_ptr& reached) {
  auto there = std::dynamic_pointer_cast<const delayed_event>(reached);
  check(there != nullptr, "an event of another kind of device");
  put_in_order([there] { there->wait_until(); }, true);
}

void delayed_backend::when_reached(std::function<void()> call) {
  put_in_order(std::move(call), true);
}

} // namespace penstock::testing
