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
  void forward(const caf::type_erased_tuple& content) {
    std::optional<wire_message> m;
    if (content.size() == 1 &&
        (copy_if<activation_msg>(content, m) || copy_if<gradient_msg>(content, m) || copy_if<labels_msg>(content, m) ||
         copy_if<loss_msg>(content, m) || copy_if<credit_msg>(content, m) || copy_if<norm_msg>(content, m) ||
         copy_if<clip_msg>(content, m))) {
      // What fails on the way is the endpoint's to report: it knows the peer.
      context_->services.inputs.ranks->data.send(rank_, in_epoch(actor_channel, context_->services.plan_epoch),
                                                 encode(to_, *m));
      return;
    }
    if (content.match_elements<caf::exit_msg>()) return; // the far side ends with its own process
    throw error("[link] a message for " + to_string(to_) + " on rank " + std::to_string(rank_) +
                " cannot travel between processes");
  }

  context_ptr context_;
  int rank_;
  actors::address to_;
};

} // namespace

caf::actor make_link(caf::actor_system& system, context_ptr context, int rank, address to) {
  caf::actor_config config;
  return caf::make_actor<link_proxy, caf::actor>(system.next_actor_id(), system.node(), &system, config,
                                                 std::move(context), rank, to);
}

} // namespace penstock::actors
