// Scheduler probe: runs the persistent tile scheduler on a GPU and records every tile, computing nothing.
// Any NVIDIA GPU from sm_70; clusters are taken from blockIdx, so that no cluster launch is needed.
//
//   role       warps   records with   scheduler
//   tma        0       thread 0       its own instance
//   mma        1       thread 32      its own instance
//   epilogue   4 to 7  thread 128     its own instance
//
// Grid: launched * cluster_m CTAs of kNumThreads threads. `num_workers` is the stride of the ids; launching another
// number of workers is how a mismatch of the two is shown.
#define TILESCHED_TRACE 1
#include "tile_scheduler.cuh"
#include "trace.cuh"

namespace {

constexpr int kNumThreads = 256;
constexpr int kNumRoles = 3;
constexpr int kNoRole = -1;

// The thread that records for a role, as its warps are laid out in the seed's kernels.
__device__ __forceinline__ int role_of_thread(int thread) {
  return thread == 0 ? 0 : thread == 32 ? 1 : thread == 128 ? 2 : kNoRole;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kNumThreads)
    tilesched_probe(int clusters_m, int tiles_n, int cluster_m, int num_workers, int panel_width, int order,
                    tilesched::TraceRecord* records, int* counts, int capacity) {
  const int role = role_of_thread(static_cast<int>(threadIdx.x));
  if (role == kNoRole) return;

  const int cta = static_cast<int>(blockIdx.x);
  const int worker = cta / cluster_m;
  const int rank_m = cta % cluster_m;
  const tilesched::TraceBuffer buffer{records, counts, kNumRoles, capacity};
  TILESCHED_TRACE_OPEN(recorder, buffer, cta, role);

  tilesched::PersistentTileScheduler sched(clusters_m, tiles_n, num_workers, panel_width,
                                           static_cast<tilesched::RasterOrder>(order));
  for (sched.init(worker); sched.valid(); sched.next_tile()) {
    TILESCHED_TRACE_BEGIN(recorder);
    const int tile_m = sched.m_idx() * cluster_m + rank_m;
    TILESCHED_TRACE_END(recorder, worker, sched.current_iter(), sched.linear_idx(), tile_m, sched.n_idx());
  }
}
