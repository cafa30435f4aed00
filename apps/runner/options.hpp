// What a person asked of an app, in the words of its command line.
#pragma once

#include "actors/policy/settle_plan.hpp"
#include "actors/profiler/shape_shares.hpp"
#include "actors/run_options.hpp"
#include "apps/data/text_options.hpp"
#include "apps/models/registry.hpp"
#include "apps/runner/command_line.hpp"
#include "apps/runner/replan_options.hpp"

#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace penstock::apps {

/// `--plan` and what a person fixes of a plan that is to be found.
struct plan_options {
  std::string source;                     ///< "": by hand; "auto": profile, plan and run; else a plan's file
  std::string cluster;                    ///< auto: a cluster's file instead of this machine's measures
  int workers = 0;                        ///< auto: at most so many; 0: as many as there are cores
  bool any = false;                       ///< auto:any: schedules and micro-batches are sought as well
  std::vector<std::string> schedules;     ///< auto: only these; empty: all
  std::vector<std::string> keep_together; ///< auto: layers that no cut may part
  int stages = 0;                         ///< auto: exactly so many; 0: free
  bool fixes_chunks = false;              ///< auto: pipeline.chunks was given
  bool fixes_replicas = false;            ///< auto: pipeline.replicas was given
  bool fixes_microbatches = false;
  std::string in_flight;                   ///< auto: as given
  std::string update_lag;                  ///< auto: as given
  std::int64_t last_batch = 0;             ///< auto: samples of an epoch's shorter last minibatch; 0: there is none
  std::vector<actors::shape_share> shapes; ///< auto: of the data's minibatches; empty: nominal
  std::string save;                        ///< where the plan that runs is written
  std::string cache;                       ///< auto: where plans are kept (plan_cache.hpp)
  std::vector<change_request> changes;     ///< --replan, ascending
};

/// Where a person says what a launcher's variables say else, and how the processes of a job meet.
struct job_options {
  int rank = -1;     ///< -1: not given
  int processes = 0; ///< 0: not given
  std::string master;
  std::string transport = "auto"; ///< auto, shm or tcp
  std::string devices;            ///< network devices for tensors; empty: loopback, or what leads to rank 0
  bool poll = false;
  double join_seconds = 60;    ///< until all processes are there
  double silence_seconds = 4;  ///< a process that says nothing for so long is lost
  std::string on_loss = "end"; ///< or shrink
};

struct app_options {
  std::string model;                 ///< name in the registry
  actors::pipeline_request pipeline; ///< what of it a plan does not decide; cuts stay empty until the model is known
  actors::run_options run;
  model_options network;                        ///< classes 0: what the data set has
  std::map<std::string, std::string> own_texts; ///< the model's own options as declared, by name; "": not given
  std::map<std::string, bool> own_switches;
  text_options text;
  std::string data = "synthetic";
  bool data_given = false;
  bool augment = true;
  std::string broken_images = "refuse";    ///< or skip
  std::string exif_orientation = "ignore"; ///< or apply
  std::int64_t synthetic_samples = 1024;
  std::vector<std::string> cuts;  ///< names of the layers at which stages 1, 2, ... begin
  std::string lr_schedule;        ///< as given
  std::string recompute = "none"; ///< none, all, or stage numbers with commas
  std::string frozen_until;       ///< name of the first layer that is not frozen; empty: none is
  plan_options plan;
  job_options job;
  std::vector<std::string> plugins;
  std::vector<std::string> replace_layers;
  bool resume_auto = false; ///< from the checkpoint if there is one (then run.resume becomes true), else anew
  std::filesystem::path metrics;
  std::optional<transport::launch> control; ///< where rank 0 listens for changes of plan
  bool dry_run = false;
  std::string config; ///< --print-config: every option as it stands, as one JSON object; else empty
  /// Every option that must be the same in all processes of a job, with its value.
  std::vector<std::pair<std::string, std::string>> shared;
};

/// Reads the arguments (without the program's name) and checks the form of each and how they fit together; opens no
/// file. Returns nothing when help was asked for, which was then written to `help`. Throws usage_error, one line that
/// names the option, what was found and what was wanted.
std::optional<app_options> parse_options(std::string_view model, std::span<const std::string> arguments,
                                         std::string& help);

/// Who this process is in a job and how its processes meet; shared by the apps and `penstock cluster measure`.
void declare_job_options(command_line& line, job_options& job);

/// Geometry of the model and its plug-ins, shared by the apps and `penstock profile`.
void declare_model_options(command_line& line, app_options& o);

/// The numbers of "1,2,1". Throws usage_error naming `option` and the part that is no whole number from `least` to
/// `most`.
std::vector<int> parse_counts(const std::string& option, const std::string& text, int least,
                              int most = std::numeric_limits<int>::max());

/// The words of "conv2,fc1". Throws usage_error naming `option` for an empty one.
std::vector<std::string> parse_words(const std::string& option, const std::string& text);

/// Options of a schedule, shared by the apps and `penstock schedule`.
struct schedule_texts {
  std::string schedule = "pipedream";
  std::string in_flight;
  std::string update_lag;
  std::string replicas;
  std::int64_t stages = 0; ///< 0: as many as replicas has, else 1
  int chunks = 0;          ///< 0: the schedule's own
  std::int64_t microbatches = 0;
  int window = 0;
};
void declare_schedule_options(command_line& line, schedule_texts& texts);
/// Checks the name (with the nearest), the lists and the stage count against the list. Throws usage_error.
actors::pipeline_request read_schedule_options(const schedule_texts& texts);

} // namespace penstock::apps
