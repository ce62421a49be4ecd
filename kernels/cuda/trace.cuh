// Records which CTA and role took which tile, in device memory. Include it in any kernel, from sm_70 on.
//
// Every (CTA, role) owns a slot of `capacity` records and one count; one thread per role writes it:
//
//   TILESCHED_TRACE_OPEN(rec, buffer, cta, role);            // once, before the role's loop
//   TILESCHED_TRACE_BEGIN(rec);                              // when the role takes a tile
//   TILESCHED_TRACE_END(rec, worker, wave, linear, m, n);    // when it is done with it; (m, n) is the CTA tile
//
// Memory: records[(cta * num_roles + role) * capacity + i], counts[cta * num_roles + role]. A count is the number of
// tiles that the role wanted to record: above `capacity` nothing is stored, and the count tells. Fill the counts with
// bytes 0xA5 before the launch: what is left of that belongs to a role that did not run.
//
// Without TILESCHED_TRACE defined to 1 the macros vanish.
#pragma once

namespace tilesched {

// 40 bytes; kernels/recorder.py reads this layout.
struct TraceRecord {
  int worker;
  int wave;
  int linear;
  int m;
  int n;
  int sm;
  unsigned long long begin_ns;  // %globaltimer; it advances in steps (32 ns on an H200)
  unsigned long long end_ns;
};
static_assert(sizeof(TraceRecord) == 40, "kernels/recorder.py reads 40 bytes a record");

struct TraceBuffer {
  TraceRecord* records;
  int* counts;
  int num_roles;
  int capacity;
};

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

class TraceRecorder {
 public:
  __device__ __forceinline__ TraceRecorder(const TraceBuffer& buffer, int cta, int role)
      : capacity_(buffer.capacity),
        count_(buffer.counts + static_cast<long long>(cta) * buffer.num_roles + role),
        records_(buffer.records + (static_cast<long long>(cta) * buffer.num_roles + role) * buffer.capacity) {
    *count_ = 0;
  }

  __device__ __forceinline__ void begin() { begin_ns_ = now_ns(); }

  __device__ __forceinline__ void end(int worker, int wave, int linear, int m, int n) {
    if (used_ < capacity_) {
      records_[used_] = TraceRecord{worker, wave, linear, m, n, sm_id(), begin_ns_, now_ns()};
    }
    *count_ = ++used_;
  }

 private:
  static __device__ __forceinline__ unsigned long long now_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  }

  static __device__ __forceinline__ int sm_id() {
    unsigned int sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return static_cast<int>(sm);
  }

  int used_ = 0;
  int capacity_;
  int* count_;
  TraceRecord* records_;
  unsigned long long begin_ns_ = 0;
};

#endif

}  // namespace tilesched

#if defined(TILESCHED_TRACE) && TILESCHED_TRACE
#define TILESCHED_TRACE_OPEN(rec, buffer, cta, role) ::tilesched::TraceRecorder rec((buffer), (cta), (role))
#define TILESCHED_TRACE_BEGIN(rec) (rec).begin()
#define TILESCHED_TRACE_END(rec, worker, wave, linear, m, n) (rec).end((worker), (wave), (linear), (m), (n))
#else
#define TILESCHED_TRACE_OPEN(rec, buffer, cta, role) static_cast<void>(0)
#define TILESCHED_TRACE_BEGIN(rec) static_cast<void>(0)
#define TILESCHED_TRACE_END(rec, worker, wave, linear, m, n) static_cast<void>(0)
#endif
