// The metrics of a run as a file: one JSON object a line, each complete as soon as it is written.
#pragma once

#include "actors/trainer.hpp"
#include "apps/runner/prepare.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>

namespace penstock::apps {

enum class metrics_start : std::uint8_t { anew, appended };

/// What the summary says of a run beside what it did.
struct run_facts {
  const app_options& options;
  const prepared_run& run;
  int processes = 1;
  std::chrono::system_clock::time_point started;
  std::vector<std::pair<std::string, double>> seconds_by_part;
};

/// Not thread-safe.
class metrics_file {
public:
  /// Throws penstock::error naming the file when it cannot be opened.
  metrics_file(std::filesystem::path file, metrics_start start);

  /// Each throws penstock::error naming the file when the disk refuses the line; later ones then do nothing.
  void step(const actors::step_event& event);
  void eval(const actors::eval_event& event);
  void summary(const actors::run_summary& summary, const run_facts& facts);

private:
  void write(const std::string& line);

  std::filesystem::path path_;
  std::ofstream out_;
  bool broken_ = false;
};

} // namespace penstock::apps
