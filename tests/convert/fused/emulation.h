// What kernel.cu needs of CUDA, for a C++ compiler: blocks and threads one after another.
#include <cmath>
#include <cstring>

#define __global__
#define __device__
#define __restrict__

struct Place {
    unsigned x, y;
};
static thread_local Place blockIdx, threadIdx;

static inline int max(int a, int b) { return a > b ? a : b; }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline unsigned short emulated_half(float value) {
    const _Float16 half = static_cast<_Float16>(value);
    unsigned short bits;
    std::memcpy(&bits, &half, sizeof bits);
    return bits;
}

#include KERNEL

// For the tests: every tile of every picture.
extern "C" void emulate(const Picture* pictures, unsigned count, unsigned tiles, unsigned threads) {
    for (blockIdx.y = 0; blockIdx.y < count; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < tiles; blockIdx.x++)
            for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) convert(pictures);
}

// Where each field of a picture lies, by the order in `picture.py`.
#include <cstddef>
#define FIELDS(F)                                                                                                     \
    F(plane) F(out) F(out_channel) F(out_row) F(out_column) F(pitch) F(chroma_step) F(chroma_shift_x)                  \
    F(chroma_shift_y) F(sample_bytes) F(sample_shift) F(gray) F(transpose) F(flip_x) F(flip_y) F(shown_height)         \
    F(shown_width) F(crop_top) F(crop_left) F(crop_height) F(crop_width) F(resized_height) F(resized_width) F(top)     \
    F(left) F(out_height) F(out_width) F(bicubic) F(mirror) F(dtype) F(fill) F(luma_offset) F(luma_scale)              \
    F(chroma_offset) F(red_cr) F(green_cb) F(green_cr) F(blue_cb) F(factor) F(offset)
#define OFFSET(name) offsetof(Picture, name),
#define NAME(name) #name,
extern "C" const unsigned long offsets[] = {FIELDS(OFFSET)};
extern "C" const char* const names[] = {FIELDS(NAME) nullptr};
