// Asks the planner for what a header names.
#include "actors/trace/header_schedule.hpp"

namespace penstock::actors {

planner::schedule_request request_of(const trace_header& header, std::int64_t minibatches) {
  planner::schedule_request request;
  request.name = header.schedule;
  request.replicas = header.replicas;
  request.microbatches = header.microbatches;
  request.window = header.window;
  request.minibatches = minibatches;
  request.in_flight = {planner::in_flight_spec::mode::given, header.credits};
  return request;
}

} // namespace penstock::actors
