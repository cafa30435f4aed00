// Pieces by column, as micro-batches leave them; what comes from elsewhere is cut as they are.
#include "actors/stage/carried_columns.hpp"

#include "kernels/check.hpp"

#include <cstring>

namespace penstock::actors {

namespace {

shape with_rows(std::int64_t rows, const shape& dims) {
  shape all{rows};
  all.insert(all.end(), dims.begin(), dims.end());
  return all;
}

} // namespace

std::vector<column_range> columns_of(const stretch& run, int stage, int replica) {
  std::vector<column_range> own;
  if (run.columns == 0) return own;
  const auto batch = run.columns / run.column_blocks;
  for (int block = 0; block < run.column_blocks; ++block) {
    // Blocks come in turn, so it is dealt as the first minibatch of the stretch that takes it.
    const auto behind = (block - run.first_minibatch % run.column_blocks + run.column_blocks) % run.column_blocks;
    column_range part{block * batch, 0};
    for (int m = 0; m < run.schedule.microbatches; ++m, part.first += part.count) {
      part.count = planner::microbatch_samples(batch, run.schedule.microbatches, m);
      if (replica < 0 || planner::replica_of(run.schedule, stage, behind, m) == replica) own.push_back(part);
    }
  }
  return own;
}

void carried_columns::begin(const stretch& run, std::vector<column_range> own) {
  if (!is_needed()) return;
  own_ = std::move(own);
  if (run.carried == nullptr) return;
  pieces_.clear();
  all_.clear();
  for (const auto& s : *specs_)
    all_.push_back(run.carried->at(s.name));
}

tensor carried_columns::rows_of(std::size_t index, const column_range& columns, memory_pool& pool) const {
  const auto& spec = (*specs_)[index].spec;
  auto rows = tensor::allocate(pool, spec.type, with_rows(columns.count, spec.dims), memory_use::optimizer_state);
  if (all_.empty()) {
    std::memset(rows.raw(), 0, rows.bytes());
    return rows;
  }
  const auto& all = all_[index];
  check(columns.first + columns.count <= all.dim(0), "columns that are not there");
  const auto row = all.bytes() / static_cast<std::size_t>(all.dim(0));
  std::memcpy(rows.raw(), all.raw() + row * static_cast<std::size_t>(columns.first), rows.bytes());
  return rows;
}

std::vector<tensor> carried_columns::take(backend& ops, const microbatch_info& info) const {
  if (!is_needed() || info.time_block == 0) return {};
  const auto piece = pieces_.find(info.column);
  if (piece != pieces_.end() && piece->second.front().dim(0) == info.samples) return piece->second;
  if (piece != pieces_.end() || all_.empty())
    throw error("[state] nothing was carried to columns " + std::to_string(info.column) + " to " +
                std::to_string(info.column + info.samples - 1) + " of " + specs_->front().name + ", time block " +
                std::to_string(info.time_block) + " of the epoch");
  memory_pool pool;
  std::vector<tensor> taken;
  for (std::size_t i = 0; i < specs_->size(); ++i)
    taken.push_back(ops.from_host(rows_of(i, {info.column, info.samples}, pool), memory_use::optimizer_state));
  return taken;
}

void carried_columns::put(const microbatch_info& info, std::vector<tensor> handed_on) {
  if (is_needed()) pieces_[info.column] = std::move(handed_on);
}

named_tensors carried_columns::copy(backend& ops, memory_pool& pool, bool speaks_for_all) const {
  named_tensors copies;
  const auto add = [&](std::int64_t first, std::size_t i, tensor t) {
    copies[std::to_string(first) + "/" + (*specs_)[i].name] = std::move(t);
  };
  if (!own_ && speaks_for_all && !all_.empty())
    for (std::size_t i = 0; i < specs_->size(); ++i)
      add(0, i, all_[i]);
  for (const auto& range : own_.value_or(std::vector<column_range>())) {
    const auto piece = pieces_.find(range.first);
    for (std::size_t i = 0; i < specs_->size(); ++i)
      add(range.first, i, piece != pieces_.end() ? ops.to_host(piece->second[i], pool) : rows_of(i, range, pool));
  }
  return copies;
}

tensor join_columns(const std::map<std::int64_t, tensor>& pieces, const state_spec& spec, memory_pool& pool,
                    const std::string& what) {
  std::int64_t columns = 0;
  for (const auto& [first, t] : pieces) {
    if (first != columns)
      throw error(what + " has columns from " + std::to_string(first) + " behind " + std::to_string(columns));
    if (t.rank() == 0 || t.type() != spec.type || t.dims() != with_rows(t.dim(0), spec.dims))
      throw error(what + " has shape " + to_string(t.dims()) + ", wanted " + to_string(spec.dims) + " for each column");
    columns += t.dim(0);
  }
  if (pieces.size() == 1) return pieces.begin()->second;
  auto all = tensor::allocate(pool, spec.type, with_rows(columns, spec.dims), memory_use::scratch);
  auto* to = all.raw();
  for (const auto& [first, t] : pieces) {
    std::memcpy(to, t.raw(), t.bytes());
    to += t.bytes();
  }
  return all;
}

} // namespace penstock::actors
