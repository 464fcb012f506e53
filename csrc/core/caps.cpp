#include "core/caps.h"

#include <string>

#include "core/driver/driver.h"

namespace vd {

driver::DecodeCaps Caps::get(int codec, int chroma, int depth) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto key = std::make_tuple(codec, chroma, depth);
    const auto found = known_.find(key);
    if (found != known_.end()) return found->second;
    driver::DecodeCaps caps{};
    caps.codec = codec;
    caps.chroma = chroma;
    caps.bitDepthMinus8 = static_cast<unsigned>(depth - 8);
    VD_CHECK(getDecoderCaps, &caps);
    known_[key] = caps;
    return caps;
}

const char* codec_name(int codec) {
    switch (codec) {
        case driver::kMpeg1:
            return "mpeg1video";
        case driver::kMpeg2:
            return "mpeg2video";
        case driver::kMpeg4:
            return "mpeg4";
        case driver::kVc1:
            return "vc1";
        case driver::kH264:
            return "h264";
        case driver::kJpeg:
            return "mjpeg";
        case driver::kHevc:
            return "hevc";
        case driver::kVp8:
            return "vp8";
        case driver::kVp9:
            return "vp9";
        case driver::kAv1:
            return "av1";
        default:
            return "unknown";
    }
}

void require_supported(const driver::DecodeCaps& caps, const driver::VideoFormat& format, const char* name) {
    static const char* const chroma_names[] = {"4:0:0", "4:2:0", "4:2:2", "4:4:4"};
    const std::string what = std::string(name) + ": " + codec_name(format.codec) + " " +
                             chroma_names[format.chroma & 3] + " " + std::to_string(format.bitDepthLumaMinus8 + 8) +
                             " bit";
    if (!caps.isSupported) throw Error(ErrorKind::unsupported, what + " is not decoded by this GPU's NVDEC.");
    const std::string size = ", " + std::to_string(format.codedWidth) + "x" + std::to_string(format.codedHeight);
    if (format.codedWidth > caps.maxWidth || format.codedHeight > caps.maxHeight)
        throw Error(ErrorKind::unsupported, what + size + " is larger than this GPU's NVDEC takes, " +
                                                std::to_string(caps.maxWidth) + "x" + std::to_string(caps.maxHeight) +
                                                ".");
    if (format.codedWidth < caps.minWidth || format.codedHeight < caps.minHeight)
        throw Error(ErrorKind::unsupported, what + size + " is smaller than this GPU's NVDEC takes, " +
                                                std::to_string(caps.minWidth) + "x" + std::to_string(caps.minHeight) +
                                                ".");
    const unsigned long macroblocks =
        static_cast<unsigned long>((format.codedWidth + 15) / 16) * ((format.codedHeight + 15) / 16);
    if (macroblocks > caps.maxMbCount)
        throw Error(ErrorKind::unsupported, what + size + " has more than the " + std::to_string(caps.maxMbCount) +
                                                " macroblocks that this GPU's NVDEC takes.");
}

}  // namespace vd
