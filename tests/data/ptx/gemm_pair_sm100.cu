// C = A · Bᵀ in bf16 by CTA pairs: one 256 x 128 tile a cluster of two CTAs, tcgen05.mma with cta_group::2.
//
//   role       warps       waits on          signals
//   load       0 of each   own empty[stage]  full[stage] of the leader (1 arrive by the leader + bytes of both)
//   mma        1, leader   full[stage]       empty[stage] and done of both (multicast commits)
//   epilogue   4 to 7      done
//
// Each CTA holds its 128 rows of A and C, and half of B's 128 rows. Compiled to gemm_pair_sm100.ptx by NVRTC 13.5 for
// sm_100a.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
struct alignas(64) TensorMap {
  u64 opaque[16];
};
constexpr int kBlockK = 64, kStages = 2, kBytesA = 128 * kBlockK * 2, kBytesB = 64 * kBlockK * 2, kBytes = kBytesA + kBytesB;
constexpr u32 kInstruction = 1u << 4 | 1u << 7 | 1u << 10 | 128 / 8 << 17 | 256 / 16 << 24;  // bf16, f32, 256 x 128
constexpr u64 kDescriptor = 0x4000404000010000ull;                                         // K-major, 128 B
constexpr u32 kLeader = 0xFEFFFFFF;  // clears the odd CTA's bit of a shared::cluster address

__device__ __forceinline__ u32 smem(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void wait(u64& barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred P1;\n\tLAB_WAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n\t@P1 bra DONE;\n\t"
      "bra LAB_WAIT;\n\tDONE:\n\t}" ::"r"(smem(&barrier)), "r"(parity) : "memory");
}
__device__ __forceinline__ void load(u32 target, const TensorMap* map, int x, int y, u64& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(target), "l"(map), "r"(smem(&barrier) & kLeader), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ void commit(u64& barrier) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
          smem(&barrier)), "h"((u16)3) : "memory");
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ u32 two(float low, float high) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256)
    gemm_pair(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, u16* c, int n, int k) {
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ u64 full[kStages], empty[kStages], done;
  __shared__ u32 tmem_address;
  const int warp = threadIdx.x / 32, tile = blockIdx.x / 2, tiles_n = n / 128;
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&full[s])));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&empty[s])));
    }
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&done)));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  if (warp == 2) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(smem(&tmem_address)));
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
  }
  asm volatile("tcgen05.fence::before_thread_sync;");
  __syncthreads();
  cluster_sync();
  asm volatile("tcgen05.fence::after_thread_sync;");
  const u32 tmem = tmem_address;
  const int row = tile / tiles_n * 256 + (int)rank * 128, column = tile % tiles_n * 128, k_blocks = k / kBlockK;
  if (threadIdx.x == 0) {
    for (int kb = 0; kb < k_blocks; kb++) {
      const int s = kb % kStages;
      const u32 place = smem(stages) + s * kBytes;
      wait(empty[s], (kb / kStages & 1) ^ 1);
      if (rank == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&full[s])), "r"(2 * kBytes)
                     : "memory");
      load(place, &a, kb * kBlockK, row, full[s]);
      load(place + kBytesA, &b, kb * kBlockK, column + (int)rank * 64, full[s]);
    }
  } else if (threadIdx.x == 32 && rank == 0) {
    for (int kb = 0; kb < k_blocks; kb++) {
      const int s = kb % kStages;
      wait(full[s], kb / kStages & 1);
      asm volatile("tcgen05.fence::after_thread_sync;");
      const u32 place = smem(stages) + s * kBytes;
      for (int step = 0; step < kBlockK / 16; step++) {
        const u64 da = kDescriptor | (place + step * 32) >> 4, db = kDescriptor | (place + kBytesA + step * 32) >> 4;
        asm volatile(
            "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %4, 0;\n\t"
            "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n\t}" ::"r"(tmem),
            "l"(da), "l"(db), "r"(kInstruction), "r"(kb | step) : "memory");
      }
      commit(empty[s]);
    }
    commit(done);
  } else if (warp >= 4) {
    wait(done, 0);
    asm volatile("tcgen05.fence::after_thread_sync;");
    u32* out = (u32*)(c + (u64)(row + (int)threadIdx.x - 128) * n + column);
    for (int j = 0; j < 128; j += 8) {
      float v[8];
      asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                   : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7])
                   : "r"(tmem + j + ((warp & 3) << 21)));
      asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
      for (int i = 0; i < 8; i += 2) out[(j + i) / 2] = two(v[i], v[i + 1]);
    }
    asm volatile("tcgen05.fence::before_thread_sync;");
  }
  __syncthreads();
  cluster_sync();
  if (warp == 2) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 128;" ::"r"(tmem));
}
