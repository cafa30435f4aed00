// Messages between actors as they travel between processes: a header that describes itself, tensors as they are.
#pragma once

#include "actors/ranks/wire_format.hpp"
#include "actors/run/control_messages.hpp"
#include "transport/endpoint.hpp"

#include <variant>

namespace penstock::actors {

/// Which actor of the receiving rank a message is for.
struct address {
  enum class part : std::uint8_t { replica, cut, source, metrics, coordinator, optimizer };
  part of = part::replica;
  std::int32_t stage = 0; ///< of a cut: the one before it
  std::int32_t replica = 0;
  friend auto operator<=>(const address&, const address&) = default;
};
std::string to_string(const address& a); ///< "stage 1 replica 0", "the metrics"

using wire_message =
    std::variant<activation_msg, gradient_msg, inputs_msg, loss_msg, credit_msg, norm_msg, clip_msg, tie_msg>;

/// The tensors' own buffers go along: nothing is copied.
transport::message encode(const address& to, const wire_message& m);

/// For whom a message is; reads no more of the header than that. Throws penstock::error when it is none of ours.
address address_of(std::string_view header);

struct arrival {
  address to;
  wire_message message;
};
/// Tensors keep the layout that they were sent in, under a wire_format where it is not plain. Throws penstock::error
/// for a header that is cut short, or tensors whose bytes are not what their shape needs.
arrival decode(const transport::message& m);

/// The stretch that a message belongs to: training from 0, evaluations below.
std::int64_t stretch_of(const wire_message& m);

/// On the stream: the device's own format in place of a wire_format of the same name. Throws penstock::error when the
/// device lays such a tensor out in another way.
void adopt_layouts(backend& ops, std::vector<tensor>& tensors);

} // namespace penstock::actors
