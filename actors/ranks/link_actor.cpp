// An actor proxy that is a line to another rank: no mailbox and no thread of its own, so a hop costs what the wire
// costs.
#include "actors/ranks/link_actor.hpp"

#include "actors/ranks/channels.hpp"
#include "actors/ranks/job.hpp"
#include "actors/run/actor_context.hpp"

#include <caf/actor_config.hpp>
#include <caf/actor_proxy.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/make_actor.hpp>

#include <algorithm>

namespace penstock::actors {

namespace {

template <class Message>
bool copy_if(const caf::type_erased_tuple& content, std::optional<wire_message>& out) {
  if (!content.match_element<Message>(0)) return false;
  out = content.get_as<Message>(0); // handles, not bytes
  return true;
}

class link_proxy final : public caf::actor_proxy {
public:
  link_proxy(caf::actor_config& config, context_ptr context, int rank, actors::address to)
      : caf::actor_proxy(config), context_(std::move(context)), rank_(rank), to_(to) {}

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    guarded(*context_, "link to rank " + std::to_string(rank_), [&] { forward(what->content()); });
  }
  void kill_proxy(caf::execution_unit* unit, caf::error reason) override { cleanup(std::move(reason), unit); }

private:
  // What fails on the way is the endpoint's to report: it knows the peer.
  void send(const wire_message& m) const {
    context_->services.inputs.ranks->data.send(rank_, in_epoch(actor_channel, context_->services.plan_epoch),
                                               encode(to_, m));
  }

  // Null where the host may read what the message carries.
  static std::vector<named_tensor>* tensors_from_device(wire_message& m) {
    auto* activation = std::get_if<activation_msg>(&m);
    auto* gradient = std::get_if<gradient_msg>(&m);
    auto* tie = std::get_if<tie_msg>(&m);
    auto* tensors = activation != nullptr ? &activation->tensors
                    : gradient != nullptr ? &gradient->tensors
                    : tie != nullptr      ? &tie->tensors
                                          : nullptr;
    if (tensors == nullptr) return nullptr;
    const bool all_here =
        std::all_of(tensors->begin(), tensors->end(), [](const auto& t) { return t.value.is_on_host(); });
    return all_here ? nullptr : tensors;
  }

  // By a stream of any stage here; messages have keys, so their order is of no account.
  void send_staged(const std::shared_ptr<wire_message>& m) {
    auto& stages = context_->services.built.stages;
    const auto here = std::find_if(stages.begin(), stages.end(), [](const auto& s) { return s.is_local(); });
    here->update_stream().post(
        [m, host = staging_](backend& ops) {
          for (auto& t : *tensors_from_device(*m))
            if (t.value) t.value = ops.to_host(t.value, *host);
        },
        [m, context = context_, rank = rank_, to = to_](std::exception_ptr failure) {
          guarded(*context, "link to rank " + std::to_string(rank), [&] {
            if (failure) std::rethrow_exception(failure);
            context->services.inputs.ranks->data.send(rank, in_epoch(actor_channel, context->services.plan_epoch),
                                                      encode(to, *m));
          });
        });
  }

  void forward(const caf::type_erased_tuple& content) {
    std::optional<wire_message> m;
    if (content.size() == 1 &&
        (copy_if<activation_msg>(content, m) || copy_if<gradient_msg>(content, m) || copy_if<inputs_msg>(content, m) ||
         copy_if<loss_msg>(content, m) || copy_if<credit_msg>(content, m) || copy_if<norm_msg>(content, m) ||
         copy_if<clip_msg>(content, m) || copy_if<tie_msg>(content, m))) {
      if (tensors_from_device(*m) != nullptr)
        send_staged(std::make_shared<wire_message>(std::move(*m)));
      else
        send(*m);
      return;
    }
    if (content.match_elements<caf::exit_msg>()) return; // the far side ends with its own process
    throw error("[link] a message for " + to_string(to_) + " on rank " + std::to_string(rank_) +
                " cannot travel between processes");
  }

  context_ptr context_;
  int rank_;
  actors::address to_;
  std::shared_ptr<memory_pool> staging_ = std::make_shared<memory_pool>();
};

} // namespace

caf::actor make_link(caf::actor_system& system, context_ptr context, int rank, address to) {
  caf::actor_config config;
  return caf::make_actor<link_proxy, caf::actor>(system.next_actor_id(), system.node(), &system, config,
                                                 std::move(context), rank, to);
}

} // namespace penstock::actors
