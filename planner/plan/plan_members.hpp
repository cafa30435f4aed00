// The members of a plan's parts by their keys: one list a type, for reading, writing and whatever else walks a plan.
#pragma once

#include "planner/plan/plan.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace penstock::planner {

inline constexpr double most_stages = 4096;
inline constexpr double most_replicas = 65536; // as the schedules'
inline constexpr double most_credit = std::numeric_limits<std::int32_t>::max();
inline constexpr double most_microbatches = 1e6;
inline constexpr double most_update_lag = 1e6; // as resolve_update_lag
inline constexpr double most_ahead = 1e6;      // as resolve_schedule
inline constexpr double most_samples = 1e12;
inline constexpr double most_optimizer_copies = 16;

/// What a number may be.
struct range {
  double least = 0;
  double most = 1e18;
};

enum class presence : std::uint8_t {
  required,
  optional,      ///< absent: the member's default
  left_if_empty, ///< the same, and 0, false, "" and {} are not written
  left_if_one,   ///< the same, and 1 is not written
};
using enum presence;

/// Value is Of, const or not: so that one list serves a reader, which writes into it, and a writer.
template <typename Value, typename Of>
concept maybe_const = std::same_as<std::remove_const_t<Value>, Of>;

/// Calls v(key, member, presence, range) for each; the range may be left out.
template <typename Visitor, maybe_const<stage_memory> Value>
void visit_members(Visitor& v, Value& m) {
  v("weights", m.weights, required);
  v("gradients", m.gradients, required);
  v("optimizer_state", m.optimizer_state, required);
  v("activations", m.activations, required);
  v("workspace", m.workspace, required);
  v("total", m.total, required);
}

template <typename Visitor, maybe_const<stage_prediction> Value>
void visit_members(Visitor& v, Value& s) {
  v("forward_seconds", s.forward_seconds, required);
  v("backward_seconds", s.backward_seconds, required);
  v("update_seconds", s.update_seconds, required);
  v("all_reduce_seconds", s.all_reduce_seconds, required);
  v("send_seconds", s.send_seconds, required);
  v("busy", s.busy, required, range{0, 1.001});
  v("memory_bytes", s.memory, required);
}

template <typename Visitor, maybe_const<machine_stage> Value>
void visit_members(Visitor& v, Value& s) {
  v("devices", s.devices, required, range{0, most_replicas});
  v("forward_seconds", s.forward_seconds, required);
  v("backward_seconds", s.backward_seconds, required);
  v("accumulate_seconds", s.accumulate_seconds, required);
  v("update_seconds", s.update_seconds, required);
  v("output_bytes", s.output_bytes, required);
  v("all_reduce_bytes", s.all_reduce_bytes, required);
  v("all_reduce_overlaps", s.all_reduce_overlaps, required);
  v("activation_delay_s", s.activation_delay_s, required);
  v("gradient_delay_s", s.gradient_delay_s, required);
  v("weight_bytes", s.weight_bytes, required);
  v("gradient_bytes", s.gradient_bytes, required);
  v("optimizer_bytes", s.optimizer_bytes, required);
  v("state_bytes", s.state_bytes, required);
  v("kept_bytes", s.kept_bytes, required);
  v("workspace_bytes", s.workspace_bytes, required);
  v("backward_workspace_bytes", s.backward_workspace_bytes, optional, range{-1e18, 1e18});
  v("unkept_output_bytes", s.unkept_output_bytes, optional);
  v("weight_seconds", s.weight_seconds, left_if_empty);
  v("delayed_bytes", s.delayed_bytes, left_if_empty);
  v("frozen_bytes", s.frozen_bytes, left_if_empty);
  v("weight_workspace_bytes", s.weight_workspace_bytes, left_if_empty);
}

template <typename Visitor, maybe_const<machine_link> Value>
void visit_members(Visitor& v, Value& l) {
  v("group", l.group, required, range{1, most_replicas});
  v("bandwidth_bytes_per_s", l.bytes_per_second, required);
  v("latency_s", l.latency_s, required);
  v("shared", l.shared, optional);
  v("half_duplex", l.half_duplex, optional);
  v("by_reference", l.by_reference, optional);
  v("point_to_point", l.point_to_point, left_if_empty);
}

template <typename Visitor, maybe_const<machine> Value>
void visit_members(Visitor& v, Value& m) {
  v("stages", m.stages, required);
  v("links", m.links, required);
  v("blocking_sends", m.blocking_sends, left_if_empty);
}

template <typename Visitor, maybe_const<prediction> Value>
void visit_members(Visitor& v, Value& p) {
  v("step_seconds", p.step_seconds, required);
  v("speedup_over_one_device", p.speedup_over_one_device, required);
  v("bubble", p.bubble, required, range{0, 1});
  v("bytes_per_minibatch", p.bytes_per_minibatch, required);
  v("data_parallel_bytes_per_minibatch", p.data_parallel_bytes_per_minibatch, required);
  v("binding", p.binding, optional);
  v("stages", p.stages, required);
  v("costs", p.costs, optional);
}

template <typename Visitor, maybe_const<planned_stage> Value>
void visit_members(Visitor& v, Value& s) {
  v("first_layer", s.first_layer, required);
  v("last_layer", s.last_layer, required);
  v("replicas", s.replicas, optional, range{1, most_replicas});
  v("devices", s.devices, left_if_empty);
  v("ranks", s.ranks, left_if_empty, range{0, most_replicas});
  v("in_flight", s.in_flight, left_if_empty, range{1, most_credit});
  v("recompute", s.recompute, optional);
  v("update_lag", s.update_lag, left_if_empty, range{0, most_update_lag});
}

template <typename Visitor, maybe_const<plan_summary> Value>
void visit_members(Visitor& v, Value& s) {
  v("text", s.text, required);
  v("origin", s.origin, left_if_empty);
  v("schedule", s.schedule, required);
  v("microbatches", s.microbatches, required, range{1, most_microbatches});
  v("in_flight", s.in_flight, left_if_empty, range{1, most_credit});
  v("update_lag", s.update_lag, left_if_empty, range{0, most_update_lag});
  v("recompute", s.recompute, optional);
  v("step_seconds", s.step_seconds, required);
  v("peak_bytes", s.peak_bytes, required);
  v("bubble", s.bubble, required, range{0, 1});
  v("bytes_per_minibatch", s.bytes_per_minibatch, required);
  v("data_parallel_bytes_per_minibatch", s.data_parallel_bytes_per_minibatch, required);
  v("binding", s.binding, left_if_empty);
  v("rejected", s.rejected, left_if_empty);
}

template <typename Visitor, maybe_const<plan> Value>
void visit_members(Visitor& v, Value& p) {
  v("model", p.model, left_if_empty);
  v("model_options", p.model_options, left_if_empty);
  v("batch", p.batch, left_if_empty, range{1, most_samples});
  v("schedule", p.schedule, optional);
  v("microbatches", p.microbatches, left_if_empty, range{1, most_microbatches});
  v("window", p.window, optional, range{0, most_microbatches});
  v("chunks", p.chunks, left_if_one, range{1, most_stages});
  v("threads", p.threads, left_if_empty, range{1, most_replicas});
  v("processes", p.processes, left_if_empty, range{1, most_replicas});
  v("optimizer_copies", p.optimizer_copies, optional, range{0, most_optimizer_copies});
  v("simulation_only", p.simulation_only, left_if_empty);
  v("layer_order", p.layer_order, left_if_empty);
  v("frozen_until", p.first_active, left_if_empty);
  v("ahead", p.ahead, left_if_empty, range{0, most_ahead});
  v("stages", p.stages, required);
  v("prediction", p.predicted, optional);
  v("reason", p.reason, left_if_empty);
  v("runner_up", p.runner_up, optional);
  v("considered", p.considered, left_if_empty);
  v("inputs", p.inputs, left_if_empty);
}

} // namespace penstock::planner
