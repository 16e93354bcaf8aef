// One channel a group and stride 1, channels first: whole planes pass through local memory by bulk copies (NVIDIA, sm_90).
//
// A stage is PLANES planes of one channel, of neighbouring images. A work-group has stages one after the other, BUFFERS of
// them in local memory; the last wave that has read one sends for the next. An item has four columns of ROWS rows of a
// plane, all of it straight code with the weights in uniform registers. Between the planes lie rows of zeros, which no copy
// touches; items at the left and right edge read neighbours from rows of zeros of their own. So nothing is asked.
#include "gpu_window.h"
#include "nvidia_stages.h"

#ifndef BEFORE
#define BEFORE 3     // columns of zeros before the first: 0..4, as many as that behind the last
#endif
#ifndef ABOVE
#define ABOVE 3      // rows of zeros above the first
#endif
#ifndef WIDTH
#define WIDTH 56     // of a plane: whole fours
#endif
#ifndef HEIGHT
#define HEIGHT 56
#endif
#ifndef ROWS
#define ROWS 7       // of an item
#endif
#ifndef PLANES
#define PLANES 2     // of a stage: 1..32
#endif
#ifndef BUFFERS
#define BUFFERS 1
#endif
#ifndef TOGETHER
#define TOGETHER 0   // of eight neighbouring items, those along a row, the others being below; 0: all
#endif
#ifndef LEAVE
#define LEAVE 0      // 1: results leave by bulk copies, too, from where the source lay
#endif
#ifndef BETA
#define BETA 0       // 0: no z is added
#endif
#define PLANE (WIDTH * HEIGHT)
#define BELOW (FILTER_H - 1 - ABOVE)
#define AFTER (FILTER_W - 1 - BEFORE)  // 0..4
#define ACROSS (WIDTH / 4)
#define DOWN ((HEIGHT + ROWS - 1) / ROWS)
#define GAP (ABOVE > BELOW ? ABOVE : BELOW)  // rows of zeros between planes
#define PITCH ((HEIGHT + GAP) * WIDTH)
// The last item's rows may reach beyond the last plane.
#define RING (GAP * WIDTH + BUFFERS * PLANES * PITCH + (DOWN * ROWS - HEIGHT) * WIDTH)
#define SEEN (ROWS + FILTER_H - 1)     // rows of the source that an item reads
#define EDGE ((SEEN - 1) * WIDTH + 4 + 32)
#define WAVES ((ITEMS + 31) / 32)
#define LOAD_PAIR(array, pointer)                                  \
  do {                                                             \
    const float2 pair = *(CF_LOCAL_PTR const float2 *)(pointer);   \
    (array)[0] = pair.x;                                           \
    (array)[1] = pair.y;                                           \
  } while (0)

// A wave copies the planes of a stage, `stride` floats from one to the next.
CF_INLINED void fetch_stage(CF_LOCAL_PTR float *to, CF_GLOBAL const float *from, const CF_LONG stride, const int planes,
                            const int lane, CF_LOCAL_PTR ulong *arrived) {
  if (lane == 0) barrier_expect(CF_SHARED(arrived), planes * (4 * PLANE));
  if (lane < planes) copy_run(CF_SHARED(to + lane * PITCH), from + lane * stride, 4 * PLANE, CF_SHARED(arrived));
}

// Work-groups: `teams`, which have every teams-th stage, a channel after the other of a block of images. The first
// `staggered` of them, `units` a time, start `stagger` cycles after those before, so that they do not run in step.
CF_KERNEL CF_WORK_GROUP_SIZE(ITEMS, 1, 1) void direct_nvidia_stages(
    CF_GLOBAL const float *CF_RESTRICT source, CF_GLOBAL const float *CF_RESTRICT weights,
    CF_GLOBAL float *CF_RESTRICT result, CF_EPILOGUE_PARAMETERS, const int images, const int channels,
    const int blocks, const int teams, const int units, const int staggered, const int stagger) {
  Epilogue epilogue = CF_EPILOGUE(result);
  if (!BETA) epilogue.beta = 0.0f;
  const Epilogue rest = cf_epilogue_of_scaled(epilogue);
  CF_LOCAL float ring[RING] __attribute__((aligned(128)));
  CF_LOCAL float edge[EDGE] __attribute__((aligned(128)));
  CF_LOCAL ulong arrived[BUFFERS];
  CF_LOCAL CF_UINT readers[BUFFERS];
  const int item = (int)CF_LOCAL_ID(0), team = (int)CF_GROUP_ID(0), stages = blocks * channels;
  // Only of what is one for a wave does the compiler keep weights in uniform registers.
  const int lane = item % 32, wave = (int)wave_first(item / 32);
  const int own = item / (ACROSS * DOWN), in = item % (ACROSS * DOWN);
#if TOGETHER
  const int eight = in / 8, column = eight % (ACROSS / TOGETHER) * TOGETHER + in % TOGETHER;
  const int row = (eight / (ACROSS / TOGETHER) * (8 / TOGETHER) + in % 8 / TOGETHER) * ROWS;
#else
  const int column = in % ACROSS, row = in / ACROSS * ROWS;
#endif
  const CF_LONG stride = (CF_LONG)channels * PLANE;
#define PLACE(slot) (GAP * WIDTH + (slot) * PITCH)
#define FIRST(stage) ((stage) / channels * PLANES)
#define FETCH(stage, buffer)                                                                                      \
  fetch_stage(ring + PLACE((buffer) * PLANES), source + FIRST(stage) * stride + (stage) % channels * PLANE,       \
              stride, min(PLANES, images - FIRST(stage)), lane, arrived + (buffer))

  if (item == 0) {
    FOR_UNROLLED(b, BUFFERS) {
      barrier_start(CF_SHARED(arrived + b), 1);
      readers[b] = 0;
    }
    barriers_started();
  }
  CF_WAVE_BARRIER();
  if (wave == 0) {
    if (stagger && team < staggered) wave_pause(team / units * stagger);
    FOR_UNROLLED(b, BUFFERS) {
      if (team + b * teams < stages) FETCH(team + b * teams, b);
    }
  }
  for (int at = item; at < GAP * WIDTH; at += ITEMS) {
    _Pragma("unroll 1") for (int p = 0; p <= BUFFERS * PLANES; ++p) ring[p * PITCH + at] = 0.0f;
  }
  for (int at = item; at < EDGE; at += ITEMS) edge[at] = 0.0f;
  CF_BARRIER();

  int buffer = 0, parity = 0;
  _Pragma("unroll 1") for (int stage = team; stage < stages; stage += teams) {
    const int channel = stage % channels, image = FIRST(stage) + own, is_busy = own < PLANES && image < images;
    float weight[FILTER_H][FILTER_W];
    CF_GLOBAL const float *of = weights + channel * TAPS;
    FOR_UNROLLED(i, FILTER_H) {
      FOR_UNROLLED(j, FILTER_W)
        weight[i][j] = epilogue.alpha * of[GRADIENT ? TAPS - 1 - i * FILTER_W - j : i * FILTER_W + j];
    }
    CF_GLOBAL float *to = result + image * stride + channel * PLANE + row * WIDTH + 4 * column;
    const int at = PLACE(buffer * PLANES + min(own, PLANES - 1)) + (row - ABOVE) * WIDTH + 4 * column;
    // Zeros of the banks that the neighbours would be in.
    CF_LOCAL_PTR const float *middle = ring + at;
    CF_LOCAL_PTR const float *left = column > 0 ? middle - 4 : edge + ((at - 4) & 31);
    CF_LOCAL_PTR const float *right = column < ACROSS - 1 ? middle + 4 : edge + ((at + 4) & 31);
    float sum[ROWS][4];
    FOR_UNROLLED(o, ROWS) { FOR_UNROLLED(p, 4) sum[o][p] = 0.0f; }
#define INSIDE(o) (is_busy && (DOWN * ROWS == HEIGHT || row + (o) < HEIGHT))
#define FINISH(o)                                                                                    \
  do {                                                                                               \
    if (INSIDE(o)) cf_four_results(sum[o], to + (o) * WIDTH, channel, 0, sum[o], rest);              \
  } while (0)
// With a z, which takes registers of its own, the compiler keeps fours together itself.
#define STORE(o)                                                                                     \
  do {                                                                                               \
    FINISH(o);                                                                                       \
    if (BETA && INSIDE(o)) CF_STORE4(to + (o) * WIDTH, sum[o]);                                      \
    if (!BETA && INSIDE(o)) store_four(to + (o) * WIDTH, sum[o]);                                    \
  } while (0)
    barrier_wait(CF_SHARED(arrived + buffer), parity);
    FOR_UNROLLED(r, SEEN) {
      float value[12];
      if (BEFORE > 2) CF_LOAD4_LOCAL(value, left + r * WIDTH);
      else if (BEFORE) LOAD_PAIR(value + 2, left + r * WIDTH + 2);
      CF_LOAD4_LOCAL(value + 4, middle + r * WIDTH);
      if (AFTER > 2) CF_LOAD4_LOCAL(value + 8, right + r * WIDTH);
      else if (AFTER) LOAD_PAIR(value + 8, right + r * WIDTH);
      FOR_UNROLLED(o, ROWS) {
        if (r - o < 0 || r - o >= FILTER_H) continue;
        FOR_UNROLLED(j, FILTER_W) {
          FOR_UNROLLED(p, 4) sum[o][p] = CF_FMA(value[4 + p + j - BEFORE], weight[r - o][j], sum[o][p]);
        }
      }
      // A row of results is complete with its last row of the source.
      const int done = r - (FILTER_H - 1);
      if (!LEAVE && done >= 0 && done < ROWS - 1) STORE(done);
    }
    const int next = stage + BUFFERS * teams;
#if LEAVE
    FOR_UNROLLED(o, ROWS) FINISH(o);
    // Everybody has read what the results take the place of.
    CF_BARRIER();
    FOR_UNROLLED(o, ROWS) {
      if (INSIDE(o)) CF_STORE4_LOCAL(ring + at + (ABOVE + o) * WIDTH, sum[o]);
    }
    CF_FENCE_MATRICES();
    CF_BARRIER();
    if (wave == 0) {
      if (lane < min(PLANES, images - FIRST(stage)))
        store_run(result + (FIRST(stage) + lane) * stride + channel * PLANE, ring + PLACE(buffer * PLANES + lane),
                  4 * PLANE);
      // A lane's next plane takes the place of its own.
      runs_stored();
      if (next < stages) FETCH(next, buffer);
    }
#else
    if (next < stages && wave_is_last(readers + buffer, lane, WAVES)) {
      CF_FENCE_MATRICES();
      FETCH(next, buffer);
    }
    STORE(ROWS - 1);
#endif
    if (++buffer == BUFFERS) {
      buffer = 0;
      parity ^= 1;
    }
  }
}
