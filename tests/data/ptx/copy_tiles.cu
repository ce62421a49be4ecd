// A persistent, warp-specialized copy: out = in + 1, tile by tile of 64 x 64 16-bit elements, through two stages.
//
//   role     warps   waits on       signals
//   load     0       empty[stage]   full[stage] (1 arrive + 8192 bytes)
//   add      2, 3    full[stage]    empty[stage] (1 arrive, when the bulk store has read the stage)
//
// Compiled to copy_tiles.ptx by NVRTC 13.5 for sm_90a; tests/unit/test_ptx_kernels.py says how.
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) TensorMap {
  u64 opaque[16];
};
constexpr int kStages = 2, kTile = 64, kStageBytes = kTile * kTile * 2;

__device__ __forceinline__ u32 smem(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred P1;\n\tLAB_WAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n\t@P1 bra DONE;\n\t"
      "bra LAB_WAIT;\n\tDONE:\n\t}" ::"r"(barrier), "r"(parity) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    copy_tiles(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out, int tiles_m, int tiles_n) {
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ u64 full[kStages], empty[kStages];
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; s++) {
      init(smem(&full[s]), 1);
      init(smem(&empty[s]), 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  const int tiles = tiles_m * tiles_n;
  if (warp == 0) {
    if (threadIdx.x == 0) {
      int it = 0;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x, it++) {
        const int s = it % kStages;
        wait(smem(&empty[s]), (it / kStages & 1) ^ 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&full[s])), "r"(kStageBytes)
                     : "memory");
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                smem(stages + s * kStageBytes)),
            "l"(&in), "r"(smem(&full[s])), "r"(t % tiles_n * kTile), "r"(t / tiles_n * kTile)
            : "memory");
      }
    }
  } else if (warp >= 2) {
    int it = 0;
    for (int t = blockIdx.x; t < tiles; t += gridDim.x, it++) {
      const int s = it % kStages;
      wait(smem(&full[s]), it / kStages & 1);
      u32* p = (u32*)(stages + s * kStageBytes);
      for (int i = threadIdx.x - 64; i < kStageBytes / 4; i += 64) p[i] = p[i] + 0x00010001u;
      asm volatile("fence.proxy.async.shared::cta;");
      asm volatile("bar.sync 1, 64;");
      if (threadIdx.x == 64) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&out),
                     "r"(smem(stages + s * kStageBytes)), "r"(t % tiles_n * kTile), "r"(t / tiles_n * kTile)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(&empty[s])) : "memory");
      }
    }
    if (threadIdx.x == 64) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
