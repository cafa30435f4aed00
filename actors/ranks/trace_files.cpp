// Rank files: recorded apart, gathered, merged.
#include "actors/ranks/trace_files.hpp"

#include "actors/trace/merge.hpp"
#include "kernels/atomic_file.hpp"

#include <fstream>

namespace penstock::actors {

namespace fs = std::filesystem;

namespace {

fs::path rank_file(const fs::path& file, int rank) {
  return file.string() + ".rank" + std::to_string(rank);
}

// Ranks of one machine share a clock, and a name with nobody else.
std::vector<std::string> host_names(const std::vector<transport::member>& members) {
  std::vector<std::string> names;
  for (std::size_t r = 0; r < members.size(); ++r) {
    auto name = members[r].host;
    for (std::size_t before = 0; before < r; ++before)
      if (members[before].host == members[r].host && members[before].host_identity != members[r].host_identity)
        name = members[r].host + " (rank " + std::to_string(r) + ")";
    for (std::size_t before = 0; before < r; ++before)
      if (members[before].host_identity == members[r].host_identity) name = names[before];
    names.push_back(std::move(name));
  }
  return names;
}

tensor file_bytes(const fs::path& file, memory_pool& pool) {
  std::ifstream in(file, std::ios::binary);
  const auto size = static_cast<std::int64_t>(fs::file_size(file));
  auto bytes = tensor::allocate(pool, dtype::u8, {size}, memory_use::scratch);
  if (!in.read(reinterpret_cast<char*>(bytes.raw()), size)) throw error("[trace] cannot read " + file.string());
  return bytes;
}

} // namespace

trace_files::trace_files(fs::path file, trace_header header, const job* ranks)
    : file_(std::move(file)), own_(file_), ranks_(ranks) {
  if (ranks_ != nullptr) {
    own_ = rank_file(file_, ranks_->rank());
    header.rank = ranks_->rank();
    header.hosts = host_names(ranks_->control.members());
    header.clock_offset_ns = ranks_->control.clock_offset_ns();
    header.run = ranks_->control.broadcast("trace", std::to_string(trace_recorder::now_ns()), ranks_->patience);
  }
  recorder_ = std::make_unique<trace_recorder>(own_, std::move(header));
}

trace_files::result trace_files::close(std::int64_t minibatches, bundle_transfers* transfers) {
  result r;
  close_own(minibatches, r);
  if (ranks_ == nullptr) return r;
  if (ranks_->rank() == 0) {
    gather(*transfers, r);
    return r;
  }
  memory_pool pool;
  bundle b{std::to_string(r.dropped) + " " + r.failure, {}};
  if (r.failure.empty()) b.tensors["file"] = file_bytes(own_, pool);
  transfers->send(0, b);
  std::error_code ignored;
  fs::remove(own_, ignored);
  return r;
}

void trace_files::close_own(std::int64_t minibatches, result& r) {
  try {
    if (ranks_ != nullptr) recorder_->set_clock_offset(ranks_->control.clock_offset_ns());
    recorder_->close(minibatches);
  } catch (const error& e) {
    r.failure = e.what();
  }
  r.dropped = recorder_->dropped();
}

void trace_files::gather(bundle_transfers& transfers, result& r) {
  std::vector<fs::path> files{own_};
  for (int rank = 1; rank < ranks_->size(); ++rank) {
    memory_pool pool;
    const auto b = transfers.receive(rank, pool); // from every rank, whatever fails here
    const auto space = b.text.find(' ');
    r.dropped += std::stoll(b.text.substr(0, space));
    if (r.failure.empty()) r.failure = b.text.substr(space + 1);
    if (!r.failure.empty()) continue;
    try {
      const auto& bytes = b.tensors.at("file");
      files.emplace_back(rank_file(file_, rank).string() + ".received");
      atomic_file out(files.back());
      out.write(bytes.raw(), bytes.bytes());
      out.commit();
    } catch (const error& e) {
      r.failure = e.what();
    }
  }
  try {
    if (r.failure.empty()) merge_traces(files, file_);
  } catch (const error& e) {
    r.failure = e.what();
  }
  std::error_code ignored;
  for (const auto& f : files)
    fs::remove(f, ignored);
}

} // namespace penstock::actors
