// Walks every replica's records in time beside the list its schedule gives it.
#include "tools/trace/epoch_check.hpp"

#include "actors/trace/turn_check.hpp"
#include "planner/sequence.hpp"
#include "tools/trace/message_check.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace penstock::actors {

namespace {

using records_view = std::vector<const trace_record*>;
constexpr auto at_the_end = violations::at_the_end;

/// Minibatches [first, end), between two drains.
struct stretch_range {
  int id = 0;
  std::int64_t first = 0;
  std::int64_t end = 0;
};

std::string micro_name(const trace_header& header, const trace_record& r) {
  return std::string(name_of(r.kind)) + " of " + micro_name(header, r.minibatch, r.microbatch);
}

/// One stage between two drains: what each micro-batch did, and the walk that fills it in.
class stage_check {
public:
  stage_check(const checked_epoch& epoch, const trace_header& header, const planner::schedule& schedule,
              const stretch_range& range, int stage, std::int64_t base_version, const std::vector<int>& recorders,
              violations& found)
      : epoch_(epoch), header_(header), schedule_(schedule), range_(range), stage_(stage), base_(base_version),
        recorders_(recorders), found_(found), micro_count_(schedule.minibatches * schedule.microbatches),
        forwards_(static_cast<std::size_t>(micro_count_)), backwards_(static_cast<std::size_t>(micro_count_)),
        weights_(static_cast<std::size_t>(micro_count_)) {}

  void walk_replica(int replica, const records_view& records);
  /// After all replicas' walks.
  void check_nothing_is_missing();
  void check_update_counts();
  /// Both stages walked: messages from `left` are received after they were sent, and gradients back.
  static void check_order_between(const stage_check& left, const stage_check& right);

private:
  const planner::stage_schedule& plan() const { return schedule_.stages[static_cast<std::size_t>(stage_)]; }
  std::string who(int replica) const { return actor_name(header_, stage_, replica) + ": "; }
  std::string who_updates(int replica) const {
    const int recorder = recorders_[static_cast<std::size_t>(replica)];
    const bool is_for_all = std::count(recorders_.begin(), recorders_.end(), recorder) == plan().replicas;
    return is_for_all ? "stage " + std::to_string(stage_) + ": " : who(recorder);
  }
  void fail_update(const trace_record& r, const std::string& what) {
    found_.add(r.begin_ns, who_updates(r.replica) + what);
  }
  void fail(const trace_record& r, const std::string& what) { found_.add(r.begin_ns, who(r.replica) + what); }
  std::int64_t index_of(const trace_record& r) const {
    return (r.minibatch - range_.first) * schedule_.microbatches + r.microbatch;
  }
  bool is_frozen() const { return schedule_.is_frozen(stage_); }
  bool is_placed_right(const trace_record& r);
  void take_forward(const trace_record& r);
  void take_backward(const trace_record& r);
  bool is_again(const trace_record& r) const;
  void note_backward(const trace_record& r);
  void take_update(const trace_record& r);
  void follow_list(const trace_record& r);
  std::int64_t first_of_group(std::int64_t update) const {
    return range_.first + update * planner::minibatches_per_update(schedule_, stage_);
  }

  const checked_epoch& epoch_;
  const trace_header& header_;
  const planner::schedule& schedule_;
  const stretch_range& range_;
  int stage_;
  std::int64_t base_;                 // the stage's updates before this stretch
  const std::vector<int>& recorders_; // by replica: whose updates stand for its own
  violations& found_;
  std::int64_t micro_count_;
  // By micro-batch, counted from the stretch's first; a whole backward makes input and weight gradients.
  std::vector<const trace_record*> forwards_, backwards_, weights_;
  std::vector<std::vector<std::int64_t>> updates_; // ends of each replica's

  // Of the replica at hand.
  int walked_ = 0;
  std::map<std::pair<std::int64_t, std::int32_t>, std::pair<std::int64_t, std::int64_t>> versions_; // listed: F, B
  std::vector<planner::action> order_; // its list without updates
  std::size_t next_in_order_ = 0;
  std::vector<std::int64_t> update_ends_;
  std::int64_t held_ = 0;
};

bool stage_check::is_placed_right(const trace_record& r) {
  if (r.minibatch < range_.first || r.minibatch >= range_.end) {
    const bool is_late = range_.end == header_.minibatches && r.minibatch >= range_.end;
    fail(r,
         micro_name(header_, r) + (is_late ? " after the end: " + epoch_.end
                                           : " between drains that hold minibatches " + std::to_string(range_.first) +
                                                 " to " + std::to_string(range_.end - 1)));
    return false;
  }
  if (r.microbatch < 0 || r.microbatch >= schedule_.microbatches) {
    fail(r, std::string(name_of(r.kind)) + " of minibatch " + std::to_string(r.minibatch) + " micro-batch " +
                std::to_string(r.microbatch) + ", wanted 0 to " + std::to_string(schedule_.microbatches - 1));
    return false;
  }
  const int wanted = planner::replica_of(schedule_, stage_, r.minibatch - range_.first, r.microbatch);
  if (wanted != r.replica) fail(r, micro_name(header_, r) + " belongs on replica " + std::to_string(wanted));
  return true;
}

void stage_check::take_forward(const trace_record& r) {
  const trace_record*& known = forwards_[static_cast<std::size_t>(index_of(r))];
  if (known != nullptr) return fail(r, micro_name(header_, r) + " a second time");
  known = &r;
  if (const trace_record* backward = backwards_[static_cast<std::size_t>(index_of(r))])
    fail(*backward, micro_name(header_, *backward) + " before its forward");
  if (!is_frozen() && ++held_ > plan().credit)
    found_.add(r.begin_ns,
               who(r.replica) + micro_name(header_, r) + " is the replica's forward " + std::to_string(held_) +
                   " without its backward, its credit is " + std::to_string(plan().credit),
               violations::weight::consequence);
  const auto listed = versions_.find({r.minibatch - range_.first, r.microbatch});
  if (listed != versions_.end() && r.version_read != base_ + listed->second.first)
    fail(r, micro_name(header_, r) + " read version " + std::to_string(r.version_read) + ", the schedule gives it " +
                std::to_string(base_ + listed->second.first));
  const std::int64_t updates = r.version_read - base_;
  if (updates > static_cast<std::int64_t>(update_ends_.size()) ||
      (updates > 0 && update_ends_[static_cast<std::size_t>(updates - 1)] > r.begin_ns))
    fail(r, micro_name(header_, r) + " read version " + std::to_string(r.version_read) +
                " before the update that writes it ended");
}

bool stage_check::is_again(const trace_record& r) const {
  const auto at = static_cast<std::size_t>(index_of(r));
  return (makes_input_gradient(r) && backwards_[at] != nullptr) ||
         (makes_weight_gradient(r) && weights_[at] != nullptr);
}

void stage_check::note_backward(const trace_record& r) {
  const auto at = static_cast<std::size_t>(index_of(r));
  if (makes_weight_gradient(r)) weights_[at] = &r;
  if (!makes_input_gradient(r)) {
    if (const auto* input = backwards_[at]; input != nullptr && input->end_ns > r.begin_ns)
      fail(r, micro_name(header_, r) + " before its backward_input ended");
    return;
  }
  backwards_[at] = &r;
  if (const auto* weight = weights_[at]; weight != nullptr && weight != &r)
    fail(*weight, micro_name(header_, *weight) + " before its backward_input");
}

void stage_check::take_backward(const trace_record& r) {
  if (is_frozen()) return fail(r, micro_name(header_, r) + " on a frozen stage");
  const auto at = static_cast<std::size_t>(index_of(r));
  if (is_again(r)) return fail(r, micro_name(header_, r) + " a second time");
  note_backward(r);
  const auto group = planner::update_of(schedule_, stage_, r.minibatch - range_.first);
  if (group < static_cast<std::int64_t>(update_ends_.size()))
    fail(r,
         micro_name(header_, r) + " after update to version " + std::to_string(base_ + group + 1) + ", which sums it");
  const trace_record* forward = forwards_[at];
  if (forward == nullptr) return; // it comes later or is missing
  if (forward->end_ns > r.begin_ns) fail(r, micro_name(header_, r) + " before its forward ended");
  if (makes_input_gradient(r)) --held_;
  const auto listed = versions_.find({r.minibatch - range_.first, r.microbatch});
  if (header_.stashes_weights && r.version_read != forward->version_read)
    fail(r, micro_name(header_, r) + " read version " + std::to_string(r.version_read) + ", its forward read " +
                std::to_string(forward->version_read));
  else if (!header_.stashes_weights && header_.plan.window == 0 && listed != versions_.end() &&
           r.version_read != base_ + listed->second.second)
    fail(r, micro_name(header_, r) + " read version " + std::to_string(r.version_read) + ", the newest is " +
                std::to_string(base_ + listed->second.second));
}

void stage_check::take_update(const trace_record& r) {
  const auto done = static_cast<std::int64_t>(update_ends_.size());
  update_ends_.push_back(r.end_ns);
  const std::int64_t version = base_ + done;
  if (r.version_read != version || r.version_written != version + 1)
    return fail_update(r, "update from version " + std::to_string(r.version_read) + " to " +
                              std::to_string(r.version_written) + ", wanted from " + std::to_string(version) + " to " +
                              std::to_string(version + 1));
  if (r.minibatch != first_of_group(done))
    return fail_update(r, "update to version " + std::to_string(version + 1) + " is of minibatch " +
                              std::to_string(r.minibatch) + ", wanted " + std::to_string(first_of_group(done)));
  const auto begin = (first_of_group(done) - range_.first) * schedule_.microbatches;
  const auto end = std::min((first_of_group(done + 1) - range_.first) * schedule_.microbatches, micro_count_);
  for (auto i = begin; i < end; ++i) {
    if (planner::replica_of(schedule_, stage_, i / schedule_.microbatches,
                            static_cast<std::int32_t>(i % schedule_.microbatches)) != walked_)
      continue;
    const trace_record* backward = weights_[static_cast<std::size_t>(i)];
    if (backward != nullptr && backward->end_ns > r.begin_ns)
      return fail_update(
          r, "update to version " + std::to_string(version + 1) + " before the end of the " +
                 std::string(name_of(backward->kind)) + " of " +
                 micro_name(header_, range_.first + i / schedule_.microbatches, i % schedule_.microbatches));
  }
}

void stage_check::follow_list(const trace_record& r) {
  if (header_.plan.window > 0 || next_in_order_ >= order_.size()) return;
  const planner::action& listed = order_[next_in_order_++];
  if (listed.kind == action_of(r.kind) && listed.minibatch == r.minibatch - range_.first &&
      listed.microbatch == r.microbatch)
    return;
  found_.add(r.begin_ns,
             who(r.replica) + micro_name(header_, r) + " where the schedule has the " +
                 std::string(name_of(span_of(listed.kind))) + " of " +
                 micro_name(header_, range_.first + listed.minibatch, listed.microbatch),
             violations::weight::consequence);
}

void stage_check::walk_replica(int replica, const records_view& records) {
  walked_ = replica;
  versions_.clear();
  order_.clear();
  next_in_order_ = 0;
  update_ends_.clear();
  held_ = 0;
  planner::sequence listed(schedule_, {planner::position_of(schedule_, stage_), replica});
  while (const auto a = listed.next()) {
    if (a->kind == planner::action_kind::update || a->stage != stage_) continue;
    auto& versions = versions_[{a->minibatch, a->microbatch}];
    (a->kind == planner::action_kind::forward ? versions.first : versions.second) = a->version;
    order_.push_back(*a);
  }
  for (const trace_record* r : records) {
    if (r->kind == span_kind::update) take_update(*r);
    if (r->kind == span_kind::update || !is_placed_right(*r)) continue;
    r->kind == span_kind::forward ? take_forward(*r) : take_backward(*r);
    follow_list(*r);
  }
  updates_.push_back(std::move(update_ends_));
}

void stage_check::check_update_counts() {
  const auto wanted = planner::updates_of(schedule_, stage_);
  for (std::size_t replica = 0; replica < updates_.size(); ++replica) {
    const auto& ends = updates_[replica];
    const auto done = static_cast<std::int64_t>(ends.size());
    if (done < wanted)
      found_.add(at_the_end,
                 who_updates(static_cast<int>(replica)) + "no update to version " + std::to_string(base_ + done + 1));
    if (done > wanted)
      found_.add(ends[static_cast<std::size_t>(wanted)], who_updates(static_cast<int>(replica)) + std::to_string(done) +
                                                             " updates between two drains, wanted " +
                                                             std::to_string(wanted));
  }
}

void stage_check::check_nothing_is_missing() {
  for (std::int64_t i = 0; i < micro_count_; ++i) {
    const auto* forward = forwards_[static_cast<std::size_t>(i)];
    const auto* backward = backwards_[static_cast<std::size_t>(i)];
    const auto* weight = weights_[static_cast<std::size_t>(i)];
    if (forward != nullptr && (is_frozen() || (backward != nullptr && weight != nullptr))) continue;
    const auto missing = forward == nullptr                         ? span_kind::forward
                         : backward == nullptr && weight == nullptr ? span_kind::backward
                         : backward == nullptr                      ? span_kind::backward_input
                                                                    : span_kind::backward_weight;
    const auto minibatch = i / schedule_.microbatches;
    const auto microbatch = static_cast<std::int32_t>(i % schedule_.microbatches);
    found_.add(at_the_end, who(planner::replica_of(schedule_, stage_, minibatch, microbatch)) + "no " +
                               std::string(name_of(missing)) + " of " +
                               micro_name(header_, range_.first + minibatch, microbatch));
    return;
  }
}

void stage_check::check_order_between(const stage_check& left, const stage_check& right) {
  const auto complain = [&](const trace_record* first, const trace_record* second) {
    if (first == nullptr || second == nullptr || first->end_ns <= second->begin_ns) return;
    left.found_.add(second->begin_ns, actor_name(left.header_, second->stage, second->replica) + ": " +
                                          micro_name(left.header_, *second) + " before stage " +
                                          std::to_string(first->stage) + " sent what it needs");
  };
  for (std::size_t i = 0; i < left.forwards_.size(); ++i) {
    complain(left.forwards_[i], right.forwards_[i]);
    complain(right.backwards_[i], left.backwards_[i]);
  }
}

/// The whole epoch: cuts it at its drains and checks each part.
class epoch_walk {
public:
  epoch_walk(const checked_epoch& epoch, const trace_header& header, const std::vector<trace_record>& records,
             violations& found)
      : epoch_(epoch), header_(header), found_(found) {
    check_messages(epoch, header, records, found_);
    for (const auto& r : records)
      if (is_training(r)) by_stretch_[r.stretch].push_back(&r);
    find_recorders();
  }

  void run();

private:
  void find_recorders();
  bool find_ranges();
  bool has_every_minibatch(const stretch_range& range);
  void check_stretch(const stretch_range& range);
  std::int64_t base_version(int stage) const;
  void check_quiet_between();

  const checked_epoch& epoch_;
  const trace_header& header_;
  std::map<int, records_view> by_stretch_;
  std::vector<stretch_range> ranges_;
  std::vector<std::int64_t> versions_; // of each stage at the last drain
  // By stage and replica: the replica whose recorded updates stand for its own; see check_history.
  std::vector<std::vector<int>> recorders_;
  violations& found_;
};

void epoch_walk::find_recorders() {
  std::set<std::pair<int, int>> recording; // stage and replica
  for (const auto& [id, records] : by_stretch_)
    for (const trace_record* r : records)
      if (r->kind == span_kind::update) recording.emplace(r->stage, r->replica);
  for (int s = 0; s < static_cast<int>(header_.plan.stages.size()); ++s) {
    std::map<int, std::vector<int>> by_rank;
    for (int r = 0; r < header_.plan.stages[static_cast<std::size_t>(s)].replicas; ++r)
      by_rank[rank_of(header_, s, r)].push_back(r);
    auto& of_stage = recorders_.emplace_back(header_.plan.stages[static_cast<std::size_t>(s)].replicas);
    for (const auto& [rank, local] : by_rank) {
      const bool each_itself = std::any_of(local.begin() + 1, local.end(), [&, s = s](int r) {
        return recording.contains({s, r});
      });
      for (const int r : local)
        of_stage[static_cast<std::size_t>(r)] = each_itself ? r : local.front();
    }
  }
}

bool epoch_walk::find_ranges() {
  for (const auto& [id, records] : by_stretch_) {
    std::int64_t least = at_the_end;
    for (const trace_record* r : records)
      if (r->minibatch >= 0) least = std::min(least, r->minibatch);
    if (ranges_.empty() && !epoch_.is_first && header_.first_minibatch < std::min(least, header_.minibatches)) {
      found_.place = place_of(epoch_, id);
      found_.add(records.front()->begin_ns,
                 "no forward of minibatch " + std::to_string(header_.first_minibatch) + " on any stage");
      return false;
    }
    if (!ranges_.empty()) ranges_.back().end = least;
    ranges_.push_back({id, least, header_.minibatches});
  }
  if (header_.first_minibatch >= 0 && !ranges_.empty() &&
      (!epoch_.is_first || ranges_.front().first > header_.first_minibatch))
    ranges_.front().first = header_.first_minibatch;
  for (const auto& range : ranges_) {
    if (range.first < range.end) continue;
    const trace_record& r = *by_stretch_[range.id].front();
    found_.place = place_of(epoch_, range.id);
    const bool is_late = range.end == header_.minibatches;
    found_.add(r.begin_ns, actor_name(header_, r.stage, r.replica) + ": " + micro_name(header_, r) +
                               (is_late ? " after the end: " + epoch_.end : " trained again after a drain"));
    return false;
  }
  return true;
}

/// Guards the arrays that follow: a header may claim any number of minibatches.
bool epoch_walk::has_every_minibatch(const stretch_range& range) {
  const auto& records = by_stretch_[range.id];
  found_.place = place_of(epoch_, range.id);
  const auto stages = static_cast<std::int64_t>(header_.plan.stages.size());
  const auto frozen = knows_frozen_stages(header_.plan) ? frozen_stages_of(header_.plan) : 0;
  // A forward and a backward of every micro-batch on every stage; of a frozen one no backward.
  const auto per_minibatch = (2 * stages - frozen) * header_.plan.microbatches;
  if (range.end - range.first <= static_cast<std::int64_t>(records.size()) / per_minibatch) return true;
  records_view sorted;
  for (const trace_record* r : records)
    if (r->kind == span_kind::forward || makes_input_gradient(*r)) sorted.push_back(r);
  const auto key = [](const trace_record* r) {
    return std::tuple(r->minibatch, r->microbatch, r->stage,
                      r->kind == span_kind::forward ? span_kind::forward : span_kind::backward);
  };
  std::sort(sorted.begin(), sorted.end(), [&](auto* a, auto* b) { return key(a) < key(b); });
  auto at = sorted.begin();
  for (std::int64_t i = range.first; i < range.end; ++i)
    for (std::int32_t m = 0; m < header_.plan.microbatches; ++m)
      for (std::int16_t s = 0; s < stages; ++s)
        for (const auto kind : {span_kind::forward, span_kind::backward}) {
          if (kind == span_kind::backward && s < frozen) continue;
          const auto wanted = std::tuple(i, m, s, kind);
          while (at != sorted.end() && key(*at) < wanted)
            ++at;
          if (at != sorted.end() && key(*at) == wanted) continue;
          found_.add(at_the_end, "stage " + std::to_string(s) + ": no " + std::string(name_of(kind)) + " of " +
                                     micro_name(header_, i, m));
          return false;
        }
  return true;
}

/// A fresh run and every later plan start at 0; a resumed run where its first minibatch's forward says.
std::int64_t epoch_walk::base_version(int stage) const {
  if (ranges_.front().first == 0 || !epoch_.is_first) return 0;
  for (const trace_record* r : by_stretch_.at(ranges_.front().id))
    if (r->stage == stage && r->kind == span_kind::forward && r->minibatch == ranges_.front().first)
      return r->version_read;
  return 0;
}

void epoch_walk::check_stretch(const stretch_range& range) {
  found_.place = place_of(epoch_, range.id);
  planner::schedule schedule;
  try {
    schedule = planner::resolve_schedule(request_of(header_.plan, range.end - range.first));
  } catch (const std::invalid_argument& refused) {
    found_.add(0, std::string("the header's schedule cannot be: ") + refused.what());
    return;
  }
  std::map<std::pair<int, int>, records_view> by_replica;
  for (const trace_record* r : by_stretch_[range.id]) {
    if (r->kind != span_kind::update) {
      by_replica[{r->stage, r->replica}].push_back(r);
      continue;
    }
    const auto& recorders = recorders_[static_cast<std::size_t>(r->stage)];
    for (std::size_t replica = 0; replica < recorders.size(); ++replica)
      if (recorders[replica] == r->replica) by_replica[{r->stage, static_cast<int>(replica)}].push_back(r);
  }
  std::vector<stage_check> stages;
  stages.reserve(header_.plan.stages.size());
  for (int s = 0; s < static_cast<int>(header_.plan.stages.size()); ++s) {
    auto& version = versions_[static_cast<std::size_t>(s)];
    auto& stage = stages.emplace_back(epoch_, header_, schedule, range, s, version,
                                      recorders_[static_cast<std::size_t>(s)], found_);
    const int replicas = header_.plan.stages[static_cast<std::size_t>(s)].replicas;
    for (int r = 0; r < replicas; ++r)
      stage.walk_replica(r, by_replica[{s, r}]);
    stage.check_nothing_is_missing();
    stage.check_update_counts();
    version += planner::updates_of(schedule, s);
    if (s > 0) stage_check::check_order_between(stages[static_cast<std::size_t>(s - 1)], stage);
  }
  check_turns(header_, schedule, by_stretch_[range.id], range.first, found_);
}

void epoch_walk::check_quiet_between() {
  std::map<std::pair<int, int>, std::int64_t> busy_until;
  for (const auto& range : ranges_) {
    found_.place = place_of(epoch_, range.id);
    auto until = busy_until;
    for (const trace_record* r : by_stretch_[range.id]) {
      if (const auto at = busy_until.find({r->stage, r->replica}); at != busy_until.end() && r->begin_ns < at->second)
        found_.add(r->begin_ns, actor_name(header_, r->stage, r->replica) + ": " + micro_name(header_, *r) +
                                    " before the drain ahead of it was over");
      auto& end = until[{r->stage, r->replica}];
      end = std::max(end, r->end_ns);
    }
    busy_until = std::move(until);
  }
}

void epoch_walk::run() {
  if (by_stretch_.empty()) {
    const auto first = std::max<std::int64_t>(0, header_.first_minibatch);
    found_.place = epoch_.is_named ? "plan epoch " + std::to_string(epoch_.number) + ": " : "";
    if (header_.minibatches > first)
      found_.add(at_the_end, "no forward of minibatch " + std::to_string(first) + " on any stage");
    return;
  }
  if (!find_ranges()) return;
  for (int s = 0; s < static_cast<int>(header_.plan.stages.size()); ++s)
    versions_.push_back(base_version(s));
  for (const auto& range : ranges_) {
    if (!has_every_minibatch(range)) break;
    check_stretch(range);
  }
  check_quiet_between();
}

} // namespace

std::string place_of(const checked_epoch& epoch, int stretch) {
  if (!epoch.is_named) return {};
  const auto what =
      stretch < 0 ? "evaluation " + std::to_string(-std::int64_t{stretch}) : "stretch " + std::to_string(stretch);
  return "plan epoch " + std::to_string(epoch.number) + ", " + what + ": ";
}

void check_epoch(const checked_epoch& epoch, const trace_header& header, const std::vector<trace_record>& records,
                 violations& found) {
  epoch_walk(epoch, header, records, found).run();
}

} // namespace penstock::actors
