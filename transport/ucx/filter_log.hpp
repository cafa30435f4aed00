// Keeps UCX from ending this process because another one has died, and from warning of what is done on purpose.
#pragma once

namespace penstock::transport {

/// UCX 1.13 aborts when a peer dies while its memory is being read (CMA), where connections report no failures, though
/// it is able to fail the transfer instead: after this call it does that. It also says nothing more of requests that
/// are left when a worker is destroyed. Before the first context; more calls do no more. Thread safe.
void filter_ucx_log();

} // namespace penstock::transport
