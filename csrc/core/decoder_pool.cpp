#include "core/decoder_pool.h"

#include <algorithm>

#include "core/driver/driver.h"

namespace vd {

namespace {

int size_class(unsigned side, unsigned most) {
    for (unsigned limit : {512u, 1024u, 2048u, 4096u, 8192u})
        if (side <= limit) return static_cast<int>(std::max(side, std::min(limit, most)));
    return static_cast<int>(side);
}

// Enough for nearly every stream, so that the next one needs no decoder of its own; large pictures take gigabytes so.
constexpr unsigned kCommonSurfaces = 26;
constexpr int kLargeSide = 2048;

int output_format(const DecoderKey& key) {
    if (key.chroma == driver::k444) return key.depth > 8 ? driver::kYuv444_16 : driver::kYuv444;
    return key.depth > 8 ? driver::kP016 : driver::kNv12;
}

}  // namespace

size_t PooledDecoder::size_bytes() const {
    const size_t samples = static_cast<size_t>(key.width_class) * static_cast<size_t>(key.height_class);
    return surfaces * samples * (key.depth > 8 ? 2 : 1) * (key.chroma == driver::k444 ? 6 : 3) / 2;
}

DecoderKey DecoderPool::key_of(const driver::VideoFormat& format, const driver::DecodeCaps& caps) {
    return {format.codec, format.chroma, format.bitDepthLumaMinus8 + 8, size_class(format.codedWidth, caps.maxWidth),
            size_class(format.codedHeight, caps.maxHeight)};
}

void DecoderPool::clear() {
    while (auto decoder = take_idle(nullptr)) discard(std::move(decoder));
}

std::unique_ptr<PooledDecoder> DecoderPool::take(const DecoderNeed& need) {
    while (auto decoder = take_idle(&need)) {
        try {
            resize(*decoder, need);
            return decoder;
        } catch (const Error&) {
            discard(std::move(decoder));  // in what state it is nobody knows
        }
    }
    for (;;) {  // make room before making a new one
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (alive_bytes_ < limit_bytes_) break;
        }
        auto victim = take_idle(nullptr);
        if (!victim) break;
        discard(std::move(victim));
    }
    try {
        return create(need);
    } catch (const Error&) {
        // Out of memory, or of the hardware's channels, which the driver reports as CUDA_ERROR_NO_DEVICE.
        while (auto victim = take_idle(nullptr)) discard(std::move(victim));
        return create(need);
    }
}

void DecoderPool::give_back(std::unique_ptr<PooledDecoder> decoder) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_front(std::move(decoder));
}

void DecoderPool::discard(std::unique_ptr<PooledDecoder> decoder) {
    destroy(*decoder);
}

void DecoderPool::resize(PooledDecoder& decoder, const DecoderNeed& need) {
    if (decoder.width == need.width && decoder.height == need.height) return;
    driver::ReconfigureInfo info{};
    info.width = info.targetWidth = need.width;
    info.height = info.targetHeight = need.height;
    info.numDecodeSurfaces = decoder.surfaces;
    VD_CHECK(reconfigureDecoder, decoder.handle, &info);
    decoder.width = need.width;
    decoder.height = need.height;
    std::lock_guard<std::mutex> lock(mutex_);
    counts_.reconfigured++;
}

DecoderPool::Counts DecoderPool::counts() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return counts_;
}

std::unique_ptr<PooledDecoder> DecoderPool::create(const DecoderNeed& need) {
    auto decoder = std::make_unique<PooledDecoder>();
    const DecoderKey& key = decoder->key = need.key;
    const bool large = std::max(key.width_class, key.height_class) > kLargeSide;
    decoder->surfaces = large ? need.surfaces : std::max(need.surfaces, kCommonSurfaces);
    driver::CreateInfo info{};
    info.codec = key.codec;
    info.chroma = key.chroma;
    info.bitDepthMinus8 = static_cast<unsigned long>(key.depth - 8);
    info.outputFormat = output_format(key);
    info.deinterlaceMode = driver::kDeinterlaceWeave;
    info.numOutputSurfaces = kOutputSurfaces;
    info.numDecodeSurfaces = decoder->surfaces;
    info.creationFlags = driver::kCreatePreferCuvid;
    // Made at the largest size of its class and then set to the stream's: reconfiguring does not enlarge the memory of
    // mapped pictures. Made small and enlarged, copies failed now and then and memory was overwritten (H200, driver
    // 580).
    decoder->width = static_cast<unsigned>(key.width_class);
    decoder->height = static_cast<unsigned>(key.height_class);
    info.width = info.targetWidth = info.maxWidth = decoder->width;
    info.height = info.targetHeight = info.maxHeight = decoder->height;
    VD_CHECK(createDecoder, &decoder->handle, &info);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        alive_bytes_ += decoder->size_bytes();
        counts_.created++;
    }
    try {
        resize(*decoder, need);
    } catch (const Error&) {
        discard(std::move(decoder));
        throw;
    }
    return decoder;
}

void DecoderPool::destroy(PooledDecoder& decoder) {
    driver::functions().destroyDecoder(decoder.handle);  // nothing can be done about a failure
    std::lock_guard<std::mutex> lock(mutex_);
    alive_bytes_ -= decoder.size_bytes();
    counts_.destroyed++;
}

std::unique_ptr<PooledDecoder> DecoderPool::take_idle(const DecoderNeed* need) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.empty()) return nullptr;
    auto chosen = need ? std::find_if(idle_.begin(), idle_.end(), [&](const auto& d) { return d->fits(*need); })
                       : std::prev(idle_.end());
    if (chosen == idle_.end()) return nullptr;
    auto decoder = std::move(*chosen);
    idle_.erase(chosen);
    return decoder;
}

}  // namespace vd
