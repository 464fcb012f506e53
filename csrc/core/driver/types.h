// The few structures and values of the CUDA driver and NVCUVID interfaces that this library uses, declared anew so that
// no SDK is needed to build. Layouts follow NVIDIA's Video Codec SDK 12 headers; tests/native/abi_check.cpp compares
// sizes, offsets and values with those headers where they are installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vd::driver {

using Result = int;
using Device = int;
using DevicePtr = unsigned long long;
struct ContextTag;
struct StreamTag;
struct EventTag;
using Context = ContextTag*;
using Stream = StreamTag*;
using Event = EventTag*;
using Decoder = void*;
using Parser = void*;

constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;
constexpr Result kNotInitialized = 3;
constexpr Result kDeinitialized = 4;

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventBlockingSync = 1;
constexpr unsigned kEventDisableTiming = 2;
constexpr int kCaptureModeRelaxed = 2;
constexpr unsigned kMemoryTypeDevice = 2;

struct Memcpy2D {
    size_t srcXInBytes, srcY;
    unsigned srcMemoryType;
    const void* srcHost;
    DevicePtr srcDevice;
    void* srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    unsigned dstMemoryType;
    void* dstHost;
    DevicePtr dstDevice;
    void* dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
};

enum Codec : int {
    kMpeg1 = 0,
    kMpeg2 = 1,
    kMpeg4 = 2,
    kVc1 = 3,
    kH264 = 4,
    kJpeg = 5,
    kHevc = 8,
    kVp8 = 9,
    kVp9 = 10,
    kAv1 = 11
};
enum Chroma : int { kMonochrome = 0, k420 = 1, k422 = 2, k444 = 3 };
enum SurfaceFormat : int { kNv12 = 0, kP016 = 1, kYuv444 = 2, kYuv444_16 = 3 };
enum DecodeStatus : int { kStatusError = 8, kStatusErrorConcealed = 9 };
constexpr int kDeinterlaceWeave = 0;
constexpr unsigned long kCreatePreferCuvid = 4;

constexpr unsigned long kPacketEndOfStream = 1;
constexpr unsigned long kPacketTimestamp = 2;
constexpr unsigned long kPacketEndOfPicture = 8;

struct DecodeCaps {
    int codec, chroma;
    unsigned bitDepthMinus8;
    unsigned reserved1[3];
    unsigned char isSupported, numNvdecs;
    unsigned short outputFormatMask;
    unsigned maxWidth, maxHeight, maxMbCount;
    unsigned short minWidth, minHeight;
    unsigned char isHistogramSupported, counterBitDepth;
    unsigned short maxHistogramBins;
    unsigned reserved3[10];
};

struct ShortRect {
    short left, top, right, bottom;
};

struct CreateInfo {
    unsigned long width, height, numDecodeSurfaces;
    int codec, chroma;
    unsigned long creationFlags, bitDepthMinus8, intraDecodeOnly, maxWidth, maxHeight, reserved1;
    ShortRect displayArea;
    int outputFormat, deinterlaceMode;
    unsigned long targetWidth, targetHeight, numOutputSurfaces;
    void* vidLock;
    ShortRect targetRect;
    unsigned long enableHistogram, reserved2[4];
};

struct ReconfigureInfo {
    unsigned width, height, targetWidth, targetHeight, numDecodeSurfaces;
    unsigned reserved1[12];
    ShortRect displayArea, targetRect;
    unsigned reserved2[11];
};

// CUVIDPICPARAMS is handed from the parser to the decoder unread, but for the surface that the picture goes to.
struct PictureParams {
    int widthInMbs, heightInMbs, surface;
};

struct ProcParams {
    int progressiveFrame, secondField, topFieldFirst, unpairedField;
    unsigned reservedFlags, reservedZero;
    unsigned long long rawInput;
    unsigned rawInputPitch, rawInputFormat;
    unsigned long long rawOutput;
    unsigned rawOutputPitch, reserved1;
    Stream outputStream;
    unsigned reserved[46];
    unsigned long long* histogram;
    void* reserved2[1];
};

struct GetStatus {
    int status;
    unsigned reserved[31];
    void* pointers[8];
};

struct VideoFormat {
    int codec;
    unsigned frameRateNumerator, frameRateDenominator;
    unsigned char progressiveSequence, bitDepthLumaMinus8, bitDepthChromaMinus8, minNumDecodeSurfaces;
    unsigned codedWidth, codedHeight;
    struct {
        int left, top, right, bottom;
    } displayArea;
    int chroma;
    unsigned bitrate;
    int aspectX, aspectY;
    unsigned char videoFormatBits, colorPrimaries, transferCharacteristics, matrixCoefficients;
    unsigned sequenceHeaderLength;
};

struct SourcePacket {
    unsigned long flags, payloadSize;
    const unsigned char* payload;
    long long timestamp;
};

struct DisplayInfo {
    int surface, progressiveFrame, topFieldFirst, repeatFirstField;
    long long timestamp;
};

using SequenceCallback = int (*)(void*, VideoFormat*);
using DecodeCallback = int (*)(void*, PictureParams*);
using DisplayCallback = int (*)(void*, DisplayInfo*);

struct ParserParams {
    int codec;
    unsigned maxNumDecodeSurfaces, clockRate, errorThreshold, maxDisplayDelay;
    unsigned flags;
    unsigned reserved1[4];
    void* userData;
    SequenceCallback onSequence;
    DecodeCallback onDecode;
    DisplayCallback onDisplay;
    void* onOperatingPoint;
    void* reserved2[6];
    void* extVideoInfo;
};

}  // namespace vd::driver
