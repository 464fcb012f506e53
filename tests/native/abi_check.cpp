// Compares the core's own declarations with NVIDIA's headers (Debian: libffmpeg-nvenc-dev). Compiling it is the test.
#include <ffnvcodec/dynlink_loader.h>

#include <cstddef>

#include "core/driver/types.h"

namespace own = vd::driver;

#define SAME_SIZE(mine, theirs) static_assert(sizeof(own::mine) == sizeof(theirs), #theirs)
#define SAME_PLACE(mine, field, theirs, their_field) \
    static_assert(offsetof(own::mine, field) == offsetof(theirs, their_field), #theirs "." #their_field)

SAME_SIZE(Memcpy2D, CUDA_MEMCPY2D);
SAME_PLACE(Memcpy2D, srcPitch, CUDA_MEMCPY2D, srcPitch);
SAME_PLACE(Memcpy2D, dstDevice, CUDA_MEMCPY2D, dstDevice);
SAME_PLACE(Memcpy2D, Height, CUDA_MEMCPY2D, Height);

SAME_SIZE(DecodeCaps, CUVIDDECODECAPS);
SAME_PLACE(DecodeCaps, isSupported, CUVIDDECODECAPS, bIsSupported);
SAME_PLACE(DecodeCaps, maxWidth, CUVIDDECODECAPS, nMaxWidth);
SAME_PLACE(DecodeCaps, minWidth, CUVIDDECODECAPS, nMinWidth);

SAME_SIZE(CreateInfo, CUVIDDECODECREATEINFO);
SAME_PLACE(CreateInfo, codec, CUVIDDECODECREATEINFO, CodecType);
SAME_PLACE(CreateInfo, bitDepthMinus8, CUVIDDECODECREATEINFO, bitDepthMinus8);
SAME_PLACE(CreateInfo, maxWidth, CUVIDDECODECREATEINFO, ulMaxWidth);
SAME_PLACE(CreateInfo, displayArea, CUVIDDECODECREATEINFO, display_area);
SAME_PLACE(CreateInfo, outputFormat, CUVIDDECODECREATEINFO, OutputFormat);
SAME_PLACE(CreateInfo, targetWidth, CUVIDDECODECREATEINFO, ulTargetWidth);
SAME_PLACE(CreateInfo, numOutputSurfaces, CUVIDDECODECREATEINFO, ulNumOutputSurfaces);
SAME_PLACE(CreateInfo, targetRect, CUVIDDECODECREATEINFO, target_rect);

SAME_SIZE(ReconfigureInfo, CUVIDRECONFIGUREDECODERINFO);
SAME_PLACE(ReconfigureInfo, numDecodeSurfaces, CUVIDRECONFIGUREDECODERINFO, ulNumDecodeSurfaces);
SAME_PLACE(ReconfigureInfo, displayArea, CUVIDRECONFIGUREDECODERINFO, display_area);

SAME_PLACE(PictureParams, surface, CUVIDPICPARAMS, CurrPicIdx);

SAME_SIZE(ProcParams, CUVIDPROCPARAMS);
SAME_PLACE(ProcParams, progressiveFrame, CUVIDPROCPARAMS, progressive_frame);
SAME_PLACE(ProcParams, topFieldFirst, CUVIDPROCPARAMS, top_field_first);
SAME_PLACE(ProcParams, unpairedField, CUVIDPROCPARAMS, unpaired_field);
SAME_PLACE(ProcParams, outputStream, CUVIDPROCPARAMS, output_stream);

SAME_SIZE(GetStatus, CUVIDGETDECODESTATUS);
SAME_SIZE(VideoFormat, CUVIDEOFORMAT);
SAME_PLACE(VideoFormat, minNumDecodeSurfaces, CUVIDEOFORMAT, min_num_decode_surfaces);
SAME_PLACE(VideoFormat, codedWidth, CUVIDEOFORMAT, coded_width);
SAME_PLACE(VideoFormat, displayArea, CUVIDEOFORMAT, display_area);
SAME_PLACE(VideoFormat, chroma, CUVIDEOFORMAT, chroma_format);

SAME_SIZE(SourcePacket, CUVIDSOURCEDATAPACKET);
SAME_PLACE(SourcePacket, payload, CUVIDSOURCEDATAPACKET, payload);
SAME_PLACE(SourcePacket, timestamp, CUVIDSOURCEDATAPACKET, timestamp);
SAME_SIZE(DisplayInfo, CUVIDPARSERDISPINFO);
SAME_PLACE(DisplayInfo, timestamp, CUVIDPARSERDISPINFO, timestamp);
SAME_SIZE(ParserParams, CUVIDPARSERPARAMS);
SAME_PLACE(ParserParams, maxDisplayDelay, CUVIDPARSERPARAMS, ulMaxDisplayDelay);
SAME_PLACE(ParserParams, userData, CUVIDPARSERPARAMS, pUserData);
SAME_PLACE(ParserParams, onSequence, CUVIDPARSERPARAMS, pfnSequenceCallback);
SAME_PLACE(ParserParams, onDisplay, CUVIDPARSERPARAMS, pfnDisplayPicture);

#define SAME_VALUE(mine, theirs) static_assert(static_cast<long>(own::mine) == static_cast<long>(theirs), #theirs)

SAME_VALUE(kMpeg2, cudaVideoCodec_MPEG2);
SAME_VALUE(kMpeg4, cudaVideoCodec_MPEG4);
SAME_VALUE(kH264, cudaVideoCodec_H264);
SAME_VALUE(kHevc, cudaVideoCodec_HEVC);
SAME_VALUE(kVp8, cudaVideoCodec_VP8);
SAME_VALUE(kVp9, cudaVideoCodec_VP9);
SAME_VALUE(kAv1, cudaVideoCodec_AV1);
SAME_VALUE(kMonochrome, cudaVideoChromaFormat_Monochrome);
SAME_VALUE(k444, cudaVideoChromaFormat_444);
SAME_VALUE(kNv12, cudaVideoSurfaceFormat_NV12);
SAME_VALUE(kP016, cudaVideoSurfaceFormat_P016);
SAME_VALUE(kYuv444, cudaVideoSurfaceFormat_YUV444);
SAME_VALUE(kYuv444_16, cudaVideoSurfaceFormat_YUV444_16Bit);
SAME_VALUE(kStatusError, cuvidDecodeStatus_Error);
SAME_VALUE(kStatusErrorConcealed, cuvidDecodeStatus_Error_Concealed);
SAME_VALUE(kCreatePreferCuvid, cudaVideoCreate_PreferCUVID);
SAME_VALUE(kDeinterlaceWeave, cudaVideoDeinterlaceMode_Weave);
SAME_VALUE(kPacketEndOfStream, CUVID_PKT_ENDOFSTREAM);
SAME_VALUE(kPacketTimestamp, CUVID_PKT_TIMESTAMP);
SAME_VALUE(kPacketEndOfPicture, CUVID_PKT_ENDOFPICTURE);
SAME_VALUE(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_VALUE(kMemoryTypeDevice, CU_MEMORYTYPE_DEVICE);

int main() {
    return 0;
}
