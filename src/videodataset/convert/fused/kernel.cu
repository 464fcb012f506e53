// Planes of decoded pictures to what was asked for, a batch in one launch: the definition in `color.py` and
// `transform.py`.
//
//   blockIdx.y: a picture of the table; blockIdx.x: a tile of 32 x 8 pixels of its result; one thread for each pixel
//
// A resized pixel is the weighted mean of source pixels that are converted, rounded and clamped one by one, as if the
// picture had been converted at full size before. No source pixel outside the crop is read.
//
// Compiled at run time, without headers.

typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;
typedef long long int64;

// One picture of the table; `picture.py` has the same fields.
struct Picture {
    uint64 plane[3];                    // addresses of the first Y, Cb and Cr sample
    uint64 out;                         // address of the result's first element
    int64 out_channel, out_row, out_column;  // from one element of the result to the next, in elements
    int pitch[3];                       // bytes from one row of a plane to the next
    int chroma_step;                    // samples from one of Cb to the next: 2 where Cb and Cr take turns
    int chroma_shift_x, chroma_shift_y; // log2 of the subsampling
    int sample_bytes;                   // 1 or 2
    int sample_shift;                   // by which samples of two bytes are shifted right
    int gray;                           // no chroma planes
    int transpose, flip_x, flip_y;      // of the display matrix, in this order
    int shown_height, shown_width;      // of the whole displayed picture
    int crop_top, crop_left, crop_height, crop_width;  // in the displayed picture
    int resized_height, resized_width;  // that the crop is scaled to
    int top, left;                      // where that goes in the result; negative: cut off
    int out_height, out_width;
    int bicubic;                        // else bilinear; both antialiased
    int mirror;                         // left-right, at the end
    int dtype;                          // 0 uint8, 1 float16, 2 bfloat16, 3 float32
    float fill[3];                      // codes around the picture
    float luma_offset, luma_scale, chroma_offset;
    float red_cr, green_cb, green_cr, blue_cb;  // scale of chroma included
    float factor[3], offset[3];         // result = code * factor + offset, for floating types
};
static_assert(sizeof(Picture) == 232, "picture.py has the same fields");

struct Color {
    float red, green, blue;
};

// To a whole number, halves to even, for |value| < 2^22: the sum has no bits left behind the point.
__device__ inline float rounded(float value) {
    return (value + 12582912.0f) - 12582912.0f;
}
__device__ inline float code(float value) {
    return fminf(fmaxf(rounded(value), 0.0f), 255.0f);
}

__device__ inline float sample(const Picture& p, int plane, int row, int column) {
    const uint64 address = p.plane[plane] + static_cast<int64>(row) * p.pitch[plane];
    if (p.sample_bytes == 1) return reinterpret_cast<const uint8*>(address)[column];
    return static_cast<float>(reinterpret_cast<const uint16*>(address)[column] >> p.sample_shift);
}

// The converted pixel at a place in the displayed picture.
__device__ inline Color converted(const Picture& p, int y, int x) {
    if (p.flip_y) y = p.shown_height - 1 - y;
    if (p.flip_x) x = p.shown_width - 1 - x;
    const int row = p.transpose ? x : y, column = p.transpose ? y : x;
    const float luma = (sample(p, 0, row, column) - p.luma_offset) * p.luma_scale;
    if (p.gray) {
        const float level = code(luma);
        return {level, level, level};
    }
    const int chroma_row = row >> p.chroma_shift_y, chroma_column = (column >> p.chroma_shift_x) * p.chroma_step;
    const float cb = sample(p, 1, chroma_row, chroma_column) - p.chroma_offset;
    const float cr = sample(p, 2, chroma_row, chroma_column) - p.chroma_offset;
    return {code(luma + p.red_cr * cr), code(luma + p.green_cb * cb + p.green_cr * cr), code(luma + p.blue_cb * cb)};
}

// Source pixels behind one resized pixel along one axis, as torch's antialiased interpolation has them.
struct Taps {
    int first, count;
    float start, step, norm;  // of the filter's argument at the first tap, from tap to tap; what weights sum to
};

// The bilinear filter's triangle, or Keys' cubic with a = -0.5.
__device__ inline float weight(int bicubic, float at) {
    const float x = fabsf(at);
    if (!bicubic) return fmaxf(1.0f - x, 0.0f);
    if (x < 1.0f) return (1.5f * x - 2.5f) * x * x + 1.0f;
    return x < 2.0f ? ((-0.5f * x + 2.5f) * x - 4.0f) * x + 2.0f : 0.0f;
}

__device__ inline Taps taps_of(int bicubic, int place, int source, int resized) {
    const float scale = static_cast<float>(source) / static_cast<float>(resized);
    const float stretch = fmaxf(scale, 1.0f);
    const float support = (bicubic ? 2.0f : 1.0f) * stretch;
    const float center = scale * (static_cast<float>(place) + 0.5f);
    Taps taps;
    taps.first = max(static_cast<int>(center - support + 0.5f), 0);
    taps.count = min(static_cast<int>(center + support + 0.5f), source) - taps.first;
    taps.step = 1.0f / stretch;
    taps.start = (static_cast<float>(taps.first) - center + 0.5f) * taps.step;
    taps.norm = 0.0f;
    for (int k = 0; k < taps.count; k++) taps.norm += weight(bicubic, taps.start + static_cast<float>(k) * taps.step);
    return taps;
}

__device__ inline Color resized(const Picture& p, int y, int x) {
    const Taps rows = taps_of(p.bicubic, y, p.crop_height, p.resized_height);
    const Taps columns = taps_of(p.bicubic, x, p.crop_width, p.resized_width);
    Color sum = {0.0f, 0.0f, 0.0f};
    for (int j = 0; j < rows.count; j++) {
        Color line = {0.0f, 0.0f, 0.0f};
        for (int k = 0; k < columns.count; k++) {
            const float w = weight(p.bicubic, columns.start + static_cast<float>(k) * columns.step);
            const Color pixel = converted(p, p.crop_top + rows.first + j, p.crop_left + columns.first + k);
            line.red += w * pixel.red;
            line.green += w * pixel.green;
            line.blue += w * pixel.blue;
        }
        const float w = weight(p.bicubic, rows.start + static_cast<float>(j) * rows.step);
        sum.red += w * line.red;
        sum.green += w * line.green;
        sum.blue += w * line.blue;
    }
    const float scale = 1.0f / (rows.norm * columns.norm);
    return {code(sum.red * scale), code(sum.green * scale), code(sum.blue * scale)};
}

__device__ inline uint16 half_bits(float value) {
#ifdef __CUDA_ARCH__
    uint16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return emulated_half(value);
#endif
}

__device__ inline uint16 bfloat16_bits(float value) {  // halves to even; no NaN comes here
    const uint32 bits = __float_as_uint(value);
    return static_cast<uint16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ inline void store(const Picture& p, int channel, int64 place, float level) {
    place += channel * p.out_channel;
    if (p.dtype == 0) {
        reinterpret_cast<uint8*>(p.out)[place] = static_cast<uint8>(level);
        return;
    }
    const float value = level * p.factor[channel] + p.offset[channel];
    if (p.dtype == 1)
        reinterpret_cast<uint16*>(p.out)[place] = half_bits(value);
    else if (p.dtype == 2)
        reinterpret_cast<uint16*>(p.out)[place] = bfloat16_bits(value);
    else
        reinterpret_cast<float*>(p.out)[place] = value;
}

extern "C" __global__ void convert(const Picture* __restrict__ pictures) {
    const Picture& p = pictures[blockIdx.y];
    const int tiles_across = (p.out_width + 31) / 32;
    const int y = static_cast<int>(blockIdx.x) / tiles_across * 8 + static_cast<int>(threadIdx.x) / 32;
    const int x = static_cast<int>(blockIdx.x) % tiles_across * 32 + static_cast<int>(threadIdx.x) % 32;
    if (y >= p.out_height || x >= p.out_width) return;
    const int inner_y = y - p.top, inner_x = x - p.left;  // in the resized picture
    Color color = {p.fill[0], p.fill[1], p.fill[2]};
    if (inner_y >= 0 && inner_y < p.resized_height && inner_x >= 0 && inner_x < p.resized_width) {
        const bool as_it_is = p.resized_height == p.crop_height && p.resized_width == p.crop_width;
        color = as_it_is ? converted(p, p.crop_top + inner_y, p.crop_left + inner_x) : resized(p, inner_y, inner_x);
    }
    const int64 place = y * p.out_row + (p.mirror ? p.out_width - 1 - x : x) * p.out_column;
    store(p, 0, place, color.red);
    store(p, 1, place, color.green);
    store(p, 2, place, color.blue);
}
