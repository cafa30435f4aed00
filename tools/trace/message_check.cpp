// Holds every send against its receive.
#include "tools/trace/message_check.hpp"

#include "actors/trace/messages.hpp"
#include "tools/trace/table.hpp"

#include <optional>
#include <string>

namespace penstock::actors {

namespace {

/// "stage 1: activation of minibatch 3 from stage 0".
std::string message_name(const trace_header& header, const trace_record& r) {
  const bool is_sent = r.kind == span_kind::send;
  const bool is_activation = is_sent ? r.peer > r.stage : r.stage > r.peer;
  return actor_name(header, r.stage, r.replica) + ": " + (is_activation ? "activation" : "gradient") + " of " +
         micro_name(header, r.minibatch, r.microbatch) + (is_sent ? " to" : " from") + " stage " +
         std::to_string(r.peer);
}

std::string microseconds(std::int64_t ns) {
  return format("%.1f us", static_cast<double>(ns) * 1e-3);
}

} // namespace

void check_messages(const checked_epoch& epoch, const trace_header& header, const std::vector<trace_record>& records,
                    violations& found) {
  std::optional<traced_message> last;
  for (const auto& m : pair_messages(records)) {
    const trace_record& known = m.send != nullptr ? *m.send : *m.receive;
    const auto key = key_of_message(known);
    found.place = place_of(epoch, known.stretch);
    if (key == last)
      found.add(known.begin_ns, message_name(header, known) + " a second time");
    else if (m.receive == nullptr)
      found.add(violations::at_the_end, message_name(header, known) + " was sent and never received");
    else if (m.send == nullptr)
      found.add(violations::at_the_end, message_name(header, known) + " was received and never sent");
    else if (m.transfer_ns() < 0)
      found.add(m.receive->begin_ns, message_name(header, *m.receive) + " was received " +
                                         microseconds(-m.transfer_ns()) + " before it was sent" +
                                         (header.clock_conflict_ns > 0 ? "; the ranks' clocks disagree by up to " +
                                                                             microseconds(header.clock_conflict_ns)
                                                                       : ""));
    last = key;
  }
}

} // namespace penstock::actors
