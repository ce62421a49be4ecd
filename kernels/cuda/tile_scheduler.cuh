// TileLang's PersistentTileScheduler for CUDA C++: the device twin of simulator/schedulers/tilelang.py
// (`tilelang.persistent`). Include it in any kernel, under nvcc or NVRTC, from sm_70 on; it needs no other header.
// As plain C++ it compiles too, so that the same text is checked on a CPU.
//
//   tilesched::PersistentTileScheduler sched(clusters_m, tiles_n, num_workers, panel_width, order);
//   for (sched.init(worker); sched.valid(); sched.next_tile()) {
//     ... cluster tile (sched.m_idx(), sched.n_idx()), wave sched.current_iter() ...
//   }
//
// A worker is a CTA, or a cluster when clusters along M are scheduled: then m_idx counts cluster rows, and the CTA
// of rank r computes tile row m_idx * cluster_m + r. With tiles_m % cluster_m != 0 the last cluster row is handed
// out whole; its ghost rows are the caller's to clip or predicate.
//
// Bounds: all arguments >= 1, and clusters_m * tiles_n + num_workers <= 2^31 - 1, as ids are 32-bit like TileLang's.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TILESCHED_DEVICE __device__ __forceinline__
#else
#define TILESCHED_DEVICE inline
#endif

namespace tilesched {

// Which axis is cut into panels of panel_width tiles; the walk goes along the other one.
enum class RasterOrder : int {
  kPanelN = 0,  // panels of tile columns, walked along M: TileLang column_major=True
  kPanelM = 1,  // panels of tile rows, walked along N: TileLang column_major=False
};

class PersistentTileScheduler {
 public:
  TILESCHED_DEVICE PersistentTileScheduler(int clusters_m, int tiles_n, int num_workers, int panel_width,
                                           RasterOrder order)
      : num_ids_(clusters_m * tiles_n),
        num_workers_(num_workers),
        along_(order == RasterOrder::kPanelN ? clusters_m : tiles_n),
        across_(order == RasterOrder::kPanelN ? tiles_n : clusters_m),
        panel_width_(panel_width < across_ ? panel_width : across_),  // the same tiles, and no overflow below
        order_(order) {}

  // Start as `worker`, in [0, num_workers).
  TILESCHED_DEVICE void init(int worker) {
    linear_idx_ = worker;
    current_iter_ = 0;
    decode();
  }

  // Whether there is a tile to compute.
  TILESCHED_DEVICE bool valid() const { return linear_idx_ < num_ids_; }

  TILESCHED_DEVICE void next_tile() {
    linear_idx_ += num_workers_;
    ++current_iter_;
    decode();
  }

  TILESCHED_DEVICE int linear_idx() const { return linear_idx_; }
  TILESCHED_DEVICE int current_iter() const { return current_iter_; }  // tiles since init: the wave
  TILESCHED_DEVICE int m_idx() const { return order_ == RasterOrder::kPanelN ? fast_ : slow_; }
  TILESCHED_DEVICE int n_idx() const { return order_ == RasterOrder::kPanelN ? slow_ : fast_; }

 private:
  TILESCHED_DEVICE void decode() {
    const int panel_ids = along_ * panel_width_;
    const int panel = linear_idx_ / panel_ids;
    const int base = panel * panel_width_;
    const int left = across_ - base;  // the last panel may be narrower, and ids past the grid have none left
    const int width = left < 1 ? 1 : (left < panel_width_ ? left : panel_width_);
    const int offset = linear_idx_ - panel * panel_ids;
    fast_ = offset / width;
    slow_ = base + offset % width;
  }

  int num_ids_, num_workers_, along_, across_, panel_width_;
  RasterOrder order_;
  int linear_idx_ = 0, current_iter_ = 0, fast_ = 0, slow_ = 0;
};

}  // namespace tilesched
