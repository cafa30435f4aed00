// One bundle from each rank to each other, sent by a thread of its own while this one receives.
#include "actors/ranks/plan_exchange.hpp"

#include "actors/ranks/channels.hpp"
#include "actors/ranks/job.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <future>

namespace penstock::actors {

namespace {

using layouts = std::map<std::string, std::string>; // by parameter; "" is plain

std::string layout_of(const format_ptr& format) {
  return format == nullptr ? "" : format->name();
}

// Optimizer state lies as its parameter does.
std::string parameter_of(std::string_view tensor_name) {
  const bool is_state = tensor_name.starts_with("optimizer/");
  tensor_name.remove_prefix(tensor_name.find('/') + 1);
  return std::string(is_state ? tensor_name.substr(0, tensor_name.rfind('.')) : tensor_name);
}

// Where the other side lays a tensor out otherwise, or the network cannot read it.
void make_plain(pipeline& from, bundle& b, const layouts& wanted) {
  const auto here = std::find_if(from.stages.begin(), from.stages.end(), [](const auto& s) { return s.is_local(); });
  memory_pool host; // its blocks outlive it
  for (auto& [name, t] : b.tensors) {
    const auto there = wanted.find(parameter_of(name));
    const bool is_wanted_so = t.is_plain() || (there != wanted.end() && there->second == t.format()->name());
    if (is_wanted_so && t.is_on_host()) continue;
    here->update_stream().run([&](backend& ops) { t = t.is_on_host() ? ops.to_plain(t) : ops.to_host(t, host); });
  }
}

} // namespace

plan_exchange::plan_exchange(const job* ranks, std::int64_t epoch) : ranks_(ranks), epoch_(epoch) {
  if (ranks == nullptr) return;
  out_.emplace(*ranks, in_epoch(transfer_channel, epoch));
  in_.emplace(*ranks, in_epoch(transfer_channel, epoch));
}

std::vector<layouts> plan_exchange::share_layouts(const pipeline& to) const {
  layouts mine;
  for (const auto& s : to.stages)
    if (s.is_local())
      for (std::size_t i = 0; i < s.formats.size(); ++i)
        mine[s.layers->parameters()[i].name] = layout_of(s.formats[i]);
  std::vector<layouts> all;
  const auto round = "layouts of plan epoch " + std::to_string(epoch_);
  for (const auto& text : ranks_->control.all_gather(round, nlohmann::json(mine).dump(), ranks_->patience))
    all.push_back(nlohmann::json::parse(text).get<layouts>());
  return all;
}

std::vector<stage_snapshot> plan_exchange::move(pipeline& from, std::map<int, stage_copy> here, const pipeline& to,
                                                memory_pool& pool) {
  auto mine = snapshots_here(from, std::move(here));
  if (ranks_ == nullptr) return mine;
  const int count = ranks_->size();
  const int rank = ranks_->rank();
  const auto wanted = share_layouts(to);
  auto sent = std::async(std::launch::async, [&] {
    std::int64_t bytes = 0;
    for (int i = 1; i < count; ++i) { // each begins with another, so that no rank is asked by all at once
      const int other = (rank + i) % count;
      auto b = bundle_for(other, mine, to);
      make_plain(from, b, wanted[static_cast<std::size_t>(other)]);
      for (const auto& [name, t] : b.tensors)
        bytes += static_cast<std::int64_t>(t.bytes());
      out_->send(other, b);
    }
    return bytes;
  });
  std::vector<stage_snapshot> needed = mine;
  for (int i = 1; i < count; ++i)
    merge_snapshots(needed, in_->receive((rank + count - i) % count, pool));
  const auto round = "bytes of plan epoch " + std::to_string(epoch_);
  for (const auto& text : ranks_->control.all_gather(round, std::to_string(sent.get()), ranks_->patience))
    bytes_moved_ += std::stoll(text);
  return needed;
}

void plan_exchange::cancel(const std::string& why) {
  if (out_) out_->cancel(why);
  if (in_) in_->cancel(why);
}

} // namespace penstock::actors
