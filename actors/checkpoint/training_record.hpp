// What decides a run's numbers, as text for a checkpoint: a resumed run says what it does otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace penstock::actors {

struct resolved_run;
struct run_inputs;

/// By the name that a person knows it by: an option, or a fact such as "compute library".
using training_record = std::map<std::string, std::string>;

/// The name of batching::column_blocks, where minibatches continue each other.
inline constexpr const char* column_blocks_record = "blocks of batch columns";

/// Of a resolved plan. What a checkpoint must agree on anyway (model, data, batch, seed, optimizer) is not in it.
training_record record_of(const resolved_run& plan, const run_inputs& inputs);

/// One line for each difference: "--lr 0.1 -> 0.05". What one of the two lacks is "not given".
std::vector<std::string> differences(const training_record& saved, const training_record& now);

/// "learning rate 0.0067 at step 8 -> 0.0611 at step 9": of the last step done and of the next.
std::string rate_change(double last, std::int64_t step, double next);

} // namespace penstock::actors
