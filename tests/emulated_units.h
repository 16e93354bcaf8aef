// NVIDIA's units as C++ for a CPU, in place of convfind_nvidia.h: a work-item is a fiber, which gives way where it would wait.
//
// Copies and products are done when they are asked for. Local memory is `arena`, whose addresses count from 0. The units cut
// off what they add up, which is not emulated.
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <map>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define ulong uint64_t
#define CF_GLOBAL
#define CF_LOCAL static
#define CF_LOCAL_PTR
#define CF_RESTRICT
#define CF_INLINE static inline
#define CF_INLINED static inline
#define CF_UNROLL
#define CF_WORK_GROUP_SIZE(x, y, z)
#define CF_LONG long long
#define CF_UINT uint32_t
#define CF_USHORT uint16_t
#define CF_HALF _Float16
#define CF_LOAD_HALF(pointer, index) ((float)(pointer)[index])
#define CF_STORE_HALF(pointer, index, value) ((pointer)[index] = (_Float16)(value))
#define CF_LOAD4(array, pointer) std::memcpy(array, pointer, 16)
#define CF_STORE4(pointer, array) std::memcpy(pointer, array, 16)
#define CF_FMA(a, b, c) std::fma(a, b, c)
#define CF_MULTIPLY_ADD_SMALL(a, b, c) ((a) * (b) + (c))
#define fmax(a, b) std::fmax(a, b)
#define CF_LOCAL_ID(axis) local_id
#define CF_LOCAL_SIZE(axis) all_items
#define CF_GROUP_ID(axis) group_id
#define CF_GLOBAL_ID(axis) (group_id * all_items + local_id)
#define CF_SHARED(pointer) ((CF_UINT)((unsigned char *)(pointer) - arena))
#define CF_PIECE(row, piece) ((row) * 128 + (((piece) ^ ((row) & 7)) << 4))

alignas(1024) static unsigned char arena[256 * 1024];
static int local_id, group_id, all_items;
static int min(const int a, const int b) { return a < b ? a : b; }
static int max(const int a, const int b) { return a < b ? b : a; }
// Other arrays of local memory lie before the arena or behind it.
static unsigned char *local(const uint32_t address) { return arena + (int32_t)address; }

#define CF_AS_FLOAT(bits) float_of(bits)
#define CF_AS_UINT(number) bits_of(number)
static float float_of(const uint32_t bits) {
  float number;
  std::memcpy(&number, &bits, 4);
  return number;
}
static uint32_t bits_of(const float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, 4);
  return bits;
}
#include "convfind_kernel.h"
#if IS_BFLOAT16
static float wide(const uint16_t bits) { return CF_AS_FLOAT((uint32_t)bits << 16); }
static uint16_t narrow(const float x) {
  const uint32_t bits = bits_of(x);
  return std::isnan(x) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
#else
static float wide(const uint16_t bits) {
  _Float16 number;
  std::memcpy(&number, &bits, 2);
  return (float)number;
}
static uint16_t narrow(const float x) {
  const _Float16 number = (_Float16)x;
  uint16_t bits;
  std::memcpy(&bits, &number, 2);
  return bits;
}
#endif

static uint32_t cf_tf32_nearest(const uint32_t bits) {
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}

// Work-items run in turn, each until it waits. Where none goes on any more, the launch is given up.
struct Fiber {
  ucontext_t start;
  jmp_buf place;
  std::vector<char> stack;
  bool has_begun, is_over;
};
static std::vector<Fiber> fibers;
static ucontext_t launching;
static int left_to_run, idle_turns;
static void next_item() {
  const int own = local_id;
  if (++idle_turns > 1000 * all_items) setcontext(&launching);
  do local_id = (local_id + 1) % all_items;
  while (fibers[local_id].is_over && local_id != own);
  Fiber &next = fibers[local_id];
  if (local_id != own && !_setjmp(fibers[own].place)) {
    if (next.has_begun) _longjmp(next.place, 1);
    setcontext(&next.start);
  }
  local_id = own;
}
template <typename Condition>
static void wait_for(Condition is_met) {
  while (!is_met()) next_item();
  idle_turns = 0;
}

// Barriers of the units: `items` of a number meet, or pass. Those from 100 on are of waves, from 200 on of four each.
struct Meeting {
  int there = 0, round = 0;
};
static Meeting meetings[256];
static void come(const int number, const int items, const bool waits) {
  Meeting &meeting = meetings[number];
  const int round = meeting.round;
  if (++meeting.there == items) {
    meeting.there = 0;
    ++meeting.round;
  } else if (waits) {
    wait_for([&] { return meeting.round != round; });
  }
}
#define MEET_AT(barrier, items) come(barrier, items, true)
#define PASS_AT(barrier, items) come(barrier, items, false)
#define GIVE_REGISTERS(count)
#define TAKE_REGISTERS(count)
#define CF_BARRIER() come(0, all_items, true)
#define CF_WAVE_BARRIER() come(100 + local_id / 32, 32, true)
static void four_waves() { come(200 + local_id / 128, 128, true); }

// Barriers in local memory: a phase ends when so many items have arrived and so many bytes have come.
struct Expected {
  int items, left, bytes, rounds;
};
static std::map<uint32_t, Expected> expected;
static void barrier_start(const uint32_t at, const int items) { expected[at] = {items, items, 0, 0}; }
static void come_to(const uint32_t at, const int items, const int bytes) {
  Expected &one = expected.at(at);
  one.left -= items;
  one.bytes += bytes;
  if (one.left == 0 && one.bytes == 0) {
    one.left = one.items;
    ++one.rounds;
  }
}
static void barrier_expect(const uint32_t at, const int bytes) { come_to(at, 1, bytes); }
static void barrier_arrive(const uint32_t at) { come_to(at, 1, 0); }
#define barrier_arrive_copied barrier_arrive
static void barrier_wait(const uint32_t at, const uint32_t phase) {
  const Expected &one = expected.at(at);
  wait_for([&] { return (one.rounds - 1 & 1) == (phase & 1); });
}
#define barriers_started()
#define CF_FENCE_MATRICES()

// What copies a tensor's pieces: the map's words, which emulated_units.py writes, and rows of 128 bytes, spread over the banks.
struct Map {
  const unsigned char *from;
  int64_t element_bytes, rounds, sizes[4], strides[4], box[3];
  int64_t first[2], counts[2], steps[2];
};
static void copy_row(const uint32_t to, const Map &map, const int row, const int64_t channel, const int64_t *others,
                     const int rank) {
  const int64_t size = map.element_bytes;
  bool is_inside = true;
  const unsigned char *from = map.from;
  for (int axis = 1; axis < rank; ++axis) {
    is_inside = is_inside && others[axis] >= 0 && others[axis] < map.sizes[axis];
    from += others[axis] * map.strides[axis - 1] * size;
  }
  for (int i = 0; i < map.box[0]; ++i) {
    uint32_t bits = 0;
    const int64_t at = channel + i;
    if (is_inside && at >= 0 && at < map.sizes[0]) std::memcpy(&bits, from + at * size, size);
    if (map.rounds) bits = cf_tf32_nearest(bits);
    uint32_t place = to + row * 128 + i * size;
    place ^= (place >> 7 & 7) << 4;
    std::memcpy(local(place), &bits, size);
  }
}
static void copy_windows(const uint32_t to, const ulong map_at, const uint32_t barrier, const int channel, const int w,
                         const int h, const int image, const int off_w, const int off_h) {
  const Map &map = *(const Map *)*(const ulong *)map_at;
  int64_t at[4] = {0, w, h, image};
  for (int row = 0; row < map.box[1]; ++row) {
    const int64_t tap[4] = {0, at[1] + off_w, at[2] + off_h, at[3]};
    copy_row(to, map, row, channel, tap, 4);
    for (int axis = 1; axis < 4; ++axis) {
      if (axis == 3) {
        ++at[3];
      } else if ((at[axis] += map.steps[axis - 1]) <= map.first[axis - 1] + (map.counts[axis - 1] - 1) * map.steps[axis - 1]) {
        break;
      } else {
        at[axis] = map.first[axis - 1];
      }
    }
  }
  come_to(barrier, 0, -(int)(map.box[1] * map.box[0] * map.element_bytes));
}
static void copy_box(const uint32_t to, const ulong map_at, const uint32_t barrier, const int x, const int y, const int z) {
  const Map &map = *(const Map *)*(const ulong *)map_at;
  int row = 0;
  for (int64_t i = z; i < z + map.box[2]; ++i)
    for (int64_t j = y; j < y + map.box[1]; ++j) {
      const int64_t others[3] = {0, j, i};
      copy_row(to, map, row++, x, others, 3);
    }
  come_to(barrier, 0, -(int)(row * map.box[0] * map.element_bytes));
}

static void cf_copy_16(const uint32_t to, const void *from, const int size) {
  std::memset(local(to), 0, 16);
  std::memcpy(local(to), from, size);
}
#define CF_COPIES_COMMIT()
#define CF_COPIES_WAIT(count)
#define CF_LOAD_SHARED_4(to, address) std::memcpy(to, local(address), 16)
#define CF_STORE_4(pointer, from) std::memcpy(pointer, from, 16)
static uint32_t pair(const float first, const float second) { return narrow(first) | (uint32_t)narrow(second) << 16; }
#define CF_PAIR(dtype, first, second) pair(first, second)
#define CF_STORE_SHARED_PAIR(dtype, address, first, second) CF_JOIN(store_pair_, dtype)(address, first, second)
static void store_pair_FLOAT32(const uint32_t address, const float first, const float second) {
  std::memcpy(local(address), &first, 4);
  std::memcpy(local(address + 4), &second, 4);
}
static void store_pair_FLOAT16(const uint32_t address, const float first, const float second) {
  const uint32_t both = pair(first, second);
  std::memcpy(local(address), &both, 4);
}
#define store_pair_BFLOAT16 store_pair_FLOAT16
#define CF_LOAD_SHARED_PAIR(dtype, to, address) CF_JOIN(load_pair_, dtype)(to, address)
static void load_pair_FLOAT32(float *to, const uint32_t address) { std::memcpy(to, local(address), 8); }
static void load_pair_FLOAT16(float *to, const uint32_t address) {
  uint16_t both[2];
  std::memcpy(both, local(address), 4);
  for (int i = 0; i < 2; ++i) to[i] = wide(both[i]);
}
#define load_pair_BFLOAT16 load_pair_FLOAT16

static float exp2_of(const float x) { return std::exp2(x); }
static float given[1024];
static float across(const float x, const int bit) {
  given[local_id] = x;
  CF_WAVE_BARRIER();
  const float y = given[local_id ^ bit];
  CF_WAVE_BARRIER();
  return y;
}

// What lanes of a wave give each other.
static uint32_t words[32][32][6];
static void load_matrices(uint32_t *to, const uint32_t address, const bool is_turned) {
  uint32_t(*const wave)[6] = words[local_id / 32];
  const int lane = local_id % 32;
  wave[lane][0] = address;
  CF_WAVE_BARRIER();
  for (int j = 0; j < 4; ++j) {
    if (is_turned) {
      uint16_t halves[2];
      for (int i = 0; i < 2; ++i)
        std::memcpy(&halves[i], local(wave[8 * j + lane % 4 * 2 + i][0] + lane / 4 * 2), 2);
      to[j] = halves[0] | (uint32_t)halves[1] << 16;
    } else {
      std::memcpy(&to[j], local(wave[8 * j + lane / 4][0] + lane % 4 * 4), 4);
    }
  }
  CF_WAVE_BARRIER();
}
#define CF_LOAD_MATRICES(to, address) load_matrices(to, address, false)
#define CF_LOAD_TRANSPOSED(to, address) load_matrices(to, address, true)

#define CF_MMA(dtype, sums, a, b) multiply_fragments(sums, a, b, [](uint32_t x, uint32_t y) { return CF_JOIN(product_, dtype)(x, y); })
static float product_FLOAT32(const uint32_t x, const uint32_t y) { return float_of(x & ~0x1fffu) * float_of(y & ~0x1fffu); }
static float product_FLOAT16(const uint32_t x, const uint32_t y) {
  return wide((uint16_t)x) * wide((uint16_t)y) + wide((uint16_t)(x >> 16)) * wide((uint16_t)(y >> 16));
}
#define product_BFLOAT16 product_FLOAT16
template <typename Product>
static void multiply_fragments(float *sums, const uint32_t *a, const uint32_t *b, Product product) {
  uint32_t(*const wave)[6] = words[local_id / 32];
  const int lane = local_id % 32;
  for (int i = 0; i < 6; ++i) wave[lane][i] = i < 4 ? a[i] : b[i - 4];
  CF_WAVE_BARRIER();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 8; ++k)
      sums[i] += product(wave[4 * row + k % 4][i / 2 + k / 4 * 2], wave[4 * column + k % 4][4 + k / 4]);
  }
  CF_WAVE_BARRIER();
}

// Products of 64 rows, 16 elements along the sum. A matrix in local memory is its first address, the bytes from panel to panel
// (of one whose rows lie along the sum), and those from eight rows to the next.
#define CF_WGMMA_FENCE()
#define CF_WGMMA_COMMIT()
#define CF_WGMMA_WAIT(count)
#define CF_MATRIX(address) ((ulong)(((address) & 0x3ffffu) >> 4) | (ulong)1 << 16 | (ulong)64 << 32 | (ulong)1 << 62)
static uint32_t place_of(const ulong matrix, const int row, const int byte) {
  uint32_t at = (uint32_t)(matrix & 0x3fff) << 4;
  at += byte / 128 * ((uint32_t)(matrix >> 16 & 0x3fff) << 4) + row / 8 * ((uint32_t)(matrix >> 32 & 0x3fff) << 4);
  at += row % 8 * 128 + byte % 128;
  return at ^ (at >> 7 & 7) << 4;
}
static float element_FLOAT16(const ulong matrix, const int row, const int column) {
  uint16_t bits;
  std::memcpy(&bits, local(place_of(matrix, row, 2 * column)), 2);
  return wide(bits);
}
#define element_BFLOAT16 element_FLOAT16
static float element_FLOAT32(const ulong matrix, const int row, const int column) {
  uint32_t bits;
  std::memcpy(&bits, local(place_of(matrix, row, 4 * column)), 4);
  return float_of(bits & ~0x1fffu);
}
static float left_factors[8][64][16], right_factors[8][16][256];
template <typename Right>
static void multiply(float *sums, const int columns, const int along, const bool more, Right right) {
  const int lane = local_id % 32, wave = local_id % 128 / 32, four = local_id / 128;
  for (int i = local_id % 128; i < along * columns; i += 128)
    right_factors[four][i % along][i / along] = right(i % along, i / along);
  four_waves();
  for (int i = 0; i < columns / 2; ++i) {
    const int row = 16 * wave + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    float sum = more ? sums[i] : 0.0f;
    for (int k = 0; k < along; ++k) sum += left_factors[four][row][k] * right_factors[four][k][column];
    sums[i] = sum;
  }
  four_waves();
}
template <typename Element>
static void multiply_rows(float *sums, const int columns, const int along, const ulong a, const ulong b, const bool more,
                          Element element) {
  const int own = local_id % 128;
  for (int i = 0; i < along / 2; ++i) {
    const int k = own % 2 * (along / 2) + i;
    left_factors[local_id / 128][own / 2][k] = element(a, own / 2, k);
  }
  multiply(sums, columns, along, more, [=](int k, int column) { return element(b, column, k); });
}
static void left_FLOAT16(float (*rows)[16], const uint32_t *a) {
  const int lane = local_id % 32, wave = local_id % 128 / 32;
  for (int i = 0; i < 8; ++i)
    rows[16 * wave + lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] = wide((uint16_t)(a[i / 2] >> i % 2 * 16));
}
#define left_BFLOAT16 left_FLOAT16
static void left_FLOAT32(float (*rows)[16], const uint32_t *a) {
  const int lane = local_id % 32, wave = local_id % 128 / 32;
  for (int i = 0; i < 4; ++i) rows[16 * wave + lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4] = float_of(a[i] & ~0x1fffu);
}
template <typename Left, typename Right>
static void multiply_registers(float *sums, const int columns, const int along, const uint32_t *a, const bool more, Left left,
                               Right right) {
  left(left_factors[local_id / 128], a);
  multiply(sums, columns, along, more, right);
}
#define ALONG(dtype) (int)(32 / sizeof(CF_TYPE(dtype)))
#define CF_WGMMA(columns, dtype, sums, a, b, more) \
  multiply_rows(sums, columns, ALONG(dtype), a, b, more, CF_JOIN(element_, dtype))
#define CF_WGMMA_FROM_REGISTERS(columns, dtype, sums, a, b, more)                     \
  multiply_registers(sums, columns, ALONG(dtype), a, more, CF_JOIN(left_, dtype), \
                     [=](int k, int column) { return CF_JOIN(element_, dtype)(b, column, k); })
#define WGMMA_TURNED(columns, dtype, sums, a, b)                                          \
  multiply_registers(sums, columns, 16, a, true, left_FLOAT16, \
                     [=](int k, int column) { return element_FLOAT16(b, k, column); })

// A kernel is launched as the driver does: with the address of each argument. Returns the number of work-items that ended.
template <typename... Types, size_t... places>
static void call(void (*kernel)(Types...), void **arguments, std::index_sequence<places...>) {
  kernel(*(std::remove_const_t<Types> *)arguments[places]...);
}
static void (*work)();
static void run_item() {
  const int own = local_id;
  fibers[own].has_begun = true;
  work();
  idle_turns = 0;
  fibers[own].is_over = true;
  if (--left_to_run == 0) setcontext(&launching);
  next_item();
}
template <typename... Types>
static int launch(void (*kernel)(Types...), const int groups, const int items, void **arguments) {
  static void (*of_moment)(Types...);
  static void **given;
  of_moment = kernel, given = arguments;
  work = [] { call(of_moment, given, std::index_sequence_for<Types...>()); };
  all_items = items;
  fibers = std::vector<Fiber>(items);
  for (Fiber &one : fibers) one.stack.resize(1 << 16);
  static volatile int ended;
  ended = 0;
  for (group_id = 0; group_id < groups; ++group_id) {
    for (Meeting &one : meetings) one.there = 0;  // those that nobody waits for may be left
    expected.clear();
    std::memset(arena, 0xff, sizeof arena);  // NaN
    for (Fiber &one : fibers) {
      getcontext(&one.start);
      one.start.uc_stack = {one.stack.data(), 0, one.stack.size()};
      one.has_begun = one.is_over = false;
      makecontext(&one.start, run_item, 0);
    }
    left_to_run = items;
    local_id = idle_turns = 0;
    swapcontext(&launching, &fibers[0].start);
    ended = ended + items - left_to_run;
    if (left_to_run) break;
  }
  return ended;
}
