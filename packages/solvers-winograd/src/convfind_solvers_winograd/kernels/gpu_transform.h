// The transforms of Winograd convolution on GPUs, with device memory between them and the products.
//
// Transformed tensors lie as [point][group][channel][tile], channels last as [point][group][tile][channel], and filters
// as [point][group][channel][filter]; their last two sizes are filled up with zeros to what the products want. A tile
// is a patch of SIZE elements of the source along each transformed axis, STRIDE apart; tiles run over images.
//
// Whoever includes this has defined the functions and sizes of one transform: see the generated transform_*.h.
#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0  // 1: channels are the fastest axis of tensors
#endif


#define GROUP 128  // work-items of a group

// Which element of a transformed tensor an item has.
typedef struct {
  int group, channel, tile;
} Element;

CF_INLINE Element element_of(CF_UINT number, int channels, int tiles) {
  Element found;
  const CF_UINT fast = CHANNELS_LAST ? channels : tiles, slow = CHANNELS_LAST ? tiles : channels;
  const int one = (int)(number % fast), rest = (int)(number / fast);
  const int other = (int)((CF_UINT)rest % slow);
  found.channel = CHANNELS_LAST ? one : other;
  found.tile = CHANNELS_LAST ? other : one;
  found.group = (int)((CF_UINT)rest / slow);
  return found;
}

// Where a tile begins along an axis. The elements of a tile lie as far apart as the taps, and so do its results: an axis
// has as many phases, each with tiles of its own.
CF_INLINE int begin_of(int tile, int tiles, int step, int apart) {
  if (!DILATED) return tile * step;
  const int tiles_of_phase = tiles / apart, phase = tile / tiles_of_phase;
  return phase + (tile - phase * tiles_of_phase) * step * apart;
}

// Read a tile of `extent` along the transformed axes, zeros outside of the image. What is read there is its first
// element: no branch keeps reads from being under way together.
#define READ_PATCH(patch, image, extent, top, left, apart_h, apart_w, height, width, row_step, column_step)  \
  do {                                                                                                       \
    FOR_UNROLLED(i, SIZE_H(extent)) {                                                                        \
      const int patch_row = (top) + i * (apart_h);                                                           \
      FOR_UNROLLED(j, SIZE_W(extent)) {                                                                      \
        const int patch_column = (left) + j * (apart_w);                                                     \
        const int inside = (CF_UINT)patch_row < (CF_UINT)(height) && (CF_UINT)patch_column < (CF_UINT)(width); \
        const float value =                                                                                  \
            CF_LOAD(DTYPE, image, inside ? patch_row * (row_step) + patch_column * (column_step) : 0);       \
        patch[i * SIZE_W(extent) + j] = inside ? value : 0.0f;                                               \
      }                                                                                                      \
    }                                                                                                        \
  } while (0)

// A tensor's tiles to its points: of the source, EXTENT is SIZE; in weight gradients also of y, which takes the
// filter's place, and EXTENT is TAPS. One item an element of [group][channel][tile].
#define TRANSFORM_TILES(name, function, EXTENT)                                                                     \
  CF_KERNEL CF_WORK_GROUP_SIZE(GROUP, 1, 1) void name(                                                              \
      CF_GLOBAL const ELEMENT *tensor, CF_GLOBAL float *points, const int first_image, const int images,            \
      const int groups, const int channels, const int height, const int width, const int pad_h, const int pad_w,    \
      const int tiles_h, const int tiles_w, const int padded_channels, const int padded_tiles,                      \
      const int dilation_h, const int dilation_w) {                                                                 \
    const CF_UINT number = (CF_UINT)CF_GLOBAL_ID(0);                                                                \
    const CF_UINT count = (CF_UINT)groups * padded_channels * padded_tiles;                                         \
    if (number >= count) return;                                                                                    \
    const Element at = element_of(number, padded_channels, padded_tiles);                                           \
    const int column = at.tile % tiles_w, above = at.tile / tiles_w;                                                \
    const int row = above % tiles_h, image = above / tiles_h;                                                       \
    VALUE patch[AREA(EXTENT)], result[POINTS];                                                                      \
    const int there = at.channel < channels && image < images;                                                      \
    const int position_step = CHANNELS_LAST ? groups * channels : 1;                                                \
    if (there) {                                                                                                    \
      tensor += (CF_LONG)(first_image + image) * height * width * groups * channels +                               \
                (CF_LONG)(at.group * channels + at.channel) * (CHANNELS_LAST ? 1 : height * width);                 \
    }                                                                                                               \
    const int apart_h = DILATED ? dilation_h : 1, apart_w = DILATED ? dilation_w : 1;                               \
    READ_PATCH(patch, tensor, EXTENT, begin_of(row, tiles_h, SIZE_H(STRIDE), apart_h) - pad_h,                      \
               begin_of(column, tiles_w, SIZE_W(STRIDE), apart_w) - pad_w, apart_h, apart_w, there ? height : 0,    \
               width, width * position_step, position_step);                                                        \
    TRANSFORM(function, patch, EXTENT, result, SIZE);                                                               \
    points += number;                                                                                               \
    FOR_UNROLLED(p, POINTS) points[(CF_LONG)p * count] = result[p];                                                 \
  }
