"""Every kind of sound clip the tests use, as name -> recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from clips import mp4
from clips.encode import (
    add_audio,
    add_video,
    encode_into,
    open_output,
    pictures,
    remux,
    sine_packets,
    x264,
    x265,
)

INTERLACED_FLAGS = 0x40000 | 0x20000000  # interlaced DCT and interlaced motion estimation
BFRAMES = {"max_b_frames": 2, "gop_size": 12}
BT709, BT601, BT2020 = 1, 6, 9
LIMITED, FULL = 1, 2
VP8_HIDDEN = (4, 11, 22, 23, 31)


@dataclass(frozen=True, eq=False)
class Clip:
    """One recipe. `width` and `height` are the displayed size; `numbers` are what the pictures show, in order."""

    name: str
    codec: str = "libx264"
    options: Mapping[str, str] = field(default_factory=dict)
    suffix: str = "mp4"
    pix_fmt: str = "yuv420p"
    width: int = 128
    height: int = 96
    count: int = 32
    time_base: Fraction = Fraction(1, 25)
    pts: Callable[[int], int] = lambda i: i
    settings: Mapping[str, Any] = field(default_factory=dict)
    mux_options: Mapping[str, str] = field(default_factory=dict)
    container: str | None = None
    interlaced: bool = False
    rotation: int = 0
    mirror: bool = False
    times: str = "exact"  # "shifted": the container has none of presentation, so they hold but for a shift; "none"
    shown: Sequence[int] | None = None
    remux: Callable[[Path, Path], None] | None = None
    extra: str = ""

    @property
    def numbers(self) -> list[int]:
        """What the shown pictures are numbered."""
        return list(self.shown if self.shown is not None else range(self.count))

    def write(self, path: Path) -> None:
        """Make the file."""
        if self.remux is None:
            self._encode(path)
            return
        whole = path.with_name(f"whole_{path.name}")
        self._encode(whole)
        self.remux(whole, path)
        whole.unlink()

    def _encode(self, path: Path) -> None:
        size = (self.height, self.width) if self.rotation in (90, 270) else (self.width, self.height)
        frames = pictures(
            self.count,
            self.width,
            self.height,
            interlaced=self.interlaced,
            rotation=self.rotation,
            mirror=self.mirror,
        )
        ticks = [self.pts(i) for i in range(self.count)]
        with open_output(path, self.mux_options, self.container) as out:
            sound = add_audio(out) if self.extra == "audio_first" else None
            stream = add_video(out, self.codec, self.options, size, self.pix_fmt, self.time_base, self.settings)
            packets = []
            if self.extra == "second_video":
                second = add_video(out, self.codec, self.options, size, self.pix_fmt, self.time_base)
                packets += encode_into(second, pictures(20, *size, first=40), range(20), self.time_base)
            packets += encode_into(stream, frames, ticks, self.time_base, prepare=self._prepare)
            if sound is not None:
                packets += sine_packets(sound, 1.5)
            for packet in sorted(packets, key=lambda p: p.dts * p.time_base):
                out.mux(packet)
        if self.rotation or self.mirror:
            mp4.set_display_matrix(path, self.rotation, self.mirror)

    def _prepare(self, number: int, frame: Any) -> None:
        # Encoders take the picture's tags over the context's.
        for key in ("colorspace", "color_range"):
            if key in self.settings:
                setattr(frame, key, self.settings[key])


def _cut_at_key(nth: int) -> Callable[[Path, Path], None]:
    """Keep the packets from the nth key packet on, so that its leading pictures have lost their references."""

    def choose(packets: list[Any]) -> list[Any]:
        keys = [k for k, packet in enumerate(packets) if packet.is_keyframe]
        return packets[keys[nth] :]

    return lambda source, out: remux(source, out, choose)


def _hide_first(ticks: int) -> Callable[[Path, Path], None]:
    """Move all times back so that an edit list hides what comes before zero."""
    return lambda source, out: remux(source, out, shift=-ticks, mux_options={"avoid_negative_ts": "disabled"})


def _h264(name: str, params: str = "", **changes: Any) -> Clip:
    return Clip(name, "libx264", x264(params), **changes)


#: The least that NVDEC takes of HEVC is 144x144, of VP9 128x128.
_LARGE = {"width": 176, "height": 144}


def _hevc(name: str, params: str = "", **changes: Any) -> Clip:
    return Clip(name, "libx265", x265(params), **{**_LARGE, **changes})


def _vp(name: str, codec: str, **changes: Any) -> Clip:
    # libvpx makes VP9 alt-refs in one pass only in its realtime mode, with variable rate and a look-ahead.
    options = {
        "deadline": "realtime",
        "cpu-used": "6",
        "auto-alt-ref": "1",
        "lag-in-frames": "16",
        "g": "20",
        "b": "150k",
    }
    return Clip(name, codec, {**options, "b": "150k"}, **{"suffix": "webm", "count": 40, **_LARGE, **changes})


def _hide_some(source: Path, out: Path) -> None:
    """Clear the "show" bit of some VP8 pictures and give them the time of the next one: alt-refs, by hand.

    libvpx makes alt-refs of VP8 in two passes only, which PyAV cannot run.
    """

    def choose(packets: list[Any]) -> list[Any]:
        kept = []
        for k, packet in enumerate(packets):
            if k not in VP8_HIDDEN:
                kept.append(packet)
                continue
            data = bytearray(bytes(packet))
            data[0] &= ~0x10
            hidden = type(packet)(bytes(data))
            hidden.time_base, hidden.is_keyframe = packet.time_base, packet.is_keyframe
            hidden.pts = hidden.dts = packets[k + 1].pts
            kept.append(hidden)
        return kept

    remux(source, out, choose)


def _av1(name: str, gop: int, **changes: Any) -> Clip:
    options = {"preset": "8", "crf": "36", "g": str(gop), "svtav1-params": "lp=1"}
    return Clip(name, "libsvtav1", options, **changes)


_GOP_STRUCTURES = [
    _h264("h264", "keyint=16", count=48),
    _h264("h264_open_gop", "open-gop=1:keyint=12:bframes=3:b-pyramid=none", count=40),
    _h264("h264_open_gop_pyramid", "open-gop=1:keyint=12:bframes=5:b-pyramid=normal:b-adapt=0", count=40),
    _h264("h264_15b", "keyint=16:bframes=15:b-adapt=0:b-pyramid=none", count=48),
    _h264("h264_one_gop", "keyint=250", count=40),
    _h264("h264_intra", "keyint=1", count=24),
    _h264("h264_g2", "keyint=2:bframes=0", count=24),
    _h264("h264_intra_refresh", "intra-refresh=1:keyint=12:bframes=0", count=40),
    _h264("h264_intra_refresh_b", "intra-refresh=1:keyint=12:bframes=2", count=40),
    _h264("h264_16_refs", "keyint=40:ref=16:bframes=0", count=40),
    _h264("h264_slices", "slices=4:keyint=12:ref=4"),
    _h264("h264_mbaff", "tff=1:keyint=12", interlaced=True),
    _h264("h264_bottom_first", "bff=1:keyint=12", interlaced=True),
    _h264("h264_fake_interlaced", "fake-interlaced=1:keyint=12"),
    _hevc("hevc", "keyint=12", count=40),
    _hevc("hevc_closed_15b", "no-open-gop=1:keyint=16:bframes=15:b-adapt=0:b-pyramid=0:rc-lookahead=20", count=48),
    _hevc("hevc_pyramid", "no-open-gop=1:keyint=24:bframes=7:b-adapt=0:b-pyramid=1", count=40),
    _hevc("hevc_layers", "temporal-layers=1:keyint=16:bframes=3:b-adapt=0", count=40),
    _hevc("hevc_no_b", "keyint=8:bframes=0", count=24),
    _av1("av1_g2", 2, count=16),
    _av1("av1_hierarchical", 33, count=48),
    _vp("vp8", "libvpx"),
    _vp("vp8_hidden", "libvpx", remux=_hide_some, shown=[k for k in range(40) if k not in VP8_HIDDEN]),
    _vp("vp9", "libvpx-vp9"),
    Clip("mpeg4_b", "mpeg4", {"b": "500k"}, settings=BFRAMES),
    Clip("mpeg2_b", "mpeg2video", {"b": "800k"}, settings=BFRAMES, suffix="mkv"),
    Clip("mpeg1_b", "mpeg1video", {"b": "800k"}, settings=BFRAMES, suffix="mkv"),
    Clip("mjpeg", "mjpeg", {"q": "3"}, pix_fmt="yuvj420p", suffix="mov", count=24),
]

_FORMATS = [
    _h264("h264_422", "keyint=12", pix_fmt="yuv422p", count=24),
    _h264("h264_444", "keyint=12", pix_fmt="yuv444p", count=24),
    _h264("h264_gray", "keyint=12", pix_fmt="gray", count=24),
    _h264("h264_10bit", "keyint=12", pix_fmt="yuv420p10le", count=24),
    _h264("h264_422_10bit", "keyint=12", pix_fmt="yuv422p10le", count=24),
    _h264("h264_444_10bit", "keyint=12", pix_fmt="yuv444p10le", count=24),
    _hevc("hevc_10bit", "keyint=12", pix_fmt="yuv420p10le", count=24),
    _hevc("hevc_12bit", "keyint=12", pix_fmt="yuv420p12le", count=24),
    _hevc("hevc_444", "keyint=12", pix_fmt="yuv444p", count=24),
    _hevc("hevc_gray", "keyint=12", pix_fmt="gray", count=24),
    _av1("av1_10bit", 12, pix_fmt="yuv420p10le", count=24),
    _h264("h264_bt709", "keyint=12", settings={"colorspace": BT709, "color_range": LIMITED}, count=24),
    _h264("h264_bt709_full", "keyint=12", settings={"colorspace": BT709, "color_range": FULL}, count=24),
    _h264("h264_bt601", "keyint=12", settings={"colorspace": BT601, "color_range": LIMITED}, count=24),
    _h264("h264_full", "keyint=12", pix_fmt="yuvj420p", settings={"color_range": FULL}, count=24),
    _hevc("hevc_bt2020_10bit", "keyint=12", pix_fmt="yuv420p10le", settings={"colorspace": BT2020}, count=24),
    _h264("h264_444_bt709_full", "", pix_fmt="yuv444p", settings={"colorspace": BT709, "color_range": FULL}, count=12),
    _h264("h264_cropped", "keyint=12", width=162, height=130, count=24),
    _h264("h264_cropped_less", "keyint=12", width=170, height=138, count=24),  # as many macroblocks as h264_cropped
    _h264("h264_wide", "keyint=12", width=146, height=96, count=24),
    _hevc("hevc_cropped", "keyint=12", width=150, height=146, count=24),
    _vp("vp9_odd_width", "libvpx-vp9", width=161, height=128, count=24),
    _vp("vp9_odd", "libvpx-vp9", width=161, height=129, count=24),
    _vp("vp8_odd", "libvpx", width=161, height=129, count=24),
    _av1("av1_odd", 12, width=161, height=129, count=24),
]

_CONTAINERS = [
    _h264("h264_mov", "keyint=12", suffix="mov"),
    _h264("h264_faststart", "keyint=12", mux_options={"movflags": "faststart"}),
    _h264("h264_fragmented", "keyint=12", mux_options={"movflags": "frag_keyframe+empty_moov"}),
    _h264(
        "h264_fragments_6",
        "keyint=12",
        mux_options={"movflags": "empty_moov+default_base_moof", "frag_duration": "240000"},
    ),
    _h264("h264_mkv", "keyint=12", suffix="mkv"),
    _h264("h264_ts", "keyint=12", suffix="ts"),
    _h264("h264_flv", "keyint=12", suffix="flv"),
    _h264("h264_avi", "keyint=12:bframes=0", suffix="avi", times="shifted"),
    Clip("mpeg4_avi", "mpeg4", {"b": "500k"}, settings={"gop_size": 12}, suffix="avi", times="shifted"),
    _h264("h264_raw", "keyint=12:bframes=0", suffix="h264", container="h264", times="none"),
    _h264("h264_raw_b", "keyint=12", suffix="h264", container="h264", times="none"),
    _hevc("hevc_mkv", "keyint=12", suffix="mkv"),
    _hevc("hevc_ts", "keyint=12", suffix="ts"),
    _hevc("hevc_raw", "keyint=12", suffix="hevc", container="hevc", times="none"),
    Clip("mpeg2_ts", "mpeg2video", {"b": "800k"}, settings=BFRAMES, suffix="ts"),
    replace(_vp("vp9_mp4", "libvpx-vp9"), suffix="mp4"),
    replace(_av1("av1_mkv", 12), suffix="mkv"),
    _h264("audio_first", "keyint=12", extra="audio_first"),
    _h264("audio_first_mkv", "keyint=12", suffix="mkv", extra="audio_first"),
    _h264("two_videos", "keyint=12", suffix="mkv", extra="second_video"),
]


def _jitter(i: int) -> int:
    return 33_333 * i + (7919 * i) % 5_000


_TIMES = [
    _h264("vfr", "keyint=12", pts=lambda i: i * i // 4 + 2 * i),
    _h264("vfr_mkv", "keyint=12", suffix="mkv", pts=lambda i: i * i // 4 + 2 * i),
    _h264("time_base_90k", "keyint=12", time_base=Fraction(1, 90_000), pts=lambda i: 3003 * i),
    _h264("time_base_1m", "keyint=12", time_base=Fraction(1, 1_000_000), pts=_jitter),
    _h264("start_10s", "keyint=12", pts=lambda i: 250 + i),
    _h264("start_10s_mkv", "keyint=12", suffix="mkv", pts=lambda i: 250 + i),
    _h264("gap", "keyint=12", pts=lambda i: i if i < 16 else i + 100),
    _h264("edit_list", "keyint=12", remux=_hide_first(5 * 512), shown=range(5, 32)),
    _h264("edit_list_no_b", "keyint=12:bframes=0", remux=_hide_first(5 * 512), shown=range(5, 32)),
    _hevc("edit_list_hevc", "keyint=12", remux=_hide_first(14 * 512), shown=range(14, 32)),
    _h264(
        "h264_cut", "open-gop=1:keyint=12:bframes=3:b-adapt=0:b-pyramid=none", remux=_cut_at_key(1), shown=range(12, 32)
    ),
    _hevc("hevc_cut", "keyint=12:bframes=3:b-adapt=0", remux=_cut_at_key(1), shown=range(12, 32)),
]

_ORIENTATIONS = [
    _h264("rotate_90", "keyint=12", rotation=90, count=16),
    _h264("rotate_180", "keyint=12", rotation=180, count=16),
    _h264("rotate_270", "keyint=12", rotation=270, count=16),
    _h264("mirror", "keyint=12", mirror=True, count=16),
    _h264("mirror_rotate_90", "keyint=12", mirror=True, rotation=90, count=16),
    _hevc("rotate_90_10bit", "keyint=12", rotation=90, pix_fmt="yuv420p10le", count=16),
]

CLIPS: dict[str, Clip] = {clip.name: clip for clip in _GOP_STRUCTURES + _FORMATS + _CONTAINERS + _TIMES + _ORIENTATIONS}
