/* The protocols gemm-1cta (CTAS = 1) and gemm-2cta (CTAS = 2) of simulator/protocol/builtin, with direct stores.

   Written from the kernel's description, not from our checker: it shares no code with it. benchmarks/spin.py sets the
   macros below; each MUTANT_* macro plants one bug (or, for a few, a change that does no harm).

   A step is what one warp does to one barrier, or what an engine ends. A launch is part of the step before it, since
   nothing can see or hinder it. A copy's write and the delivery of its bytes are one step: whoever touches the stage
   between the two is in a race already, which is asserted. An MMA ends, then its arrivals come at any later time, one
   by one. Arrivals are counted in warps (32 lanes arrive at once), bytes in units of 16 KiB. K_BLOCKS is at least 1. */

#ifndef ACCUMS
#define ACCUMS 2
#endif
#ifndef WARPS
#define WARPS 1 /* epilogue warps of a CTA */
#endif
#define RING (CTAS * STAGES)
#define LOADS (TILES * K_BLOCKS)
#define ROLES(cta) (WARPS + 2 - (cta)) /* the MMA warp is in CTA 0 */
#define A_BYTES 1
#define B_BYTES 2
#if LOADS < 255 * STAGES && TILES < 255
#define Phase byte
#else
#define Phase short
#endif

#ifndef LOADED_COUNT
#define LOADED_COUNT CTAS
#endif
#ifndef CONSUMED_COUNT
#define CONSUMED_COUNT 1
#endif
#ifndef TMEM_EMPTY_COUNT
#define TMEM_EMPTY_COUNT (CTAS * WARPS)
#endif
#ifndef A_EXPECTED
#define A_EXPECTED A_BYTES
#endif

/* `phase` counts completed phases; hardware keeps its low bit, and waits look at nothing else.
   `seen`: a wait has seen the end of the phase before the open one. `tx` may be negative: it is kept modulo 32, out of
   its reach, and only compared with 0. */
typedef Mbarrier { Phase phase; unsigned pending : 4; unsigned tx : 5; bit seen }

/* `version` counts writes; `fresh`: the last one was not read yet. In flight: launched and not ended. */
typedef Slot { Phase version; unsigned writes : 4; unsigned reads : 4; bit fresh }

Mbarrier loaded[STAGES];      /* of CTA 0: copies of both CTAs deliver to it */
Mbarrier consumed[RING];      /* of each CTA: [cta * STAGES + stage] */
Mbarrier tmem_full[CTAS * ACCUMS];
Mbarrier tmem_empty[ACCUMS];  /* of CTA 0 */
Slot a[RING], b[RING], accum[CTAS * ACCUMS];

chan pipe = [STAGES + ACCUMS] of { short };  /* tensor pipe, in issue order: count of an MMA, or -1 - tile of a commit */
byte freeing[RING], filling[CTAS * ACCUMS];  /* arrivals of ended MMAs and commits that have not come yet */
byte at_end, left[CTAS];                     /* roles at the cluster barrier, and gone */
hidden byte i, stage, acc;                   /* scratch within a step */
hidden short item, turn;

/* ---- mbarrier -------------------------------------------------------------------------------------------------- */

inline settle(bar, expected) {
    if
    :: bar.pending == 0 && bar.tx == 0 -> bar.phase++; bar.pending = expected; bar.seen = 0
    :: else
    fi
}

inline arrive(bar, expected) {
    assert(bar.pending > 0);             /* else: more arrivals than are pending */
    assert(bar.phase == 0 || bar.seen);  /* else: nobody saw the end of the phase before */
    bar.pending--;
    settle(bar, expected)
}

inline expect(bar, bytes, expected) { bar.tx = (bar.tx + 32 + (bytes)) % 32; settle(bar, expected) }

/* A wait on a parity passes iff it is not that of the open phase. If the barrier is past the phase after the one that
   is meant, the parity is aliased (lapped), whether the wait passes or not: the step is possible and its assertion fails. */
#define ANSWERS(bar, meant, parity) ((bar.phase & 1) != (parity) || bar.phase > (meant) + 1)

inline passed(bar, meant) { assert(bar.phase == (meant) + 1); bar.seen = 1 }

/* ---- slots: an access happens at any time from its launch to its end ------------------------------------------- */

inline check_write(slot, meant) {
    assert(slot.version == (meant));  /* else: written twice, or too early */
    assert(!slot.fresh)               /* else: overwritten before it was read */
}

/* Nothing else may touch the slot until the copy ends, so what holds at its launch holds at its end. */
inline launch_copy(slot, meant) {
    assert(slot.writes == 0 && slot.reads == 0);
    check_write(slot, meant);
    slot.writes++
}

inline end_write(slot) { slot.version++; slot.fresh = 1; slot.writes-- }

inline launch_read(slot) { assert(slot.writes == 0); slot.reads++ }

inline end_read(slot, meant) {
    assert(slot.version == (meant) + 1);  /* else: read before it was written, or after it was overwritten */
    slot.fresh = 0; slot.reads--
}

inline launch_update(slot) { assert(slot.reads == 0); slot.writes++ } /* other updates are ordered by the tensor pipe */

/* ---- roles ----------------------------------------------------------------------------------------------------- */

inline leave(cta) {
#if CTAS == 2 && !defined(MUTANT_NO_CLUSTER_BARRIER)
    at_end++;
    at_end == ROLES(0) + ROLES(1);
#endif
    left[cta]++
}

#define STAGE_OF(count) ((count) % STAGES)
#define PHASE_OF(count) ((count) / STAGES)

#ifdef MUTANT_START_PARITY_TMA
#define TMA_PARITY (PHASE_OF(count) & 1)
#else
#define TMA_PARITY ((PHASE_OF(count) & 1) ^ 1)
#endif
#ifdef MUTANT_NO_WAIT_CONSUMED
#define TMA_MAY_GO 1
#else
#define TMA_MAY_GO ANSWERS(consumed[cta * STAGES + STAGE_OF(count)], PHASE_OF(count) - 1, TMA_PARITY)
#endif

inline launch_copies(cta) {
    launch_copy(a[cta * STAGES + STAGE_OF(count)], PHASE_OF(count));
    launch_copy(b[cta * STAGES + STAGE_OF(count)], PHASE_OF(count))
}

proctype Tma(byte cta) {
    short count = 0;
    do
    :: d_step {
        count < LOADS && TMA_MAY_GO ->
#ifndef MUTANT_NO_WAIT_CONSUMED
        passed(consumed[cta * STAGES + STAGE_OF(count)], PHASE_OF(count) - 1);
#endif
#if CTAS == 2
        if
        :: cta == 1 -> launch_copies(1)
        :: else
        fi
#endif
       };
#ifdef MUTANT_ARRIVE_FIRST
       d_step { arrive(loaded[STAGE_OF(count)], LOADED_COUNT) };
#endif
#if CTAS == 1
       d_step { expect(loaded[STAGE_OF(count)], A_EXPECTED, LOADED_COUNT); launch_copy(a[STAGE_OF(count)], PHASE_OF(count)) };
       d_step { expect(loaded[STAGE_OF(count)], B_BYTES, LOADED_COUNT); launch_copy(b[STAGE_OF(count)], PHASE_OF(count)) };
#else
       if
       :: d_step {
           cta == 0 ->
           expect(loaded[STAGE_OF(count)], 2 * (A_EXPECTED + B_BYTES), LOADED_COUNT);
           launch_copies(0)
          }
#ifdef MUTANT_BOTH_EXPECT
       :: d_step { cta == 1 -> expect(loaded[STAGE_OF(count)], A_BYTES + B_BYTES, LOADED_COUNT) }
#else
       :: cta == 1
#endif
       fi;
#endif
       d_step {
#if !defined(MUTANT_NO_ARRIVE_LOADED) && !defined(MUTANT_ARRIVE_FIRST)
        arrive(loaded[STAGE_OF(count)], LOADED_COUNT);
#endif
        count++
       }
    :: count == LOADS -> break
    od;
#if CTAS == 2 && !defined(MUTANT_NO_TAIL)
    /* the producer's tail: the leader's commits must have landed here before this CTA may end */
    count = (LOADS > STAGES -> LOADS - STAGES : 0);
    do
    :: d_step {
        count < LOADS && ANSWERS(consumed[cta * STAGES + STAGE_OF(count)], PHASE_OF(count), PHASE_OF(count) & 1) ->
        passed(consumed[cta * STAGES + STAGE_OF(count)], PHASE_OF(count));
        count++
       }
    :: count == LOADS -> break
    od;
#endif
    leave(cta)
}

#define COUNT (tile * K_BLOCKS + k)
#ifdef MUTANT_STAGE_FROM_K
#define USED_BY(count) (((count) % K_BLOCKS) % STAGES)
#else
#define USED_BY(count) STAGE_OF(count)
#endif
#if defined(MUTANT_FLIP_LOADED)
#define LOADED_PARITY ((PHASE_OF(COUNT) & 1) ^ 1)
#elif defined(MUTANT_PHASE_FROM_K)
#define LOADED_PARITY ((k / STAGES) & 1)
#else
#define LOADED_PARITY (PHASE_OF(COUNT) & 1)
#endif
#ifdef MUTANT_START_PARITY_MMA
#define EMPTY_PARITY ((tile / ACCUMS) & 1)
#else
#define EMPTY_PARITY (((tile / ACCUMS) & 1) ^ 1)
#endif
#ifdef MUTANT_NO_WAIT_LOADED
#define MMA_MAY_GO 1
#else
#define MMA_MAY_GO ANSWERS(loaded[STAGE_OF(COUNT)], PHASE_OF(COUNT), LOADED_PARITY)
#endif

proctype Mma() {
    byte tile = 0;
    short k = 0;
    do
    :: d_step {
#ifdef MUTANT_NO_WAIT_TMEM_EMPTY
        tile < TILES
#else
        tile < TILES && ANSWERS(tmem_empty[tile % ACCUMS], tile / ACCUMS - 1, EMPTY_PARITY) ->
        passed(tmem_empty[tile % ACCUMS], tile / ACCUMS - 1)
#endif
       };
       do
       :: d_step {
           k < K_BLOCKS && MMA_MAY_GO ->
#ifndef MUTANT_NO_WAIT_LOADED
           passed(loaded[STAGE_OF(COUNT)], PHASE_OF(COUNT));
#endif
           stage = USED_BY(COUNT);
           i = 0;
           do
           :: i < CTAS ->
              launch_read(a[i * STAGES + stage]); launch_read(b[i * STAGES + stage]);
              launch_update(accum[i * ACCUMS + tile % ACCUMS]);
#ifdef MUTANT_EARLY_RELEASE_MMA
              arrive(consumed[i * STAGES + stage], CONSUMED_COUNT);
#endif
              i++
           :: else -> break
           od;
           pipe!COUNT;
           k++;
           if
           :: k == K_BLOCKS -> pipe!(-1 - tile)
           :: else
           fi
          }
       :: d_step { k == K_BLOCKS -> k = 0; tile++ }; break
       od
    :: tile == TILES -> break
    od;
    leave(0)
}

#ifdef MUTANT_FLIP_TMEM_FULL
#define FULL_PARITY (((tile / ACCUMS) & 1) ^ 1)
#else
#define FULL_PARITY ((tile / ACCUMS) & 1)
#endif
#ifdef MUTANT_NO_WAIT_TMEM_FULL
#define EPILOGUE_MAY_GO 1
#else
#define EPILOGUE_MAY_GO ANSWERS(tmem_full[cta * ACCUMS + tile % ACCUMS], tile / ACCUMS, FULL_PARITY)
#endif
#define RELEASE_ACCUM assert(left[0] < ROLES(0)); arrive(tmem_empty[tile % ACCUMS], TMEM_EMPTY_COUNT)

proctype Epilogue(byte cta) {
    byte tile = 0;
    do
    :: d_step {
        tile < TILES && EPILOGUE_MAY_GO ->
#ifndef MUTANT_NO_WAIT_TMEM_FULL
        passed(tmem_full[cta * ACCUMS + tile % ACCUMS], tile / ACCUMS);
#endif
        launch_read(accum[cta * ACCUMS + tile % ACCUMS])
       };
#ifdef MUTANT_EARLY_RELEASE_EPILOGUE
       d_step { RELEASE_ACCUM };
#endif
       d_step { end_read(accum[cta * ACCUMS + tile % ACCUMS], tile / ACCUMS) };
       d_step {
#if !defined(MUTANT_NO_ARRIVE_TMEM_EMPTY) && !defined(MUTANT_EARLY_RELEASE_EPILOGUE)
        RELEASE_ACCUM;
#endif
        tile++
       }
    :: tile == TILES -> break
    od;
    leave(cta)
}

/* ---- engines: whatever has been launched ends at any later time ------------------------------------------------ */

#define COPY(slot, at, bytes) \
    :: d_step { slot[at].writes > 0 -> end_write(slot[at]); \
        expect(loaded[(at) % STAGES], -bytes, LOADED_COUNT) }
#define STAGE(at) COPY(a, at, A_BYTES) COPY(b, at, B_BYTES) \
    :: d_step { freeing[at] > 0 -> freeing[at]--; arrive(consumed[at], CONSUMED_COUNT) }
#define FULL(at) :: d_step { filling[at] > 0 -> filling[at]--; arrive(tmem_full[at], 1) }

inline end_mma() {
    stage = USED_BY(item); acc = (item / K_BLOCKS) % ACCUMS; turn = item / K_BLOCKS / ACCUMS;
    i = 0;
    do
    :: i < CTAS ->
       end_read(a[i * STAGES + stage], PHASE_OF(item)); end_read(b[i * STAGES + stage], PHASE_OF(item));
       if
       :: item % K_BLOCKS == 0 ->  /* the first of a tile writes the accumulator anew */
          check_write(accum[i * ACCUMS + acc], turn);
          end_write(accum[i * ACCUMS + acc])
       :: else ->
          assert(accum[i * ACCUMS + acc].version == turn + 1);
          accum[i * ACCUMS + acc].writes--
       fi;
#if defined(MUTANT_RELEASE_LEADER_ONLY)
       if
       :: i == 0 -> freeing[stage]++
       :: else
       fi;
#elif !defined(MUTANT_NO_RELEASE) && !defined(MUTANT_EARLY_RELEASE_MMA)
       freeing[i * STAGES + stage]++;
#endif
       i++
    :: else -> break
    od
}

inline end_commit() {
    acc = (-1 - item) % ACCUMS;
    i = 0;
    do
    :: i < CTAS -> filling[i * ACCUMS + acc]++; i++
    :: else -> break
    od
}

active proctype Engine() {
end:
    do
    :: d_step {
        pipe?item ->
        if
        :: item < 0 -> end_commit()
        :: else -> end_mma()
        fi
       }
    STAGE(0)
#if RING > 1
    STAGE(1)
#endif
#if RING > 2
    STAGE(2)
#endif
#if RING > 3
    STAGE(3)
#endif
#if RING > 4
    STAGE(4)
#endif
#if RING > 5
    STAGE(5)
#endif
#if RING > 6
    STAGE(6)
#endif
#if RING > 7
    STAGE(7)
#endif
    FULL(0)
#if CTAS * ACCUMS > 1
    FULL(1)
#endif
#if CTAS * ACCUMS > 2
    FULL(2)
    FULL(3)
#endif
    od
}
#if RING > 8 || CTAS * ACCUMS > 4
#error too many stages: extend Engine
#endif

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* A CTA is gone when its roles have left: by then nothing may use its memory, nor come to its barriers from the peer. */
inline check_unused(cta) {
    assert(len(pipe) == 0);
    i = 0;
    do
    :: i < STAGES ->
       assert(a[cta * STAGES + i].writes == 0 && b[cta * STAGES + i].writes == 0);
       assert(cta == 0 || freeing[cta * STAGES + i] == 0);
#if CTAS == 2
       assert(cta == 1 || (a[STAGES + i].writes == 0 && b[STAGES + i].writes == 0)); /* they deliver to CTA 0 */
#endif
       i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < ACCUMS ->
       assert(accum[cta * ACCUMS + i].reads == 0);
       assert(cta == 0 || filling[cta * ACCUMS + i] == 0);
       i++
    :: else -> break
    od
}

inline check_barrier(bar, expected) { assert(bar.tx == 0 && bar.pending == expected) } /* else: left over */

inline check_left_over() {
    i = 0;
    do
    :: i < RING ->
       check_barrier(consumed[i], CONSUMED_COUNT); check_barrier(loaded[i % STAGES], LOADED_COUNT);
       assert(!a[i].fresh && !b[i].fresh);
       i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < CTAS * ACCUMS ->
       check_barrier(tmem_full[i], 1); check_barrier(tmem_empty[i % ACCUMS], TMEM_EMPTY_COUNT);
       assert(!accum[i].fresh);
       i++
    :: else -> break
    od
}

inline set_up() {
    i = 0;
    do
    :: i < RING -> consumed[i].pending = CONSUMED_COUNT; loaded[i % STAGES].pending = LOADED_COUNT; i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < CTAS * ACCUMS -> tmem_full[i].pending = 1; tmem_empty[i % ACCUMS].pending = TMEM_EMPTY_COUNT; i++
    :: else -> break
    od
}

inline start(cta) {
    run Tma(cta);
    i = 0;
    do
    :: i < WARPS -> run Epilogue(cta); i++
    :: else -> break
    od
}

#if CTAS == 2
proctype Exit() {
    d_step { left[1] == ROLES(1) -> check_unused(1) }
}
#endif

init {
    atomic {
        set_up();
        run Mma();
        start(0);
#if CTAS == 2
        start(1);
        run Exit();
#endif
        i = 0
    };
    d_step { left[0] == ROLES(0) -> check_unused(0) };
#if CTAS == 2
    left[1] == ROLES(1);
#endif
    timeout;  /* nothing moves any more: arrivals that were under way have come */
    d_step { check_left_over() }
}
