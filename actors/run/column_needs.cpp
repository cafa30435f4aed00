// Columns, blocks and replicas.
#include "actors/run/column_needs.hpp"

#include "actors/checkpoint/checkpoint.hpp"
#include "actors/ranks/job.hpp"
#include "kernels/check.hpp"

#include <numeric>

namespace penstock::actors {

namespace {

std::string first_carried(const model& net) {
  for (int l = 0; l < static_cast<int>(net.layers().size()); ++l)
    if (const auto all = net.carried(l); !all.empty()) return all.front().name;
  return "";
}

void require_agreement(const run_options& o, const run_inputs& in) {
  const bool carries = in.net->carries();
  for (const auto* data : {in.train, in.test}) {
    if (data == nullptr) continue;
    const auto how = data == in.train ? training_batches(o) : evaluation_batches(o, o.eval_batch);
    const auto columns = data->columns(how);
    if (carries && columns == 0)
      throw usage_error("data: " + in.net->name() + " hands " + first_carried(*in.net) +
                        " from one minibatch to the next, and the minibatches of this data are independent of each "
                        "other; wanted a stream of text");
    if (!carries && columns > 0)
      throw usage_error("data: its minibatches continue each other in " + std::to_string(columns) + " columns, and " +
                        in.net->name() +
                        " hands nothing from one to the next; wanted a recurrent language model, or data of samples");
    check(columns == 0 || columns == how.batch * how.column_blocks, "a column block is a minibatch's samples");
  }
}

} // namespace

int column_blocks_of(const planner::execution_plan& plan) {
  std::int64_t blocks = 1;
  for (const auto& stage : plan.stages) {
    blocks = std::lcm(blocks, static_cast<std::int64_t>(stage.replicas));
    if (blocks > 1'000'000)
      throw usage_error(
          "the replica counts have a least common multiple above 1000000: so many blocks of batch columns "
          "no data has");
  }
  return static_cast<int>(blocks);
}

// Rank 0 alone has the checkpoint.
int column_blocks_of(const planner::execution_plan& plan, const run_options& o, const job* ranks) {
  if (!o.resume) return column_blocks_of(plan);
  std::string text;
  if (ranks == nullptr || ranks->rank() == 0) text = std::to_string(column_blocks_of_checkpoint(o.checkpoint));
  if (ranks != nullptr) text = ranks->control.broadcast("blocks of batch columns", text, ranks->patience);
  return std::stoi(text);
}

void settle_columns(resolved_run& plan, const run_inputs& in) {
  auto& o = plan.options;
  if (in.net->carries())
    o.column_blocks = in.column_blocks > 0 ? in.column_blocks : column_blocks_of(*plan.plan, o, in.ranks);
  require_agreement(o, in);
  if (!in.net->carries()) return;
  plan.columns = o.batch * o.column_blocks;
  require_fitting_replicas(plan, *in.net);
}

void require_fitting_replicas(const resolved_run& plan, const model& net) {
  if (!net.carries()) return;
  const bool deals_minibatches = plan.dealing.updates.per_minibatch_group;
  const std::int64_t parts = deals_minibatches ? plan.options.column_blocks : plan.plan->microbatches;
  for (const auto& stage : plan.dealing.stages) {
    if (parts % stage.replicas == 0) continue;
    const auto where = "stage " + std::to_string(&stage - plan.dealing.stages.data()) + " has " +
                       std::to_string(stage.replicas) + " replicas, and ";
    const std::string why = ": a batch column would go to several of them, and what " + net.name() +
                            " hands on from minibatch to minibatch stays with one";
    if (deals_minibatches)
      throw usage_error(where + "the run has its " + std::to_string(plan.columns) + " batch columns in " +
                        std::to_string(parts) + (parts == 1 ? " block" : " blocks") + why +
                        "; wanted replica counts that divide " + std::to_string(parts));
    const std::int64_t round = column_blocks_of(*plan.plan);
    throw usage_error(where + "a minibatch has " + std::to_string(parts) +
                      (parts == 1 ? " micro-batch" : " micro-batches") + why + "; wanted --microbatches " +
                      std::to_string((parts + round - 1) / round * round));
  }
}

void require_carried(const resolved_run& plan, const pipeline& built, std::int64_t done) {
  if (plan.columns == 0 || done % plan.drains.per_epoch < plan.options.column_blocks) return;
  for (const auto& s : built.stages)
    if (s.is_local() && !s.layers->carried().empty() && s.first_local().carried.empty())
      throw error("[checkpoint] " + plan.options.checkpoint.string() + " is torn or damaged: '" +
                  s.layers->carried().front().name + "', which minibatches hand on, is missing");
}

bool moves_columns(const resolved_run& plan, std::int64_t minibatches) {
  return plan.dealing.updates.per_minibatch_group && minibatches % plan.options.column_blocks != 0;
}

std::shared_ptr<const named_tensors> gather_carried(executor& run, const pipeline& built, bundle_transfers* transfers) {
  memory_pool pool;
  auto all = collect_snapshots(built, run.collect(copy_of::carried), transfers, pool);
  all = spread_snapshots(std::move(all), built, transfers, pool);
  return std::make_shared<const named_tensors>(carried_of(all, *built.net, pool));
}

} // namespace penstock::actors
