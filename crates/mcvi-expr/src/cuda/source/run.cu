
// One entry of a block's list: a tile of a task, what must be complete before it, and what its completion completes.
struct Item {
    // The function, and whether it may be prepared before the wait.
    u32 function, tile;
    // The task's arguments: first word and number.
    u32 first, words;
    // The last level to wait for and how many before it, itself included; NONE for no wait.
    u32 wait, levels;
    // The level that this block has completed with this item, and from bit 19 on how much it adds to that level's counter; NONE
    // for none.
    u32 completes;
    // Its own level.
    u32 level;
};
#define NONE 0xffffffffu
#define EARLY 0x80000000u
#define WORDS 128
// What a level's counter has grown by when all blocks have completed it.
#define WHOLE 4096u

__device__ __forceinline__ u64 clock_now() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// Waits for some levels up to `last`, in the lanes of a warp.
__device__ __forceinline__ void wait_for(const u32* last, u32 levels, u32 target) {
    for (u32 before = threadIdx.x; before < levels; before += 32) {
        u32 value;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(last - before) : "memory");
        } while ((int)(value - target) < 0);
    }
    __syncwarp();
}

__device__ __forceinline__ void copy16(void* to, const void* from) {
    const u32 s = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(s), "l"(from));
}

// Every block walks through its list, once for each step. A block waits only for the levels before its next item's; items and
// their arguments are fetched while the ones before are computed, and what does not depend on that level is prepared before
// the wait.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
walk(const __grid_constant__ Launch run, const Item* items, const u32* first, const u64* args, const u32 last, const u32 careful) {
    __shared__ __align__(16) Item item[4];
    __shared__ __align__(16) u64 words[2][WORDS];
    __shared__ u32 failed;
    const u32 begin = first[blockIdx.x], count = first[blockIdx.x + 1] - begin;
    if (count == 0) return;
    // The position in the list of entry q, counted over all steps.
    auto fetch_item = [&](u32 q, u32 position) {
        if (threadIdx.x < 2) copy16((char*)&item[q % 4] + 16 * threadIdx.x, (const char*)(items + begin + position) + 16 * threadIdx.x);
    };
    auto fetch_words = [&](u32 q) {
        const u32 n = item[q % 4].words;
        if (n <= WORDS && 2 * threadIdx.x < n) copy16(words[q % 2] + 2 * threadIdx.x, args + item[q % 4].first + 2 * threadIdx.x);
    };
    auto arrived = [&]() {
        asm volatile("cp.async.wait_all;\n" ::: "memory");
        __syncthreads();
    };
    fetch_item(0, 0);
    fetch_item(1, 1 % count);
    arrived();
    fetch_words(0);
    arrived();
    u32 q = 0, ahead = 2 % count;
    for (u32 i = run.begin; i < run.end; i++) {
        const u32 n = i - run.begin;
        if (careful) {
            // A step that failed must be the last: every block has to know. One that fails now, in a block that is ahead,
            // must not stop the others halfway: only failures of earlier steps count, and of those all blocks agree.
            if (threadIdx.x < 32) wait_for(run.done + last, last + 1, WHOLE * n);
            if (threadIdx.x == 0) {
                const u32 in_step = *(volatile u32*)run.failure; // counted from 1
                failed = in_step != 0 && in_step <= i;
            }
            __syncthreads();
            if (failed) return;
        }
        for (u32 j = 0; j < count; j++) {
            const Item& here = item[q % 4];
            const u32 function = here.function & ~EARLY;
            const bool early = here.function & EARLY;
            const u64* const a = here.words <= WORDS ? words[q % 2] : args + here.first;
            if (early) prepare(function, a, here.tile);
            if (here.wait != NONE) {
                if (threadIdx.x < 32) wait_for(run.done + here.wait, here.levels, WHOLE * (here.level ? n + 1 : n));
                __syncthreads();
            }
            if (run.times && threadIdx.x == 0) atomicMin(run.times + 2 * here.level, clock_now());
            fetch_item(q + 2, ahead);
            fetch_words(q + 1);
            ahead = ahead + 1 == count ? 0 : ahead + 1;
            dispatch(function, early, a, here.tile, run, i);
            arrived();
            if (run.times && threadIdx.x == 0) atomicMax(run.times + 2 * here.level + 1, clock_now());
            // By the last warp, which has least to do at first.
            if (threadIdx.x == THREADS - 32 && here.completes != NONE) {
                asm volatile("fence.acq_rel.gpu;" ::: "memory");
                asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(run.done + here.completes % 524288), "r"(here.completes / 524288) : "memory");
            }
            q++;
        }
    }
}
