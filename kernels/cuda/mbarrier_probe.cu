// What an mbarrier does on the hardware, from sm_90 on; kernels/mbarrier_probe.py asks, and reads the answers. Nothing
// here can hang: loops of waits end at a deadline, and both CTAs of a cluster run the same number of rounds whatever
// the waits said.
using u32 = unsigned int;
using u64 = unsigned long long;

namespace {

constexpr u64 kDeadlineNs = 5'000'000;  // of a loop of waits
constexpr int kMaxCopy = 1024;          // bytes of a bulk copy

// ---- One function an instruction. `bar` is a shared address: of this CTA, or of the cluster where it says remote.

#define GIVES_STATE(name, instruction)                                                                      \
  __device__ __forceinline__ u64 name(u32 bar, u32 operand) {                                               \
    u64 state;                                                                                              \
    asm volatile(instruction " %0, [%1], %2;" : "=l"(state) : "r"(bar), "r"(operand) : "memory");           \
    return state;                                                                                           \
  }
#define GIVES_NOTHING(name, instruction, operands)                                                          \
  __device__ __forceinline__ void name(u32 bar, u32 operand) {                                              \
    asm volatile(instruction " " operands ";" ::"r"(bar), "r"(operand) : "memory");                         \
  }
#define ANSWERS(name, instruction, type, constraint)                                                        \
  __device__ __forceinline__ bool name(u32 bar, type which) {                                               \
    u32 answer;                                                                                             \
    asm volatile("{.reg .pred p; " instruction "; selp.u32 %0, 1, 0, p;}"                                   \
                 : "=r"(answer)                                                                             \
                 : "r"(bar), constraint(which)                                                              \
                 : "memory");                                                                               \
    return answer != 0;                                                                                     \
  }

GIVES_NOTHING(init, "mbarrier.init.shared::cta.b64", "[%0], %1")
GIVES_STATE(arrive, "mbarrier.arrive.release.cta.shared::cta.b64")
GIVES_STATE(arrive_no_complete, "mbarrier.arrive.noComplete.release.cta.shared::cta.b64")
GIVES_STATE(arrive_expect, "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64")
GIVES_STATE(drop, "mbarrier.arrive_drop.release.cta.shared::cta.b64")
GIVES_STATE(drop_no_complete, "mbarrier.arrive_drop.noComplete.release.cta.shared::cta.b64")
GIVES_STATE(drop_expect, "mbarrier.arrive_drop.expect_tx.release.cta.shared::cta.b64")
GIVES_NOTHING(expect, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64", "[%0], %1")
GIVES_NOTHING(complete, "mbarrier.complete_tx.relaxed.cta.shared::cta.b64", "[%0], %1")

GIVES_NOTHING(remote_arrive, "mbarrier.arrive.release.cluster.shared::cluster.b64", "_, [%0], %1")
GIVES_NOTHING(remote_arrive_cta, "mbarrier.arrive.release.cta.shared::cluster.b64", "_, [%0], %1")
GIVES_NOTHING(remote_arrive_relaxed, "mbarrier.arrive.relaxed.cluster.shared::cluster.b64", "_, [%0], %1")
GIVES_NOTHING(remote_arrive_expect, "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64", "_, [%0], %1")
GIVES_NOTHING(remote_drop, "mbarrier.arrive_drop.release.cluster.shared::cluster.b64", "_, [%0], %1")
GIVES_NOTHING(remote_drop_expect, "mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64", "_, [%0], %1")
GIVES_NOTHING(remote_expect, "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64", "[%0], %1")
GIVES_NOTHING(remote_complete, "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64", "[%0], %1")

ANSWERS(test_parity, "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2", u32, "r")
ANSWERS(test_state, "mbarrier.test_wait.shared::cta.b64 p, [%1], %2", u64, "l")
ANSWERS(try_parity, "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2", u32, "r")
ANSWERS(try_parity_cluster, "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2", u32, "r")
ANSWERS(try_state, "mbarrier.try_wait.shared::cta.b64 p, [%1], %2", u64, "l")

// ptxas makes three instructions of this for sm_90: a try_wait without a hint, a sleep of up to the hint, a test_wait.
__device__ __forceinline__ bool try_parity_hint(u32 bar, u32 parity, u32 hint_ns) {
  u32 answer;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3; selp.u32 %0, 1, 0, p;}"
               : "=r"(answer)
               : "r"(bar), "r"(parity), "r"(hint_ns)
               : "memory");
  return answer != 0;
}

__device__ __forceinline__ int pending_count(u64 state) {
  u32 count;
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
  return static_cast<int>(count);
}

__device__ __forceinline__ void inval(u32 bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

__device__ __forceinline__ void fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ u32 shared_address(const void* object) {
  return static_cast<u32>(__cvta_generic_to_shared(object));
}

__device__ __forceinline__ u32 address_in(u32 address, u32 rank) {
  u32 mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

__device__ __forceinline__ u32 rank_in_cluster() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ u64 now_ns() {
  u64 ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

__device__ __forceinline__ void delay(u64 ns) {
  for (const u64 begin = now_ns(); now_ns() - begin < ns;) {
  }
}

// ---- Sequences of operations

// Numbers as in kernels/mbarrier_program.py.
enum Operation : int {
  kNothing = 0,
  kInit = 1,
  kInval = 2,
  kArrive = 3,
  kArriveNoComplete = 4,
  kArriveExpect = 5,
  kDrop = 6,
  kDropNoComplete = 7,
  kDropExpect = 8,
  kExpect = 9,
  kComplete = 10,
  kCopy = 11,
};

struct Step {
  int operation;
  u32 operand;  // arrivals, or bytes
  int state;    // the step whose state the waits by state ask about, or -1
  int flags;    // bit 0: CTA 1 of the cluster does it to CTA 0's object; bit 1: ask the waits afterwards
};
static_assert(sizeof(Step) == 16, "kernels/mbarrier_program.py writes 16 bytes a step");

// What one step gave. Bits of `answers`: test_wait.parity 0, 1, try_wait.parity 0, 1, test_wait, try_wait by state.
struct Answer {
  u64 state;    // what an arrival returned; opaque
  int answers;  // -1: not asked
  int pending;  // pending_count of a .noComplete arrival's state; else -1
};
static_assert(sizeof(Answer) == 16, "kernels/mbarrier_program.py reads 16 bytes a step");

constexpr int kRemote = 1;
constexpr int kAsk = 2;
constexpr u64 kCopyNs = 100'000;  // by then a copy of kMaxCopy bytes has landed, with a wide margin

__device__ __align__(128) unsigned char copy_source[kMaxCopy];

__device__ void do_local(const Step& step, u32 bar, u32 target, Answer& answer) {
  switch (step.operation) {
    case kInit:
      init(bar, step.operand);
      fence_init();
      break;
    case kInval: inval(bar); break;
    case kArrive: answer.state = arrive(bar, step.operand); break;
    case kArriveNoComplete:
      answer.state = arrive_no_complete(bar, step.operand);
      answer.pending = pending_count(answer.state);
      break;
    case kArriveExpect: answer.state = arrive_expect(bar, step.operand); break;
    case kDrop: answer.state = drop(bar, step.operand); break;
    case kDropNoComplete:
      answer.state = drop_no_complete(bar, step.operand);
      answer.pending = pending_count(answer.state);
      break;
    case kDropExpect: answer.state = drop_expect(bar, step.operand); break;
    case kExpect: expect(bar, step.operand); break;
    case kComplete: complete(bar, step.operand); break;
    case kCopy:
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
          "l"(__cvta_generic_to_global(copy_source)), "r"(step.operand), "r"(bar)
          : "memory");
      delay(kCopyNs);
      break;
    default: break;
  }
}

// `bar` and `target` lie in CTA 0, `source` in the CTA that executes this.
__device__ void do_remote(const Step& step, u32 bar, u32 target, u32 source) {
  switch (step.operation) {
    case kArrive: remote_arrive(bar, step.operand); break;
    case kArriveExpect: remote_arrive_expect(bar, step.operand); break;
    case kDrop: remote_drop(bar, step.operand); break;
    case kDropExpect: remote_drop_expect(bar, step.operand); break;
    case kExpect: remote_expect(bar, step.operand); break;
    case kComplete: remote_complete(bar, step.operand); break;
    case kCopy:
      asm volatile(
          "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
          "r"(source), "r"(step.operand), "r"(bar)
          : "memory");
      delay(kCopyNs);
      break;
    default: break;
  }
}

__device__ int ask(u32 bar, const Step& step, const Answer* answers) {
  int bits = 0;
  for (u32 parity = 0; parity < 2; ++parity) {
    bits |= test_parity(bar, parity) << parity;
    bits |= try_parity(bar, parity) << (2 + parity);
  }
  if (step.state >= 0) {
    const u64 state = answers[step.state].state;
    bits |= test_state(bar, state) << 4 | try_state(bar, state) << 5;
  }
  return bits;
}

}  // namespace

// One program a cluster of two CTAs of one thread; an object in CTA 0. Grid: 2 * programs.
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(1)
    tilesched_mbarrier_programs(int length, const Step* steps, Answer* answers) {
  __shared__ u64 object;
  __shared__ __align__(128) unsigned char buffer[kMaxCopy];
  const u32 rank = rank_in_cluster();
  const u32 bar = shared_address(&object);
  const u32 target = shared_address(buffer);
  const u32 leader_bar = address_in(bar, 0);
  const u32 leader_target = address_in(target, 0);
  steps += static_cast<u64>(blockIdx.x / 2) * length;
  answers += static_cast<u64>(blockIdx.x / 2) * length;

  cluster_barrier();  // the peer runs
  for (int i = 0; i < length; ++i) {
    const Step step = steps[i];
    const bool remote = step.flags & kRemote;
    Answer answer{0, -1, -1};
    if (remote && rank == 1) do_remote(step, leader_bar, leader_target, target);
    if (!remote && rank == 0) do_local(step, bar, leader_target, answer);
    cluster_barrier();
    if (rank == 0) {
      answers[i].state = answer.state;
      if (step.flags & kAsk) answer.answers = ask(bar, step, answers);
      answers[i] = answer;
    }
    cluster_barrier();  // the next step waits for the answers, which a try_wait could see; and a CTA ends after the peer
  }
}

// ---- elect.sync

// One warp a mask. Lanes of the mask, or with `outside` all lanes, elect twice; with `late` the lower a lane is, the
// later it comes. leaders, elected: [masks][2][32].
extern "C" __global__ void __launch_bounds__(32)
    tilesched_elections(int late, int outside, const u32* masks, int* leaders, int* elected) {
  const u32 lane = threadIdx.x;
  const u32 mask = masks[blockIdx.x];
  if (!outside && !(mask >> lane & 1)) return;
  for (int round = 0; round < 2; ++round) {
    if (late) delay(1000 * (32 - lane));
    int leader, mine;
    asm volatile("{.reg .pred p; elect.sync %0|p, %2; selp.s32 %1, 1, 0, p;}"
                 : "=r"(leader), "=r"(mine)
                 : "r"(mask)
                 : "memory");
    const int place = (static_cast<int>(blockIdx.x) * 2 + round) * 32 + static_cast<int>(lane);
    leaders[place] = leader;
    elected[place] = mine;
  }
}

// ---- How long try_wait waits

// One question a CTA of 64 threads. hint_ns: -1 no hint, -2 test_wait. Thread 32 ends `arrivals` phases in a row,
// arrives_ns after thread 0 began to wait; 0: never. Up to `samples` waits for phase 0 each: took_ns [questions]
// [samples], answer [questions][samples] (-1: not asked any more).
extern "C" __global__ void __launch_bounds__(64)
    tilesched_wait_times(int samples, const int* hint_ns, const int* arrives_ns, const int* arrivals, int* took_ns,
                         int* answer) {
  __shared__ u64 object;
  const u32 bar = shared_address(&object);
  const int hint = hint_ns[blockIdx.x];
  const int arrives = arrives_ns[blockIdx.x];
  took_ns += static_cast<u64>(blockIdx.x) * samples;
  answer += static_cast<u64>(blockIdx.x) * samples;
  if (threadIdx.x == 0) {
    init(bar, 1);
    for (int i = 0; i < samples; ++i) took_ns[i] = answer[i] = -1;
  }
  __syncthreads();
  if (threadIdx.x == 32 && arrives > 0) {
    delay(arrives);
    for (int i = 0; i < arrivals[blockIdx.x]; ++i) arrive(bar, 1);
  }
  if (threadIdx.x != 0) return;
  bool ended = false;
  const u64 first = now_ns();
  for (int i = 0; i < samples && !ended && now_ns() - first < 8 * kDeadlineNs; ++i) {
    const u64 begin = now_ns();
    ended = hint == -1 ? try_parity(bar, 0) : hint == -2 ? test_parity(bar, 0) : try_parity_hint(bar, 0, hint);
    took_ns[i] = static_cast<int>(now_ns() - begin);
    answer[i] = ended;
  }
}

// ---- What a waiter sees of data that another CTA wrote

namespace {

constexpr int kWords = 32;
constexpr int kWordStride = 32;  // in words: a line of 128 bytes each

// Numbers as in kernels/mbarrier_probe.py.
enum Place : int { kWaitersShared = 0, kWritersShared = 1, kGlobal = 2 };
enum Release : int { kRelaxedCluster = 0, kReleaseCta = 1, kReleaseCluster = 2 };
enum Acquire : int { kAcquireCta = 0, kAcquireCluster = 1 };

struct Publication {
  int place;
  int release;
  int acquire;
};

struct Outcome {
  int stale;      // words, after the wait, that were not what the writer wrote before its arrival
  int unordered;  // words, after a cluster barrier, that were not those of the round before
  int timeouts;   // waits that met their deadline
};

__device__ void write_word(bool global, int* words, u32 shared, int i, int value) {
  if (global) {
    asm volatile("st.global.b32 [%0], %1;" ::"l"(__cvta_generic_to_global(words + i * kWordStride)), "r"(value)
                 : "memory");
  } else {
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(shared + 4 * i), "r"(value) : "memory");
  }
}

__device__ int read_word(bool global, const int* words, u32 shared, int i) {
  int value;
  if (global) {
    asm volatile("ld.global.b32 %0, [%1];"
                 : "=r"(value)
                 : "l"(__cvta_generic_to_global(words + i * kWordStride))
                 : "memory");
  } else {
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(value) : "r"(shared + 4 * i) : "memory");
  }
  return value;
}

__device__ bool wait(u32 bar, u32 parity, bool cluster) {
  for (const u64 begin = now_ns(); now_ns() - begin < kDeadlineNs;) {
    if (cluster ? try_parity_cluster(bar, parity) : try_parity(bar, parity)) return true;
  }
  return false;
}

}  // namespace

// CTA 1 writes kWords words, then arrives on CTA 0's object; CTA 0 waits, then reads them. Before, CTA 0 has read the
// old words, so that they are in its L1 cache where there is one. Grid: 2 * publications; one thread a CTA.
// lines: [publications][kWords * kWordStride].
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(1)
    tilesched_publications(int rounds, const Publication* publications, Outcome* outcomes, int* lines) {
  __shared__ u64 object;  // CTA 0: the words are written; CTA 1: they may be
  __shared__ int words[kWords];
  const u32 rank = rank_in_cluster();
  const u32 bar = shared_address(&object);
  const u32 peer_bar = address_in(bar, rank ^ 1);
  const Publication how = publications[blockIdx.x / 2];
  const bool global = how.place == kGlobal;
  const u32 shared = address_in(shared_address(words), how.place == kWaitersShared ? 0 : 1);
  lines += static_cast<u64>(blockIdx.x / 2) * kWords * kWordStride;
  Outcome outcome{0, 0, 0};

  init(bar, 1);
  fence_init();
  if (rank == 1) {
    for (int i = 0; i < kWords; ++i) write_word(global, lines, shared, i, 0);
  }
  for (int round = 1; round <= rounds; ++round) {
    const u32 parity = (round - 1) & 1;
    cluster_barrier();
    if (rank == 0) {
      int old = 0;
      for (int i = 0; i < kWords; ++i) old += read_word(global, lines, shared, i) == round - 1;
      outcome.unordered += kWords - old;
      // Always 1, but by way of `old`: the reads are done when the writer may go on.
      remote_arrive_relaxed(peer_bar, old + how.place < 1 << 20 ? 1 : 2);
      if (!wait(bar, parity, how.acquire == kAcquireCluster)) ++outcome.timeouts;
      for (int i = kWords - 1; i >= 0; --i) outcome.stale += read_word(global, lines, shared, i) != round;
    } else {
      if (!wait(bar, parity, true)) ++outcome.timeouts;
      for (int i = 0; i < kWords; ++i) write_word(global, lines, shared, i, round);
      if (how.release == kRelaxedCluster) remote_arrive_relaxed(peer_bar, 1);
      if (how.release == kReleaseCta) remote_arrive_cta(peer_bar, 1);
      if (how.release == kReleaseCluster) remote_arrive(peer_bar, 1);
    }
  }
  cluster_barrier();
  if (rank == 0) outcomes[blockIdx.x / 2] = outcome;
}
